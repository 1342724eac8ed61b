"""Admin of groups. Settings go through the same service as the API's; the rest is to be looked at.

Members, assignments and locks are the engine's: their rows follow it within seconds.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.access import asking
from apps.access.policy import Action
from apps.access.policy import group as group_of
from apps.core.actors import actor_of
from apps.core.admin import DecidedAdmin, ReadOnlyAdmin, key_of
from apps.core.adminacts import Call, Chosen, confirmed, offered
from apps.core.admincells import NOTHING
from apps.core.moments import ms_of
from apps.engine.errors import Refused
from apps.engine.failuretypes import RetryPolicy
from apps.engine.grouptypes import QueuePlace
from apps.engine.litetypes import LiteModel
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy
from apps.groups import decisions, services
from apps.groups.catalog import fixed_of, is_fixed
from apps.groups.fences import fence_text
from apps.groups.models import (
    ConsumerGroup,
    ConsumerOffset,
    LockRefusal,
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
    from django_stubs_ext import StrOrPromise

    # Generic for type checkers only: Django's own classes take no parameter.
    GroupModelForm = forms.ModelForm[ConsumerGroup]
else:
    GroupModelForm = forms.ModelForm


class GroupForm(GroupModelForm):
    """What is decided about a group; refused here exactly where the service would refuse it."""

    class Meta:
        model = ConsumerGroup
        fields = [
            "name", "enabled", "ordered", "strategy", "fixed", "rooms", "inner", "consume_from",
            "consume_from_at", "retry_max", "retry_policy", "retry_delays_ms", "access_lock_ms",
            "lite_model",
        ]  # fmt: skip
        widgets: ClassVar[Mapping[str, forms.Widget]] = {
            name: forms.Textarea(attrs={"rows": 2, "cols": 60})
            for name in ("fixed", "rooms", "retry_delays_ms")
        }

    def clean_fixed(self) -> Any:
        """Return the list of queues; refuse another shape."""
        fixed = self.cleaned_data["fixed"] or {}
        if not is_fixed(fixed):
            raise ValidationError(_("must be queue numbers by topic by client id"))
        return fixed

    def clean_rooms(self) -> Any:
        """Return the rooms; refuse another shape."""
        rooms = self.cleaned_data["rooms"] or []
        if not isinstance(rooms, list) or not all(isinstance(room, str) for room in rooms):
            raise ValidationError(_("must be a list of names"))
        return rooms

    def clean_retry_delays_ms(self) -> Any:
        """Return the delays; refuse another shape."""
        delays = self.cleaned_data["retry_delays_ms"] or []
        if not decisions.are_delays(delays):
            raise ValidationError(_("must be a list of milliseconds"))
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
            lite_model=LiteModel(given["lite_model"]),
        )


@admin.display(description=gettext_lazy("queue"), ordering="topic")
def _place(row: Any) -> str:
    """Return the queue of a lock as one column."""
    return f"{row.topic}/{row.queue}"


def _fence(name: str, description: "StrOrPromise") -> Callable[[Any], str]:
    """Return a column with an epoch or a generation as the console writes it."""

    @admin.display(description=description, ordering=name)
    def shown(row: Any) -> str:
        fence = getattr(row, name)
        return NOTHING if fence is None else fence_text(fence)

    shown.__name__ = f"{name}_said"
    return shown


_epoch = _fence("epoch", gettext_lazy("epoch"))
_generation = _fence("generation", gettext_lazy("generation"))


@admin.register(ConsumerGroup)
class ConsumerGroupAdmin(DecidedAdmin):
    """Groups: the name is fixed once given. One that was ever seen stays."""

    form = GroupForm  # type: ignore[assignment]
    fields = (*GroupForm.Meta.fields,)
    list_display = [
        "name", "enabled", "ordered", "strategy", "consume_from", "retry_max", "retry_policy",
        "access_lock_ms", "decided_at",
    ]  # fmt: skip
    list_filter = ["enabled", "ordered", "strategy", "retry_policy"]
    search_fields = ["name"]
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return the name of a group that exists."""
        fixed = [] if obj is None else ["name"]
        return [*fixed, *super().get_readonly_fields(request, obj)]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse: progress outlives everything, and the group with it."""
        return False

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save through the service; PermissionDenied for a new name one may not use."""
        assert isinstance(obj, ConsumerGroup)
        asking.require_within(
            request, Action.UPDATE if change else Action.CREATE, group_of(obj.name)
        )
        services.put_group(name=obj.name, values=form.values(), by=actor_of(request))
        obj.pk = ConsumerGroup.objects.get(name=obj.name).pk


