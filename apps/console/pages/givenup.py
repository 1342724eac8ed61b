"""The pages of given-up transactions: the list, one with its body, sending it after all.

Knows services and selectors of the transactions; does no arithmetic on a picture.
"""

from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.access.asking import sight_of
from apps.access.policy import Action, Sight, topic_or_cluster
from apps.console.board import Posted
from apps.console.deadletters import body_row
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.searching import given
from apps.console.pages.transactions import place_text
from apps.console.refusals import refusal_text, why
from apps.core.actors import actor_of
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.queries import asked_number
from apps.deadletters.selectors import Body
from apps.engine.errors import EngineError
from apps.engine.transactiontypes import GivenUpMessage
from apps.transactions import permitted, selectors, services
from apps.transactions.models import REASON_CHARACTERS_MAX

MESSAGES_SHOWN = 50
_OFFSET_MAX = 2**62

# What has to be typed, so that a slip of the hand sends nothing.
WORD = "send"


@asking_page
def given_up(posted: Posted, request: HttpRequest) -> Page:
    """Show the messages of transactions that nobody decided in time, the newest first."""
    found, trouble = None, ""
    sight = sight_of(request)
    try:
        before = asked_number(given(request.GET), "before", lowest=0, highest=_OFFSET_MAX)
        found = selectors.shown_given_up(sight, before=before, messages_max=MESSAGES_SHOWN)
    except ValidationError:
        trouble = _("The address names no place in the list.")
    except EngineError as error:
        trouble = _("The list cannot be read: %(why)s.") % {"why": why(error)}
    now_ms = posted.snapshot["sampled_at_ms"]
    return Page(
        template="console/given_up.html",
        values={
            "transactions": posted.snapshot["transactions"],
            "found": None
            if found is None
            else [_row(one, now_ms, sight) for one in found.messages],
            "before": None if found is None else found.before,
            "trouble": trouble,
        },
    )


@asking_page
def given_up_message(posted: Posted, request: HttpRequest, *, offset: int) -> Page:
    """Show one given-up message, its body where that is asked for, and the form that sends it."""
    one, record, trouble = None, None, ""
    wants_body = "body" in request.GET
    sight = sight_of(request)
    try:
        if offset <= _OFFSET_MAX:
            one = selectors.shown_given_up_one(sight, offset)
            peeks = one is not None and sight.peeks(topic_or_cluster(one.topic))
            record = selectors.given_up_record(offset) if peeks and wants_body else None
    except EngineError as error:
        trouble = _("The broker cannot be asked: %(why)s.") % {"why": why(error)}
    if one is None:
        values = {"offset": offset, "trouble": trouble}
        return Page(
            template="console/no_given_up.html", values=values, status=503 if trouble else 404
        )
    body = None
    if record is not None:
        body = body_row(
            Body(
                body=record.body,
                properties=record.properties,
                born_time_ms=record.born_time_ms,
            )
        )
    return Page(
        template="console/given_up_message.html",
        values={
            "row": _row(one, posted.snapshot["sampled_at_ms"], sight),
            "wants_body": wants_body,
            "body": body,
            "trouble": trouble or _("The log does not have the message any more."),
            "word": WORD,
            "reason_characters_max": REASON_CHARACTERS_MAX,
        },
    )


@console_action
def send(request: HttpRequest, *, offset: int) -> Told:
    """Send a given-up message where it was for, when the word for it and a reason were typed."""
    back = f"/transactions/given-up/{offset}"
    reason = request.POST.get("reason", "").strip()
    if request.POST.get("typed", "").strip().lower() != WORD:
        text = _("Nothing was done: type “%(word)s” to do it.") % {"word": WORD}
        return Told(text=text, back=back, is_good=False)
    if not reason or len(reason) > REASON_CHARACTERS_MAX:
        text = _("Nothing was done: say why, in up to %(count)s characters.")
        text %= {"count": REASON_CHARACTERS_MAX}
        return Told(text=text, back=back, is_good=False)
    try:
        one = None
        if offset <= _OFFSET_MAX:
            one = permitted.given_up(request, offset, action=Action.DECIDE)
        # The page may be of another store that had this offset.
        if one is None or one.transaction_id != request.POST.get("transaction_id"):
            text = _("Nothing was done: another message is at that offset now, or none.")
            return Told(text=text, back="/transactions/given-up", is_good=False)
        sent = services.send_given_up(message=one, by=actor_of(request), reason=reason)
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    place = {"place": place_text(sent.topic, sent.queue, sent.queue_offset)}
    if sent.is_repeat:
        text = _("It had been sent before: the message is in %(place)s.") % place
        return Told(text=text, back=back)
    return Told(text=_("Sent: the message is in %(place)s.") % place, back=back)


def _row(one: GivenUpMessage, now_ms: int, sight: Sight) -> dict[str, object]:
    return {
        "offset": one.given_up_offset,
        "transaction_id": one.transaction_id or "",
        "half_offset": one.half_offset,
        "topic": one.topic,
        "queue": one.queue,
        "message_id": one.message_id,
        "producer_group": one.producer_group,
        "keys": one.keys if sight.peeks(topic_or_cluster(one.topic)) else None,
        "tag": one.tag,
        "checks": one.checks,
        "size_bytes": one.size_bytes,
        "born_at": _born(one.born_ms),
        "given_up_at": rfc3339(moment(one.given_up_ms)),
        # A wall clock that was set back must not make anything lie ahead.
        "age_s": max(0, now_ms - one.given_up_ms) // 1000,
        "sent_at": None if one.sent_ms is None else rfc3339(moment(one.sent_ms)),
        "sent_by": one.sent_by,
        "sent_queue": one.sent_queue,
        "sent_offset": one.sent_offset,
        "state": "waiting" if one.sent_ms is None else "sent",
    }


def _born(time_ms: int) -> str | None:
    """Return when a producer says it made a message; None for no time there can be."""
    try:
        return rfc3339(moment(time_ms))
    except OverflowError:
        return None
