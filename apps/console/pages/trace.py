"""The page of what became of a message. Knows one selector; draws on the server."""

from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _

from apps.console import lifeplot
from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.refusals import why
from apps.engine.errors import Busy, EngineError
from apps.messages import permitted
from apps.messages.life import Event, Life
from apps.messages.texts import gap_text, kind_text

TEMPLATE = "console/messages/trace.html"
# More lines than these are not read by anybody on a page; the API has all of them.
EVENTS_SHOWN = 300


@asking_page
def trace(posted: Posted, request: HttpRequest, *, message_id: str) -> Page:
    """Show the life of a message: what is known, from where, and what is not."""
    del posted
    topic = request.GET.get("topic", "").strip()
    try:
        found = permitted.life_for(request, message_id, only=topic)
    except EngineError as error:
        text = _("The broker cannot tell: %(why)s.") % {"why": why(error)}
        status = 503 if isinstance(error, Busy) else 404
        values = {"message_id": message_id, "topic_name": topic, "trouble": text}
        return Page(template=TEMPLATE, values=values, status=status)
    if found is None:
        raise Http404("there is no message that may be known of")
    is_known = found.head is not None or bool(found.events)
    return Page(
        template=TEMPLATE,
        values={
            "message_id": message_id,
            "topic_name": found.topic,
            "topic_href": shown.topic_path(found.topic) if found.topic else "",
            "href": _href(found),
            "events": [_row(one) for one in found.events[:EVENTS_SHOWN]],
            "event_count": len(found.events),
            "gaps": [gap_text(gap) for gap in sorted(found.gaps)],
            "drawing": lifeplot.drawing(found.events, message_name=_("message")),
            "plot": {"width": lifeplot.WIDTH, "left": lifeplot.LEFT, "right": lifeplot.RIGHT},
            "trouble": "",
        },
        status=200 if is_known else 404,
    )


def _href(found: Life) -> str:
    if found.head is None:
        return ""
    record = found.head.record
    return shown.message_path(record.topic, record.queue, record.queue_offset)


def _row(event: Event) -> shown.Row:
    has_place = event.queue is not None and event.queue_offset is not None and event.topic
    took_ms = None
    if event.at_ms is not None and event.ended_ms is not None:
        took_ms = max(0, event.ended_ms - event.at_ms)
    return {
        "what": kind_text(event),
        "level": lifeplot.level_of(event),
        "at": shown.stamp(event.at_ms),
        "took_ms": took_ms,
        "group": event.group,
        "client_id": event.client_id,
        "attempt": event.attempt,
        "result": event.result if event.result != "now" else "",
        "detail": event.detail,
        "place": f"{event.queue}:{event.queue_offset}" if has_place else "",
        "topic": event.topic,
        "href": shown.message_path(event.topic, event.queue or 0, event.queue_offset or 0)
        if has_place
        else "",
        "source": _source_text(event),
    }


def _source_text(event: Event) -> str:
    return {
        "log": _("the log"),
        "traces": _("its consumer"),
        "locks": _("the history of locks"),
        "dead_letters": _("the list of dead letters"),
        "decisions": _("what people decided"),
        "broker": _("the broker, now"),
    }[event.source.value]
