"""Admin of the alerts. Rules, silences and channels are made by the services the API uses."""

# Django names the arguments of these methods, whether we need them or not.

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.alerts import services, words
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
from apps.core.admin import ReadOnlyAdmin, key_of
from apps.core.adminacts import Call, Chosen, confirmed
from apps.core.phrases import read
from apps.engine.clock import SystemClock


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    """Rules; they are edited at /alerts/rules, where a change is checked."""

    list_display = [
        "name_said", "kind", "scope", "subject", "threshold", "pending_s", "severity", "enabled",
        "looked_at",
    ]  # fmt: skip
    list_filter = ["kind", "severity", "enabled"]
    search_fields = ["name", "subject"]

    @admin.display(description=gettext_lazy("name"), ordering="name")
    def name_said(self, rule: AlertRule) -> str:
        """Return what the rule is called."""
        return read(words.rule_name(rule.name))


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts, the newest first."""

    list_display = [
        "id", "rule_said", "subject", "state", "severity", "value", "fired_at", "acknowledged_by",
        "resolved_at",
    ]  # fmt: skip
    # The rule is named by its link, and beside the alert's own name where it is gone.
    exclude = ["rule_name"]
    list_filter = ["state", "severity", "kind", "fired_at"]
    search_fields = ["subject__exact", "rule_name__exact"]
    search_help_text = gettext_lazy("A group or a rule, whole.")
    date_hierarchy = "fired_at"
    actions = ["acknowledge"]

    @admin.display(description=gettext_lazy("rule"), ordering="rule_name")
    def rule_said(self, alert: Alert) -> str:
        """Return what its rule is called."""
        return read(words.rule_name(alert.rule_name))

    @confirmed(
        description=gettext_lazy("Acknowledge those that fire"),
        title=gettext_lazy("Acknowledge alerts"),
        said=gettext_lazy("Acknowledged, they go on firing, and say who looks after them."),
        button=gettext_lazy("Acknowledge them"),
        call=Call("POST", "api/v1/alerts/<str:alert>:acknowledge"),
        permission="alerts.change_alert",
        parts=lambda alert: {"alert": str(alert.pk)},
    )
    def acknowledge(self, request: HttpRequest, alert: Alert, _chosen: Chosen) -> str:
        """Say that somebody looks after an alert."""
        services.acknowledge(
            alert_id=alert.pk, by=actor_of(request), now_ms=SystemClock().wall_ms()
        )
        return _("alert %(number)d acknowledged") % {"number": alert.pk}


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
        "ended_at",
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

    @admin.display(description=gettext_lazy("address"))
    def address(self, channel: Channel) -> str:
        """Return as much of the address as anybody may see."""
        return shown(channel.url) if channel.url else ", ".join(channel.recipients)


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """What channels were told, or are to be told."""

    list_display = [
        "id", "channel", "alert", "state", "attempts", "error", "created_at", "next_at",
    ]  # fmt: skip
    list_filter = ["state", "created_at"]
    list_select_related = ["channel", "alert"]
    search_fields = ["channel__name__exact", "alert__subject__exact"]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Attempts at notifications."""

    list_display = [
        "at",
        "channel",
        key_of("notification", gettext_lazy("notification")),
        "is_good",
        "status",
        "duration_ms",
        "error",
    ]
    list_filter = ["is_good", "at"]
    list_select_related = ["channel"]
    search_fields = ["channel__name__exact"]


@admin.register(Watch)
class WatchAdmin(ReadOnlyAdmin):
    """When rules were looked at last."""

    list_display = ["id", "evaluated_at"]