@admin.register(ConsumerOffset)
class ConsumerOffsetAdmin(ReadOnlyAdmin):
    """Progress per group and queue, at most a few seconds old."""

    list_display = ["group", "topic", "queue", "committed", "delivered", "updated_at"]
    search_fields = ["group", "topic"]
    list_filter = ["updated_at"]
    actions = ["reset"]

    @offered(
        description=gettext_lazy("Reset (leads to the preview of one group)"),
        call=Call("POST", "api/v1/groups/<str:group>/offsets:preview"),
        permission="groups.change_consumeroffset",
    )
    def reset(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Lead to the page on which a reset is seen before it is made, and can be undone."""
        groups = sorted(set(queryset.order_by().values_list("group", flat=True)[:1_000]))
        if len(groups) == 1:
            return HttpResponseRedirect(f"/groups/{quote(groups[0], safe='')}/offsets/")
        told = _("A reset is of one group: choose rows of one, or search for it.")
        self.message_user(request, told, messages.WARNING)
        return None


@admin.register(OffsetReset)
class OffsetResetAdmin(ReadOnlyAdmin):
    """Where operators had groups go on; undone from the page of the group."""

    list_display = [
        "group",
        "target",
        "by",
        "reason",
        "at",
        "state",
        key_of("undoes", gettext_lazy("undoes")),
    ]
    list_filter = ["state"]
    search_fields = ["group", "by", "reason"]


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    """Clients of groups that were there lately."""

    list_display = [
        "group", "client_id", "topics", "model", "ordered", _generation, "conflicts",
        "last_seen_at",
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

    list_display = ["group", "topic", "queue", "client_id", _generation]
    search_fields = ["group", "client_id", "topic"]


@admin.register(Rebalance)
class RebalanceAdmin(ReadOnlyAdmin):
    """When queues were shared out again, and why."""

    list_display = ["at", "group", _generation, "reason", "strategy", "queues_moved"]
    list_filter = ["strategy", "at"]
    search_fields = ["group__exact"]
    search_help_text = gettext_lazy("A group, whole.")
    date_hierarchy = "at"


@admin.register(LockTransition)
class LockTransitionAdmin(ReadOnlyAdmin):
    """How locks went from hand to hand."""

    list_display = [
        "at", "group", _place, "change", "owner", "previous_owner", "reason",
    ]  # fmt: skip
    list_filter = ["change", "at"]
    search_fields = ["group__exact", "topic__exact", "owner__exact", "previous_owner__exact"]
    search_help_text = gettext_lazy("A group, a topic or a client id, whole.")
    date_hierarchy = "at"


@admin.register(LockRefusal)
class LockRefusalAdmin(ReadOnlyAdmin):
    """How often locks were refused to whom, by minute."""

    list_display = [
        "at", "group", _place, "owner", "client_id", "count", "last_at",
    ]  # fmt: skip
    list_filter = ["at"]
    search_fields = ["group__exact", "topic__exact", "owner__exact", "client_id__exact"]
    search_help_text = gettext_lazy("A group, a topic or a client id, whole.")
    date_hierarchy = "at"


# Each is a request to the broker and an entry of the audit log.
LOCKS_RELEASED_MAX = 500


class ReleaseForm(forms.Form):
    """Why locks are taken from whoever holds them."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=REASON_CHARACTERS_MAX)


@admin.register(QueueLock)
class QueueLockAdmin(ReadOnlyAdmin):
    """Locks of queues; they can be taken from whoever holds them."""

    list_display = [
        "group", _place, "state", "owner", _epoch, "acquired_at", "expires_at",
    ]  # fmt: skip
    list_filter = ["state"]
    search_fields = ["group", "topic", "owner"]
    actions = ["release"]

    @confirmed(
        description=gettext_lazy("Take from its owner (asks for a reason)"),
        title=gettext_lazy("Take locks from their owners"),
        said=gettext_lazy(
            "Whoever holds a lock is refused from its next request on, and the member the queue is "
            "assigned to may take it."
        ),
        button=gettext_lazy("Take them"),
        call=Call("POST", "api/v1/locks/<str:lock>:release"),
        permission="groups.change_queuelock",
        parts=lambda lock: {"lock": f"{lock.group}~{lock.topic}~{lock.queue}"},
        form=ReleaseForm,
        rows_of=lambda locks: locks.exclude(state=State.FREE),
        things_max=LOCKS_RELEASED_MAX,
        name_of=lambda lock: f"{lock}: {lock.owner}",
    )
    def release(self, request: HttpRequest, lock: QueueLock, chosen: Chosen) -> str:
        """Release one lock, unless it has another owner by now."""
        assert chosen.form is not None
        reason = f"{chosen.form.cleaned_data['reason']} ({request.user.get_username()})"
        released = services.release_lock(
            group=lock.group,
            place=QueuePlace(topic=lock.topic, queue=lock.queue),
            reason=reason[-REASON_CHARACTERS_MAX:],
            expected_owner=lock.owner,
            by=actor_of(request),
        )
        text = _("%(lock)s: nobody held it")
        if released is not None:
            text = _("%(lock)s: taken from %(owner)s")
        return text % {"lock": lock, "owner": lock.owner}
