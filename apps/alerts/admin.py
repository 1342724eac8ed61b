"""Admin of the alerts. Rules, silences and channels are made by the services the API uses."""

# Django names the arguments of these methods, whether we need them or not.

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.alerts import services
from apps.alerts.models import (
    Alert,
    AlertEvent,
    AlertRule,
    Channel,
    Delivery,
    Notification,
    Silence,
    Watch,
)
from apps.alerts.outbound.targets import shown
from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.exceptions import ProblemError
from apps.engine.clock import SystemClock


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    """Rules; they are edited at /alerts/rules, where a change is checked."""

    list_display = [
        "name", "kind", "scope", "subject", "threshold", "pending_s", "severity", "enabled",
        "looked_at", "unknown_since", "updated_by", "updated_at",
    ]  # fmt: skip
    list_filter = ["kind", "severity", "enabled"]
    search_fields = ["name", "subject"]


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts, the newest first."""

    list_display = [
        "id", "rule_name", "subject", "state", "severity", "value", "threshold", "pending_at",
        "fired_at", "acknowledged_by", "resolved_at", "resolution", "unknown_since",
    ]  # fmt: skip
    list_filter = ["state", "severity", "kind", "fired_at"]
    search_fields = ["subject__exact", "rule_name__exact"]
    search_help_text = "A group or a rule, whole."
    actions = ["acknowledge"]

    def has_acknowledge_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who may change alerts, although nobody may edit the rows."""
        return request.user.has_perm("alerts.change_alert")

    @admin.action(description="Acknowledge those that fire", permissions=["acknowledge"])
    def acknowledge(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Say that somebody looks after them."""
        for number in queryset.order_by("pk").values_list("pk", flat=True)[:200]:
            try:
                services.acknowledge(
                    alert_id=number, by=actor_of(request), now_ms=SystemClock().wall_ms()
                )
            except ProblemError as refusal:
                self.message_user(request, f"alert {number}: {refusal}", messages.ERROR)
            else:
                self.message_user(request, f"alert {number} acknowledged", messages.SUCCESS)


@admin.register(AlertEvent)
class AlertEventAdmin(ReadOnlyAdmin):
    """Changes of alerts."""

    list_display = ["at", "alert", "state", "value", "by", "note"]
    list_filter = ["state", "at"]
    list_select_related = ["alert"]
    search_fields = ["alert__subject__exact"]
    ordering = ["-id"]


@admin.register(Silence)
class SilenceAdmin(ReadOnlyAdmin):
    """Silences, the newest first."""

    list_display = [
        "id", "kind", "scope", "subject", "starts_at", "ends_at", "reason", "created_by",
        "ended_at", "ended_by",
    ]  # fmt: skip
    list_filter = ["kind", "ends_at"]
    search_fields = ["subject__exact"]


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin):
    """Channels; what follows the host of an address may be a secret and is not shown."""

    list_display = [
        "name", "kind", "address", "severity_min", "rate_per_min", "tells_end", "enabled",
        "updated_by", "updated_at",
    ]  # fmt: skip
    list_filter = ["kind", "enabled"]
    exclude = ["url"]
    search_fields = ["name"]

    @admin.display(description="address")
    def address(self, channel: Channel) -> str:
        """Return as much of the address as anybody may see."""
        return shown(channel.url) if channel.url else ", ".join(channel.recipients)


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """What channels were told, or are to be told."""

    list_display = [
        "id", "channel", "alert", "state", "attempts", "error", "created_at", "next_at", "ended_at",
    ]  # fmt: skip
    list_filter = ["state", "created_at"]
    list_select_related = ["channel", "alert"]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Attempts at notifications."""

    list_display = ["at", "channel", "notification_id", "is_good", "status", "duration_ms", "error"]
    list_filter = ["is_good", "at"]
    list_select_related = ["channel"]


@admin.register(Watch)
class WatchAdmin(ReadOnlyAdmin):
    """When rules were looked at last."""

    list_display = ["id", "evaluated_at"]
