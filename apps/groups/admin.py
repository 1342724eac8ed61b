"""Admin of groups. Settings go through the same service as the API's; the rest is to be looked at.

Members, assignments and locks are the engine's: their rows follow it within seconds.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.moments import ms_of
from apps.engine.errors import EngineError, Refused
from apps.engine.failuretypes import RetryPolicy
from apps.engine.grouptypes import QueuePlace
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy
from apps.groups import decisions, services
from apps.groups.catalog import fixed_of, is_fixed
from apps.groups.models import (
    ConsumerGroup,
    ConsumerOffset,
    LockTransition,
    Member,
    OffsetReset,
    QueueAssignment,
    QueueLock,
    Rebalance,
    Subscription,
)
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.models.locks import State
from apps.groups.services import GroupValues

if TYPE_CHECKING:
    # Generic for type checkers only: Django's own classes take no parameter.
    GroupModelForm = forms.ModelForm[ConsumerGroup]
    GroupModelAdmin = admin.ModelAdmin[ConsumerGroup]
else:
    GroupModelForm = forms.ModelForm
    GroupModelAdmin = admin.ModelAdmin


class GroupForm(GroupModelForm):
    """What is decided about a group; refused here exactly where the service would refuse it."""

    class Meta:
        model = ConsumerGroup
        fields = [
            "name", "enabled", "ordered", "strategy", "fixed", "rooms", "inner", "consume_from",
            "consume_from_at", "retry_max", "retry_policy", "retry_delays_ms", "access_lock_ms",
        ]  # fmt: skip

    def clean_fixed(self) -> Any:
        """Return the list of queues; refuse another shape."""
        fixed = self.cleaned_data["fixed"] or {}
        if not is_fixed(fixed):
            raise ValidationError("must be queue numbers by topic by client id")
        return fixed

    def clean_rooms(self) -> Any:
        """Return the rooms; refuse another shape."""
        rooms = self.cleaned_data["rooms"] or []
        if not isinstance(rooms, list) or not all(isinstance(room, str) for room in rooms):
            raise ValidationError("must be a list of names")
        return rooms

    def clean_retry_delays_ms(self) -> Any:
        """Return the delays; refuse another shape."""
        delays = self.cleaned_data["retry_delays_ms"] or []
        if not decisions.are_delays(delays):
            raise ValidationError("must be a list of milliseconds")
        return delays

    def clean(self) -> dict[str, Any]:
        """Return all values; refuse those that do not go together."""
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            name = cleaned.get("name") or self.instance.name
            try:
                decisions.check(GroupSpec(name=name, **self.values()))
            except Refused as refusal:
                raise ValidationError(str(refusal)) from refusal
        return cleaned

    def values(self) -> GroupValues:
        """Return what was entered as the service takes it."""
        given = self.cleaned_data
        begin = given["consume_from_at"]
        return GroupValues(
            enabled=given["enabled"],
            ordered=given["ordered"],
            strategy=Strategy(given["strategy"]) if given["strategy"] else None,
            fixed=fixed_of(given["fixed"]),
            rooms=tuple(given["rooms"]),
            inner=Strategy(given["inner"]),
            consume_from=ConsumeFrom(given["consume_from"]),
            consume_from_ms=None if begin is None else ms_of(begin),
            retry_max=given["retry_max"],
            access_lock_ms=given["access_lock_ms"],
            retry_policy=RetryPolicy(given["retry_policy"]),
            retry_delays_ms=tuple(given["retry_delays_ms"]),
        )


@admin.register(ConsumerGroup)
class ConsumerGroupAdmin(GroupModelAdmin):
    """Groups: the name is fixed once given. One that was ever seen stays."""

    form = GroupForm
    list_display = [
        "name", "enabled", "ordered", "strategy", "consume_from", "retry_max", "retry_policy",
        "access_lock_ms", "decided_at",
    ]  # fmt: skip
    list_filter = ["enabled", "ordered", "strategy", "retry_policy"]
    search_fields = ["name"]
    show_full_result_count = False

    def get_readonly_fields(
        self, request: HttpRequest, obj: ConsumerGroup | None = None
    ) -> list[str]:
        """Return the name of a group that exists."""
        return [] if obj is None else ["name"]

    def has_delete_permission(self, request: HttpRequest, obj: ConsumerGroup | None = None) -> bool:
        """Refuse: progress outlives everything, and the group with it."""
        return False

    def save_model(self, request: HttpRequest, obj: ConsumerGroup, form: Any, change: bool) -> None:
        """Save through the service."""
        services.put_group(name=obj.name, values=form.values(), by=actor_of(request))
        obj.pk = ConsumerGroup.objects.get(name=obj.name).pk


@admin.register(ConsumerOffset)
class ConsumerOffsetAdmin(ReadOnlyAdmin):
    """Progress per group and queue, at most a few seconds old."""

    list_display = ["group", "topic", "queue", "committed", "delivered", "updated_at"]
    search_fields = ["group", "topic"]


@admin.register(OffsetReset)
class OffsetResetAdmin(ReadOnlyAdmin):
    """Where operators had groups go on; undone from the page of the group."""

    list_display = ["group", "target", "by", "reason", "at", "state", "undoes_id"]
    list_filter = ["state"]
    search_fields = ["group", "by", "reason"]


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    """Clients of groups that were there lately."""

    list_display = [
        "group", "client_id", "topics", "model", "ordered", "generation", "conflicts",
        "first_seen_at", "last_seen_at",
    ]  # fmt: skip
    list_filter = ["model", "ordered"]
    search_fields = ["group", "client_id"]


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    """What members want; those that conflict can be filtered out."""

    list_display = [
        "group", "topic", "client_id", "filter", "filter_type", "is_conflicting", "version",
        "seen_at",
    ]  # fmt: skip
    list_filter = ["is_conflicting", "filter_type"]
    search_fields = ["group", "client_id", "topic"]


@admin.register(QueueAssignment)
class QueueAssignmentAdmin(ReadOnlyAdmin):
    """Who reads which queue."""

    list_display = ["group", "topic", "queue", "client_id", "generation"]
    search_fields = ["group", "client_id", "topic"]


@admin.register(Rebalance)
class RebalanceAdmin(ReadOnlyAdmin):
    """When queues were shared out again, and why."""

    list_display = ["at", "group", "generation", "reason", "strategy", "queues_moved"]
    list_filter = ["reason", "strategy"]
    search_fields = ["group__exact"]


@admin.register(LockTransition)
class LockTransitionAdmin(ReadOnlyAdmin):
    """How locks went from hand to hand."""

    list_display = [
        "at", "group", "topic", "queue", "change", "owner", "previous_owner", "epoch", "reason",
    ]  # fmt: skip
    list_filter = ["change"]
    search_fields = ["group__exact", "topic__exact", "owner__exact"]


class ReleaseForm(forms.Form):
    """Why locks are taken from whoever holds them."""

    reason = forms.CharField(max_length=REASON_CHARACTERS_MAX)


@admin.register(QueueLock)
class QueueLockAdmin(ReadOnlyAdmin):
    """Locks of queues; they can be taken from whoever holds them."""

    list_display = [
        "group", "topic", "queue", "state", "owner", "epoch", "acquired_at", "expires_at",
    ]  # fmt: skip
    list_filter = ["state"]
    search_fields = ["group", "topic", "owner"]
    actions = ["release"]

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who may change locks, although nobody may edit their rows."""
        return request.user.has_perm("groups.change_queuelock")

    @admin.action(description="Take from its owner (asks for a reason)", permissions=["release"])
    def release(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a reason, then release the chosen locks."""
        held = list(queryset.exclude(state=State.FREE))
        form = ReleaseForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            context = {
                **self.admin_site.each_context(request),
                "title": "Take locks from their owners",
                "locks": held,
                "form": form,
                "opts": self.model._meta,
            }
            return TemplateResponse(request, "admin/groups/queuelock/release.html", context)
        reason = f"{form.cleaned_data['reason']} ({request.user.get_username()})"
        for lock in held:
            self._release(request, lock, reason[-REASON_CHARACTERS_MAX:])
        return None

    def _release(self, request: HttpRequest, lock: QueueLock, reason: str) -> None:
        try:
            released = services.release_lock(
                group=lock.group,
                place=QueuePlace(topic=lock.topic, queue=lock.queue),
                reason=reason,
                expected_owner=lock.owner,
                by=actor_of(request),
            )
        except EngineError as refusal:
            self.message_user(request, f"{lock}: {refusal}", messages.ERROR)
            return
        told = f"{lock}: " + ("nobody held it" if released is None else f"taken from {lock.owner}")
        self.message_user(request, told, messages.SUCCESS)
