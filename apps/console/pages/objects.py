"""A page for each topic. Knows the picture; a name it lacks gets a helpful 404."""

from collections.abc import Callable, Sequence

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.access import asking
from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.refusals import why
from apps.engine.errors import EngineError
from apps.groups.retrytopics import group_of
from apps.messages import selectors
from apps.messages.selectors import Span
from apps.messages.selectors.spans import QUEUES_MAX

# A queue that holds so many times the mean is said to be uneven.
_UNEVEN = 2.0


@asking_page
def topic(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show one topic: its queues, what they hold from when on, and who reads them.

    Groups are shown as far as the viewer may see them.
    """
    found = next((row for row in posted.snapshot["topics"] if row["name"] == name), None)
    if found is None:
        return no_topic(name)
    spans, trouble = _spans(name)
    return Page(
        template="console/topic.html",
        values={
            "topic": found,
            "readers": readers_of(posted, name, asking.sight_of(request).group),
            "spans": _span_rows(spans),
            "spans_max": QUEUES_MAX,
            "spans_trouble": trouble,
            "skew": _skew(spans),
        },
    )


def no_topic(name: str) -> Page:
    """Describe the page that says that there is no such topic."""
    values = {"name": name, "group": group_of(name)}
    return Page(template="console/no_topic.html", values=values, status=404)


def readers_of(
    posted: Posted, name: str, is_shown: Callable[[str], bool]
) -> list[dict[str, object]]:
    """Return the queues of a topic as each group that reads it, and is shown, is in them."""
    return [
        {"group": group["name"], **progress}
        for group in posted.snapshot["groups"]
        if is_shown(group["name"])
        for progress in group["queues"]
        if progress["topic"] == name
    ]


def _spans(name: str) -> tuple[Sequence[Span], str]:
    try:
        return selectors.spans_of(name), _("The topic has no queue yet.")
    except EngineError as error:
        return (), _("Not known: %(why)s.") % {"why": why(error)}


def _span_rows(spans: Sequence[Span]) -> list[shown.Row]:
    most = max((span.held for span in spans), default=0)
    return [
        {
            "queue": span.queue,
            "held": span.held,
            "oldest_at": shown.stamp(span.oldest_ms),
            "newest_at": shown.stamp(span.newest_ms),
            "percent": round(100 * span.held / most) if most else 0,
        }
        for span in spans
    ]


def _skew(spans: Sequence[Span]) -> str:
    """Say how uneven the queues are; empty where they are not, or hold too little to tell."""
    held = [span.held for span in spans]
    mean = sum(held) / len(held) if held else 0
    if len(held) < 2 or mean < 10 or max(held) < _UNEVEN * mean:
        return ""
    return _(
        "The fullest queue holds %(times).1f times the mean: its keys are sent more often."
    ) % {"times": max(held) / mean}
