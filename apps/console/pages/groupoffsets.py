"""The offsets of a group: looked at, reset after a preview, undone. Knows forms and services.

The preview is an address of its own, so it can be shown to somebody else before it is applied; it
changes nothing.
"""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.group import group_row, no_group
from apps.console.refusals import refusal_text, sentence_of
from apps.console.stored_words import stored
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339
from apps.core.phrases import sentence
from apps.engine import limits
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError
from apps.groups import selectors, services
from apps.groups.models import OffsetReset
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.models.resets import ResetState
from apps.groups.selectors import Preview
from apps.groups.targets import Target, TargetKind

RESETS_SHOWN = 50
_NEEDED = {
    TargetKind.TIME: "time",
    TargetKind.OFFSET: "offset",
    TargetKind.SHIFT: "shift",
    TargetKind.COPY_FROM: "copy_from",
}


class ResetForm(forms.Form):
    """Where a group is to go on, and in which queues."""

    target = forms.ChoiceField(
        label=gettext_lazy("Go on at"),
        choices=[
            (TargetKind.EARLIEST.value, gettext_lazy("the first message")),
            (TargetKind.LATEST.value, gettext_lazy("the end")),
            (TargetKind.TIME.value, gettext_lazy("a time")),
            (TargetKind.OFFSET.value, gettext_lazy("an offset")),
            (TargetKind.SHIFT.value, gettext_lazy("so many messages on, or back")),
            (TargetKind.COPY_FROM.value, gettext_lazy("where another group is")),
        ],
    )
    time = forms.DateTimeField(
        label=gettext_lazy("Time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}),
    )
    offset = forms.IntegerField(
        label=gettext_lazy("Offset"), required=False, min_value=0, max_value=2**63 - 1
    )
    shift = forms.IntegerField(
        label=gettext_lazy("Number of messages"),
        required=False,
        min_value=-(2**62),
        max_value=2**62,
    )
    copy_from = forms.CharField(
        label=gettext_lazy("Other group"), required=False, max_length=limits.NAME_CHARACTERS_MAX
    )
    topic = forms.CharField(
        label=gettext_lazy("Only topic"), required=False, max_length=limits.NAME_CHARACTERS_MAX + 7
    )
    queue = forms.IntegerField(
        label=gettext_lazy("Only queue"),
        required=False,
        min_value=0,
        max_value=limits.QUEUE_COUNT_MAX,
    )

    def clean(self) -> dict[str, Any]:
        """Return the values; refuse a target without what it needs, and a queue of no topic."""
        values = super().clean() or {}
        kind = values.get("target")
        needed = _NEEDED.get(TargetKind(kind)) if kind else None
        if needed is not None and values.get(needed) in (None, ""):
            self.add_error(needed, _("is needed for this target"))
        if values.get("queue") is not None and not values.get("topic"):
            self.add_error("topic", _("is needed to name a queue"))
        return values

    def wanted(self) -> Target:
        """Return the target that was validated."""
        values = self.cleaned_data
        kind = TargetKind(values["target"])
        needed = _NEEDED.get(kind)
        return Target(
            kind=kind,
            time_ms=ms_of(values["time"]) if needed == "time" else None,
            offset=values["offset"] if needed == "offset" else None,
            shift=values["shift"] if needed == "shift" else None,
            copy_from=values["copy_from"] if needed == "copy_from" else None,
        )


@asking_page
def offsets(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show where a group is, what a reset would do, and the resets there were."""
    found = group_row(posted, name)
    if found is None:
        return no_group(name)
    is_asked = "target" in request.GET
    form = ResetForm(request.GET if is_asked else None)
    preview, trouble = (None, "")
    if is_asked and form.is_valid():
        preview, trouble = _preview(name, form)
    rows = selectors.resets(name, before=None, lines_max=RESETS_SHOWN)
    values = {
        "group": found,
        "here": "offsets",
        "form": form,
        "preview": preview,
        "trouble": trouble,
        "resets": [_reset_row(row) for row in rows],
        "resets_max": RESETS_SHOWN,
        "reason_characters_max": REASON_CHARACTERS_MAX,
    }
    return Page(template="console/groups/offsets.html", values=values)


@console_action
def apply(request: HttpRequest, *, name: str) -> Told:
    """Carry out a reset that was previewed."""
    back = _back(request, "apply")
    try:
        row = services.apply_offsets(
            group=name,
            token=request.POST.get("token", ""),
            by=actor_of(request),
            reason=request.POST.get("reason", ""),
            clock=SystemClock(),
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    text = _("The group goes on at %(target)s in %(count)d queues. It can be undone below.")
    return Told(text=text % {"target": row.target, "count": len(row.queues)}, back=back)


@console_action
def undo(request: HttpRequest, *, name: str) -> Told:
    """Have the group go on where it was before a reset."""
    back = _back(request, "undo")
    number = request.POST.get("undo_id", "")
    is_number = number.isascii() and number.isdigit() and len(number) <= 18
    try:
        if not is_number:
            raise ProblemError("not_found", sentence("the page did not say which reset is meant"))
        row = services.undo_offsets(
            group=name,
            undo_id=int(number),
            by=actor_of(request),
            reason=request.POST.get("reason", ""),
            clock=SystemClock(),
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    except ProblemError as error:
        return Told(text=sentence_of(error), back=back, is_good=False)
    text = _("Undone: the group goes on where it was in %(count)d queues.")
    return Told(text=text % {"count": len(row.queues)}, back=back)


def _back(request: HttpRequest, act: str) -> str:
    return request.path.removesuffix(act)


def _preview(name: str, form: ResetForm) -> tuple[Preview | None, str]:
    values: Mapping[str, Any] = form.cleaned_data
    queue = values.get("queue")
    try:
        preview = selectors.preview(
            group=name,
            target=form.wanted(),
            topic=values.get("topic") or None,
            queues=None if queue is None else [queue],
        )
    except (EngineError, ProblemError) as error:
        return None, sentence_of(error)
    return preview, ""


def _reset_row(row: OffsetReset) -> Mapping[str, object]:
    return {
        "undo_id": row.pk,
        "at": rfc3339(row.at),
        "target": stored(row.target),
        "by": row.by,
        "reason": row.reason,
        "state": row.state,
        "queues": row.queues,
        "can_undo": row.state == ResetState.APPLIED and row.undoes_id is None,
    }
