"""Admin of dead letters and of the jobs that send them again.

Rows are looked at and not edited; what is done to letters goes through the same services as the
API's. An action takes the letters that are ticked, or all that the list's filters match.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.adminacts import Call, Chosen, Place, confirmed, may, offered
from apps.core.admincells import NOTHING, broken
from apps.core.moments import moment
from apps.deadletters import exporting, services
from apps.deadletters.filters import has_key
from apps.deadletters.forms import DiscardForm, ResendForm
from apps.deadletters.models import DeadLetter, ResendJob, ResendTrouble, State
from apps.deadletters.services.requests import plan_of

_MAY_RESEND = "deadletters.resend_deadletter"
_REASONS_MAX = 20


def _groups_of(letters: QuerySet[Any], groups_max: int) -> list[str]:
    return sorted(set(letters.order_by().values_list("group", flat=True)))[:groups_max]


def _where_to(group: str, letters: QuerySet[Any]) -> Iterable[str]:
    """Yield how many letters of a group would go where, and what is in the way."""
    for line in plan_of(letters.filter(group=group), group=group, target=""):
        text = _("%(group)s: %(count)s to a topic that is not known")
        if line["topic"]:
            text = _("%(group)s: %(count)s to %(topic)s")
        told = text % {"group": group, "count": line["count"], "topic": line["topic"]}
        yield f"{told} — {line['trouble']}" if line["trouble"] else told


def _how_many(group: str, letters: QuerySet[Any]) -> Iterable[str]:
    count = letters.filter(group=group).count()
    text = ngettext("%(group)s: %(count)s letter", "%(group)s: %(count)s letters", count)
    yield text % {"group": group, "count": count}


# What is done to letters is done group by group, as it is allowed group by group.
_OF_GROUPS: dict[str, Any] = {
    "permission": _MAY_RESEND,
    "rows_of": lambda letters: letters.filter(state=State.WAITING),
    "things_of": _groups_of,
    "parts": lambda group: {"group": group},
}
_EXPORT: dict[str, Any] = {
    "call": Call("GET", "api/v1/groups/<str:group>/dead-letters:export"),
    "permission": "deadletters.view_deadletter",
}


def _exported(request: HttpRequest, letters: QuerySet[Any], name: str) -> HttpResponseBase:
    """Return a file of the letters of groups whose bodies whoever asks may see."""
    groups = set(letters.order_by().values_list("group", flat=True))
    shown = [
        group
        for group in groups
        if may(request, _EXPORT["call"], Place(parts={"group": group})).is_allowed
    ]
    if groups and not shown:
        raise PermissionDenied(_("You may not see messages of these groups."))
    rows = letters.filter(group__in=shown)
    return exporting.answer(exporting.FORMATS[name], rows, group="selected", rows_max=None)


class ReasonFilter(admin.SimpleListFilter):
    """What most letters that wait died of."""

    title = gettext_lazy("reason")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the most frequent reasons, and none of the many that came once."""
        waiting = DeadLetter.objects.filter(state=State.WAITING).order_by()
        counted = waiting.values_list("reason").annotate(count=Count("pk")).order_by("-count")
        return [(reason, reason or _("(none given)")) for reason, _count in counted[:_REASONS_MAX]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the letters that died of the chosen one."""
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(reason=chosen)


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Dead letters, the newest first."""

    list_display = [
        "group", "queue_offset", "state", "origin_topic", "keys", "attempts", "reason", "dead_at",
        "job",
    ]  # fmt: skip
    fields = [
        "group", "queue_offset", "state", "message_id", "keys", "tag", "size_bytes", "reason",
        "attempts", "failures", "first_failed_at", "dead_at", "origin_topic", "origin_queue",
        "origin_offset", "job", "trouble", "resent_at", "resent_topic", "resent_queue",
        "resent_offset", "discarded_at", "discarded_by", "discard_reason", "store_id",
    ]  # fmt: skip
    readonly_fields = ["failures"]
    list_filter = [
        "state",
        ("dead_at", admin.DateFieldListFilter),
        ("group", admin.AllValuesFieldListFilter),
        ("origin_topic", admin.AllValuesFieldListFilter),
        ReasonFilter,
    ]
    list_select_related = ["job"]
    search_fields = ["message_id__exact"]
    search_help_text = gettext_lazy("A message id or one of its keys, whole.")
    date_hierarchy = "dead_at"
    actions = ["resend", "discard", "export_csv", "export_json"]

    @admin.display(description=gettext_lazy("history of failures"))
    def failures(self, letter: DeadLetter) -> str:
        """Return one failure a line: when, at which attempt, why, and at whom."""
        lines = []
        for attempt, at_ms, reason, client in letter.history:
            at = localize(localtime(moment(at_ms)))
            values = {"at": at, "n": attempt, "reason": reason or _("(none given)")}
            text = _("%(at)s, attempt %(n)s: %(reason)s") % values
            lines.append(f"{text} — {client}" if client else text)
        return broken(lines) or NOTHING

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look for a message id or a key, byte by byte."""
        term = search_term.strip()
        if term:
            queryset = queryset.filter(Q(message_id=term) | has_key(term))
        return queryset, False

    @confirmed(
        description=gettext_lazy("Resend (asks where to, and how fast)"),
        title=gettext_lazy("Send dead letters again"),
        said=gettext_lazy(
            "Those that wait would go to the topics they come from, unless another is named:"
        ),
        button=gettext_lazy("Send them"),
        call=Call("POST", "api/v1/groups/<str:group>/dead-letters:resend"),
        form=ResendForm,
        plan=_where_to,
        **_OF_GROUPS,
    )
    def resend(self, request: HttpRequest, group: str, chosen: Chosen) -> str:
        """Make a job for the letters of one group."""
        assert isinstance(chosen.form, ResendForm)
        criteria = (
            {"admin": request.GET.urlencode()}
            if chosen.is_all
            else {"ids": request.POST.getlist("_selected_action")}
        )
        job = services.request_resend(
            group=group,
            letters=chosen.rows,
            criteria=criteria,
            wish=chosen.form.wish(group),
            by=actor_of(request),
        )
        return format_html(
            '<a href="{}">{} {}</a> · {}: {} {}',
            reverse("admin:deadletters_resendjob_change", args=[job.pk]),
            _("Job"),
            job.pk,
            group,
            job.total,
            _("would be sent") if job.dry_run else _("are being sent"),
        )

    @confirmed(
        description=gettext_lazy("Discard (asks for a reason)"),
        title=gettext_lazy("Discard dead letters"),
        said=gettext_lazy(
            "Those that wait would not be sent again by anybody. The log keeps them."
        ),
        button=gettext_lazy("Discard them"),
        call=Call("POST", "api/v1/groups/<str:group>/dead-letters:discard"),
        form=DiscardForm,
        plan=_how_many,
        **_OF_GROUPS,
    )
    def discard(self, request: HttpRequest, group: str, chosen: Chosen) -> str:
        """Mark the letters of one group that wait."""
        assert chosen.form is not None
        discarded = services.discard(
            letters=chosen.rows.filter(group=group),
            reason=chosen.form.cleaned_data["reason"],
            by=actor_of(request),
        )
        text = ngettext("%(n)d letter discarded", "%(n)d letters discarded", discarded)
        return f"{group}: {text % {'n': discarded}}"

    @offered(description=gettext_lazy("Export as CSV, with bodies"), **_EXPORT)
    def export_csv(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase:
        """Stream the letters as a table."""
        return _exported(request, queryset, "csv")

    @offered(description=gettext_lazy("Export as JSON lines, with bodies"), **_EXPORT)
    def export_json(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase:
        """Stream the letters as JSON lines."""
        return _exported(request, queryset, "jsonl")


@admin.register(ResendJob)
class ResendJobAdmin(ReadOnlyAdmin):
    """Jobs, the newest first; one that runs can be called off."""

    list_display = [
        "id", "group", "state", "dry_run", "target", "total", "sent_count", "failed_count",
        "created_by", "created_at",
    ]  # fmt: skip
    list_filter = ["state", "dry_run", "created_at"]
    search_fields = ["group__exact"]
    actions = ["cancel"]

    @confirmed(
        description=gettext_lazy("Cancel: what is not sent waits again"),
        title=gettext_lazy("Cancel jobs"),
        said=gettext_lazy("What such a job has not sent waits again; what it has sent stays sent."),
        button=gettext_lazy("Cancel them"),
        call=Call("POST", "api/v1/jobs/<str:job>:cancel"),
        permission=_MAY_RESEND,
        parts=lambda job: {"job": str(job.pk)},
        names=lambda job: (job.group,),
    )
    def cancel(self, request: HttpRequest, job: ResendJob, _chosen: Chosen) -> str:
        """Call one job off."""
        services.cancel(job_id=job.pk, by=actor_of(request))
        return _("%(job)s is called off") % {"job": job}


@admin.register(ResendTrouble)
class ResendTroubleAdmin(ReadOnlyAdmin):
    """Letters that jobs could not send."""

    list_display = ["job", "letter", "outcome", "detail", "at"]
    list_filter = ["outcome"]
    list_select_related = ["job", "letter"]
    search_fields = ["job__group__exact"]
