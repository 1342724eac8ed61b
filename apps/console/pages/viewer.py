"""The page of one message: what it says, its body, who has passed it; and its body as a file.

Knows selectors; looking for nobody's sake hands nothing out.
"""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.access.asking import access_of
from apps.access.policy import Action
from apps.access.policy import topic as topic_of
from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.refusals import why
from apps.core import attachments
from apps.engine.errors import EngineError
from apps.engine.limits import MIB
from apps.engine.types import QueueRange
from apps.messages import bodies, grouping, selectors
from apps.messages.bodies import Opened, Trouble, View
from apps.messages.seen import Seen
from apps.messages.selectors import Found, Surroundings

PROPERTY_CHARACTERS = 4_000
_VIEWS: Mapping[View, str | Promise] = {
    View.TEXT: pgettext_lazy("view of a body", "text"),
    View.JSON: View.JSON.value,
    View.HEX: pgettext_lazy("view of a body", "hex"),
    View.BASE64: View.BASE64.value,
}


@asking_page
def message(posted: Posted, request: HttpRequest, *, name: str, queue: int, offset: int) -> Page:
    """Show one message of a queue with all about it."""
    found, trouble = None, ""
    try:
        found = selectors.message_at(name, queue, offset)
    except EngineError as error:
        trouble = _("The broker cannot show it: %(why)s.") % {"why": why(error)}
        if not error.retriable:
            return _none(name, queue, offset, trouble=trouble, status=500)
        return _none(name, queue, offset, trouble=trouble, status=503)
    if found is None:
        return _none(name, queue, offset, status=404)
    now_ms = posted.snapshot["sampled_at_ms"]
    around, trouble = _around(found)
    access = access_of(request)
    copies = [
        one
        for one in around.copies.messages
        if not _is_same(one, found)
        and access.may(Action.PEEK, topic_of(one.record.topic)).is_allowed
    ]
    return Page(
        template="console/messages/message.html",
        values={
            "row": shown.facts_of(found, now_ms=now_ms),
            "properties": [
                (key, value[:PROPERTY_CHARACTERS], len(value) > PROPERTY_CHARACTERS)
                for key, value in sorted(found.properties.items())
            ],
            "failures": shown.failure_rows(found.failures),
            "body": _body(found, request),
            "range": around.range,
            "previous_href": _beside(found, around.previous),
            "next_href": _beside(found, around.next),
            "readers": around.readers,
            "families": [shown.family_row(one, now_ms=now_ms) for one in grouping.families(copies)],
            "trouble": trouble,
            "copies_incomplete": around.copies.scan_incomplete or around.copies.truncated,
            "produce_href": _produce_path(found),
        },
    )


@require_safe
@never_cache
def raw(request: HttpRequest, *, name: str, queue: int, offset: int) -> HttpResponse:
    """Return a body as a file that no browser opens as a page."""
    try:
        found = selectors.message_at(name, queue, offset)
    except EngineError as error:
        status = 503 if error.retriable else 500
        return HttpResponse(str(error), status=status, content_type="text/plain; charset=utf-8")
    if found is None:
        text = _("There is no message at this place.")
        return HttpResponse(text, status=404, content_type="text/plain; charset=utf-8")
    content = found.record.body
    if "inflated" in request.GET:
        content = bodies.opened(content).content
    is_text = _is_text(content)
    ending = "txt" if is_text else "bin"
    kind = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    return HttpResponse(
        content,
        content_type=kind,
        headers={
            **attachments.headers(f"message-{name}-{queue}-{offset}.{ending}"),
            "Content-Security-Policy": "default-src 'none'; sandbox",
        },
    )


def _around(found: Seen) -> tuple[Surroundings, str]:
    """Return what is about a message, or nothing of it and why: it is shown all the same."""
    try:
        return selectors.surroundings(found), ""
    except EngineError as error:
        text = _("What is around it cannot be told now: %(why)s.") % {"why": why(error)}
        return Surroundings(range=None, previous=None, next=None, readers=(), copies=Found()), text


def _none(name: str, queue: int, offset: int, *, status: int, trouble: str = "") -> Page:
    held: QueueRange | None = None
    if not trouble:
        held = selectors.range_of(name, queue)
    return Page(
        template="console/messages/none.html",
        values={
            "topic": name,
            "queue": queue,
            "offset": offset,
            "range": held,
            "trouble": trouble,
        },
        status=status,
    )


def _body(seen: Seen, request: HttpRequest) -> shown.Row:
    """Return the body as it is to be shown, and in which other ways it can be."""
    body = seen.record.body
    opened = bodies.opened(body)
    wants_stored = "stored" in request.GET
    content = body if wants_stored else opened.content
    text = request.GET.get("as")
    wanted = View(text) if text in set(View) else None
    found = bodies.shown(content, wanted)
    kept = {"stored": "on"} if wants_stored else {}
    return {
        "text": found.text,
        "view": found.view.value,
        "views": [
            (_VIEWS[view], urlencode({**kept, "as": view.value}), view is found.view)
            for view in found.views
        ],
        "is_cut": found.is_cut,
        "is_empty": not content,
        "size_bytes": len(body),
        "shown_bytes": len(content),
        "packing": opened.packing.value,
        "is_inflated": opened.is_inflated and not wants_stored,
        "can_be_inflated": opened.is_inflated,
        "wants_stored": wants_stored,
        "trouble": _trouble_text(opened),
    }


def _trouble_text(opened: Opened) -> str:
    """Return why a compressed body is not shown to its end; empty where it is."""
    if opened.trouble is Trouble.NONE:
        return ""
    if opened.trouble is Trouble.TOO_LONG:
        return _("It was inflated up to the limit of %(mib)d MiB; the rest is not shown.") % {
            "mib": bodies.INFLATED_BYTES_MAX // MIB
        }
    if opened.trouble is Trouble.BOMB:
        return _(
            "It would grow to more than %(ratio)d times its length: inflating was stopped there."
        ) % {"ratio": bodies.INFLATED_RATIO_MAX}
    if opened.trouble is Trouble.DAMAGED:
        return _("It cannot be inflated: the data is damaged or cut. Shown as it is stored.")
    return _("Compressed with %(packing)s, which is not opened here. Shown as it is stored.") % {
        "packing": opened.packing.value
    }


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_same(one: Seen, other: Seen) -> bool:
    return one.record.log_offset == other.record.log_offset


def _beside(seen: Seen, queue_offset: int | None) -> str:
    if queue_offset is None:
        return ""
    return shown.message_path(seen.topic, seen.record.queue, queue_offset)


def _produce_path(seen: Seen) -> str:
    """Return the form with this message filled in, for the topic it came from."""
    record = seen.record
    like = f"{record.queue}:{record.queue_offset}"
    query = {"like": like} if seen.group is None else {"like": like, "of": seen.topic}
    return f"{shown.topic_path(seen.origin.topic)}produce?{urlencode(query)}"
