"""Admin of dead letters and of the jobs that send them again.

Rows are looked at and not edited; what is done to letters goes through the same services as the
API's. An action takes the letters that are ticked, or all that the list's filters match.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.exceptions import ProblemError
from apps.deadletters import exporting, services
from apps.deadletters.filters import has_key
from apps.deadletters.forms import DiscardForm, ResendForm
from apps.deadletters.models import DeadLetter, ResendJob, ResendTrouble, State
from apps.deadletters.services.requests import plan_of
from apps.engine.errors import EngineError

_MAY_RESEND = "deadletters.resend_deadletter"
# A list that a person looks through before the button is pressed.
_GROUPS_MAX = 100
_REASONS_MAX = 20


class ReasonFilter(admin.SimpleListFilter):
    """What most letters that wait died of."""

    title = "reason"
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the most frequent reasons, and none of the many that came once."""
        waiting = DeadLetter.objects.filter(state=State.WAITING).order_by()
        counted = waiting.values_list("reason").annotate(count=Count("pk")).order_by("-count")
        return [(reason, reason or "(none given)") for reason, _ in counted[:_REASONS_MAX]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the letters that died of the chosen one."""
        chosen = self.value()
        return queryset if chosen is None else queryset.filter(reason=chosen)


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Dead letters, the newest first."""

    list_display = [
        "group", "queue_offset", "state", "origin_topic", "message_id", "keys", "attempts",
        "reason", "dead_at", "job", "trouble",
    ]  # fmt: skip
    list_filter = [
        "state",
        ("dead_at", admin.DateFieldListFilter),
        ("group", admin.AllValuesFieldListFilter),
        ("origin_topic", admin.AllValuesFieldListFilter),
        ReasonFilter,
    ]
    list_select_related = ["job"]
    search_fields = ["message_id__exact"]
    search_help_text = "A message id or one of its keys, whole."
    date_hierarchy = "dead_at"
    actions = ["resend", "discard", "export_csv", "export_json"]

    def has_resend_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who were given the right, although nobody may edit the rows."""
        return request.user.has_perm(_MAY_RESEND)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look for a message id or a key, byte by byte."""
        term = search_term.strip()
        if term:
            queryset = queryset.filter(Q(message_id=term) | has_key(term))
        return queryset, False

    @admin.action(description="Resend (asks where to, and how fast)", permissions=["resend"])
    def resend(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Show what would go where, then make a job for each group."""
        form = ResendForm(request.POST if "apply" in request.POST else None)
        waiting = queryset.filter(state=State.WAITING)
        groups = sorted(set(waiting.order_by().values_list("group", flat=True)))[:_GROUPS_MAX]
        if not groups or not form.is_valid():
            plans = [
                (group, plan_of(waiting.filter(group=group), group=group, target=""))
                for group in groups
            ]
            title = "Send dead letters again"
            return self._ask(request, queryset, "resend", form, title, plans=plans)
        for group in groups:
            self._request(request, form, group, waiting)
        return None

    @admin.action(description="Discard (asks for a reason)", permissions=["resend"])
    def discard(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a reason, then mark the letters that wait."""
        form = DiscardForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            count = queryset.filter(state=State.WAITING).count()
            return self._ask(
                request, queryset, "discard", form, "Discard dead letters", count=count
            )
        discarded = services.discard(
            letters=queryset, reason=form.cleaned_data["reason"], by=actor_of(request)
        )
        self.message_user(request, f"{discarded} discarded", messages.SUCCESS)
        return None

    @admin.action(description="Export as CSV, with bodies", permissions=["view"])
    def export_csv(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase:
        """Stream the letters as a table."""
        return exporting.answer(exporting.FORMATS["csv"], queryset, group="selected", rows_max=None)

    @admin.action(description="Export as JSON lines, with bodies", permissions=["view"])
    def export_json(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase:
        """Stream the letters as JSON lines."""
        return exporting.answer(
            exporting.FORMATS["jsonl"], queryset, group="selected", rows_max=None
        )

    def _request(
        self, request: HttpRequest, form: ResendForm, group: str, letters: QuerySet[Any]
    ) -> None:
        is_all = request.POST.get("select_across") == "1"
        criteria = (
            {"admin": request.GET.urlencode()}
            if is_all
            else {"ids": request.POST.getlist("_selected_action")}
        )
        try:
            job = services.request_resend(
                group=group,
                letters=letters,
                criteria=criteria,
                wish=form.wish(group),
                by=actor_of(request),
            )
        except (EngineError, ProblemError) as refusal:
            self.message_user(request, f"{group}: {refusal}", messages.ERROR)
            return
        address = reverse("admin:deadletters_resendjob_change", args=[job.pk])
        told = format_html(
            '<a href="{}">Job {}</a> of {}: {} {}',
            address,
            job.pk,
            group,
            job.total,
            "would be sent" if job.dry_run else "are being sent",
        )
        self.message_user(request, told, messages.SUCCESS)

    def _ask(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        action: str,
        form: forms.Form,
        title: str,
        **values: Any,
    ) -> HttpResponse:
        is_all = request.POST.get("select_across") == "1"
        chosen = request.POST.getlist("_selected_action")
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "form": form,
            "action": action,
            "chosen": chosen[:1] if is_all else chosen,
            "is_all": is_all,
            "opts": self.model._meta,
            **values,
        }
        return TemplateResponse(request, "admin/deadletters/deadletter/ask.html", context)


@admin.register(ResendJob)
class ResendJobAdmin(ReadOnlyAdmin):
    """Jobs, the newest first; one that runs can be called off."""

    list_display = [
        "id", "group", "state", "dry_run", "target", "total", "sent_count", "already_count",
        "gone_count", "failed_count", "returned_count", "rate_per_s", "created_by", "created_at",
        "ended_at", "error",
    ]  # fmt: skip
    list_filter = ["state", "dry_run", "created_at"]
    search_fields = ["group__exact"]
    actions = ["cancel"]

    def has_resend_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who may make jobs."""
        return request.user.has_perm(_MAY_RESEND)

    @admin.action(description="Cancel: what is not sent waits again", permissions=["resend"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Call jobs off."""
        for job in queryset.order_by("pk"):
            try:
                services.cancel(job_id=job.pk, by=actor_of(request))
            except ProblemError as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                self.message_user(request, f"{job} is called off", messages.SUCCESS)


@admin.register(ResendTrouble)
class ResendTroubleAdmin(ReadOnlyAdmin):
    """Letters that jobs could not send."""

    list_display = ["job", "letter", "outcome", "detail", "at"]
    list_filter = ["outcome"]
    list_select_related = ["job", "letter"]
    search_fields = ["job__group__exact"]
