"""The pages of given-up transactions: the list, one with its body, sending it after all.

Knows services and selectors of the transactions; does no arithmetic on a picture.
"""

from django.http import HttpRequest
from rest_framework.exceptions import ValidationError

from apps.console.board import Posted
from apps.console.deadletters import body_row
from apps.console.pages.common import Page, Told, asking_page, console_action, refusal_text
from apps.console.pages.searching import given
from apps.core.actors import actor_of
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.queries import asked_number
from apps.deadletters.selectors import Body
from apps.engine.errors import EngineError
from apps.engine.transactiontypes import GivenUpMessage
from apps.transactions import selectors, services
from apps.transactions.models import REASON_CHARACTERS_MAX

MESSAGES_SHOWN = 50
_OFFSET_MAX = 2**62

# What has to be typed, so that a slip of the hand sends nothing.
WORD = "send"


@asking_page
def given_up(posted: Posted, request: HttpRequest) -> Page:
    """Show the messages of transactions that nobody decided in time, the newest first."""
    found, trouble = None, ""
    try:
        before = asked_number(given(request.GET), "before", lowest=0, highest=_OFFSET_MAX)
        found = selectors.given_up(before=before, messages_max=MESSAGES_SHOWN)
    except ValidationError:
        trouble = "The address names no place in the list."
    except EngineError as error:
        trouble = f"The list cannot be read: {error}."
    now_ms = posted.snapshot["sampled_at_ms"]
    return Page(
        template="console/given_up.html",
        values={
            "transactions": posted.snapshot["transactions"],
            "found": None if found is None else [_row(one, now_ms) for one in found.messages],
            "before": None if found is None else found.before,
            "trouble": trouble,
        },
    )


@asking_page
def given_up_message(posted: Posted, request: HttpRequest, *, offset: int) -> Page:
    """Show one given-up message, its body where that is asked for, and the form that sends it."""
    one, record, trouble = None, None, ""
    wants_body = "body" in request.GET
    try:
        if offset <= _OFFSET_MAX:
            one = selectors.given_up_one(offset)
            record = selectors.given_up_record(offset) if one and wants_body else None
    except EngineError as error:
        trouble = f"The broker cannot be asked: {error}."
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
            "row": _row(one, posted.snapshot["sampled_at_ms"]),
            "wants_body": wants_body,
            "body": body,
            "trouble": trouble or "The log does not have the message any more.",
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
        return Told(text=f"Nothing was done: type “{WORD}” to do it.", back=back, is_good=False)
    if not reason or len(reason) > REASON_CHARACTERS_MAX:
        text = f"Nothing was done: say why, in up to {REASON_CHARACTERS_MAX} characters."
        return Told(text=text, back=back, is_good=False)
    try:
        one = selectors.given_up_one(offset) if offset <= _OFFSET_MAX else None
        # The page may be of another store that had this offset.
        if one is None or one.transaction_id != request.POST.get("transaction_id"):
            text = "Nothing was done: another message is at that offset now, or none."
            return Told(text=text, back="/transactions/given-up", is_good=False)
        sent = services.send_given_up(message=one, by=actor_of(request), reason=reason)
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    place = f"{sent.topic}/{sent.queue} at offset {sent.queue_offset}"
    if sent.is_repeat:
        return Told(text=f"It had been sent before: the message is in {place}.", back=back)
    return Told(text=f"Sent: the message is in {place}.", back=back)


def _row(one: GivenUpMessage, now_ms: int) -> dict[str, object]:
    return {
        "offset": one.given_up_offset,
        "transaction_id": one.transaction_id or "",
        "half_offset": one.half_offset,
        "topic": one.topic,
        "queue": one.queue,
        "message_id": one.message_id,
        "producer_group": one.producer_group,
        "keys": one.keys,
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
