"""The page of delayed messages: a picture, a list that is searched, and buttons for one message.

Knows services and selectors of the delays; does no arithmetic on a picture.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework.exceptions import ValidationError

from apps.access.asking import is_on, require, sight_of
from apps.access.policy import Action, Sight, topic
from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms, field_value
from apps.console.refusals import refusal_text, why
from apps.core.actors import actor_of
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.queries import asked_name, asked_number
from apps.delays import selectors, services
from apps.delays.handles import named_by
from apps.engine import limits
from apps.engine.delaytypes import DelayedMessage, DelayedPage, Recall
from apps.engine.errors import EngineError

MESSAGES_SHOWN = 50
HANDLE_CHARACTERS_MAX = 1024
_Act = Callable[..., Recall]
_FIELDS = ("level", "topic", "from", "to", "cursor")

_CANCEL = {
    Recall.CANCELLED: gettext_lazy("Cancelled: the message will not be delivered."),
    Recall.DELIVERED: gettext_lazy("Too late: the message was delivered before."),
}
_DELIVER_NOW = {
    Recall.DELIVERED: gettext_lazy("Delivered: the message is in its queue."),
    Recall.CANCELLED: gettext_lazy("Not delivered: the message was cancelled before."),
}
_UNKNOWN = gettext_lazy(
    "Unknown: the handle is none of this store's, or so old that nobody knows what became of it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    page: DelayedPage | None = None
    trouble: str = ""


@asking_page
def delays(posted: Posted, request: HttpRequest) -> Page:
    """Show levels, due times, and the messages that were searched for."""
    asked = {name: request.GET.get(name, "") for name in _FIELDS}
    sight = sight_of(request)
    found = _searched(request.GET, sight)
    page = found.page
    return Page(
        template="console/delays.html",
        values={
            "delays": posted.snapshot["delays"],
            "asked": {
                **asked,
                "from": field_value(request.GET, "from"),
                "to": field_value(request.GET, "to"),
            },
            "query": _query(asked),
            "messages_found": None if page is None else [_row(one, sight) for one in page.messages],
            "trouble": found.trouble,
            "next_query": None
            if page is None or page.cursor is None
            else _query({**asked, "cursor": page.cursor}),
        },
    )


@console_action
def cancel(request: HttpRequest) -> Told:
    """Cancel the message of a recall handle."""
    return _done(request, services.cancel, _CANCEL, wanted=Recall.CANCELLED)


@console_action
def deliver_now(request: HttpRequest) -> Told:
    """Deliver the message of a recall handle before its time."""
    return _done(request, services.deliver_now, _DELIVER_NOW, wanted=Recall.DELIVERED)


def _done(
    request: HttpRequest, act: _Act, texts: Mapping[Recall, Promise], *, wanted: Recall
) -> Told:
    asked = {name: request.GET.get(name, "") for name in _FIELDS}
    back = f"/delays{_query(asked)}"
    handle = request.POST.get("handle", "").strip()
    if not 1 <= len(handle) <= HANDLE_CHARACTERS_MAX:
        return Told(text=_("Give the recall handle of a message."), back=back, is_good=False)
    # The engine checks that the message of the handle is of this topic.
    named = named_by(handle)
    if named is not None:
        require(request, Action.DECIDE, topic(named.topic))
    elif is_on():
        return Told(text=str(_UNKNOWN), back=back, is_good=False)
    try:
        outcome = act(handle=handle, by=actor_of(request))
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    return Told(text=str(texts.get(outcome, _UNKNOWN)), back=back, is_good=outcome is wanted)


def _searched(query: QueryDict, sight: Sight) -> _Found:
    entered = given(query)
    try:
        page = selectors.shown_page(
            sight,
            level=asked_number(entered, "level", lowest=1, highest=limits.DELAY_LEVELS_MAX),
            topic=asked_name(entered, "topic"),
            from_ms=entered_time_ms(entered, "from"),
            to_ms=entered_time_ms(entered, "to"),
            cursor=entered.get("cursor"),
            messages_max=MESSAGES_SHOWN,
        )
    except ValidationError as refusal:
        return _Found(trouble=refusal_of(refusal))
    except EngineError as error:
        return _Found(trouble=_("The list cannot be read: %(why)s.") % {"why": why(error)})
    return _Found(page=page)


def _row(message: DelayedMessage, sight: Sight) -> dict[str, object]:
    return {
        "topic": message.topic,
        "queue": message.queue,
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": message.keys if sight.peeks(topic(message.topic)) else None,
        "size_bytes": message.size_bytes,
        "due_at": rfc3339(moment(message.due_ms)),
        "handle": message.handle,
    }


def _query(asked: Mapping[str, str]) -> str:
    """Return what was searched for as the end of an address."""
    entered = {name: value for name, value in asked.items() if value}
    return f"?{urlencode(entered)}" if entered else ""
