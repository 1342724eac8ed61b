"""The pages of undecided transactions: the list, and one to be decided.

Knows services and selectors of the transactions; does no arithmetic on a picture.
"""

from urllib.parse import urlencode

from django.http import HttpRequest
from rest_framework.exceptions import ValidationError

from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action, refusal_text
from apps.console.pages.searching import given, refusal_of
from apps.core.actors import actor_of
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.queries import asked_name, asked_number
from apps.engine.errors import EngineError
from apps.engine.transactiontypes import Outcome, PendingTransaction
from apps.transactions import selectors, services

TRANSACTIONS_SHOWN = 50
_OFFSET_MAX = 2**62

# What has to be typed, so that a slip of the hand decides nothing.
WORDS = {Outcome.COMMITTED: "commit", Outcome.ROLLED_BACK: "roll back"}
_DONE = {
    Outcome.COMMITTED: "Committed: the message is in {place}.",
    Outcome.ROLLED_BACK: "Rolled back: nobody will ever see the message.",
}
_GONE = "It is not pending any more: its producer has decided it, or it was given up."


@asking_page
def transactions(posted: Posted, request: HttpRequest) -> Page:
    """Show the transactions nobody has decided yet, the oldest first."""
    group = request.GET.get("producer_group", "")
    found: list[PendingTransaction] | None = None
    trouble = ""
    try:
        query = given(request.GET)
        after = asked_number(query, "after", lowest=0, highest=_OFFSET_MAX)
        found = selectors.pending(
            producer_group=asked_name(query, "producer_group"),
            after=-1 if after is None else after,
            transactions_max=TRANSACTIONS_SHOWN + 1,
        )
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    except EngineError as error:
        trouble = f"The list cannot be read: {error}."
    now_ms = posted.snapshot["sampled_at_ms"]
    shown = (found or [])[:TRANSACTIONS_SHOWN]
    return Page(
        template="console/transactions.html",
        values={
            "transactions": posted.snapshot["transactions"],
            "producer_group": group,
            "found": None if found is None else [_row(one, now_ms) for one in shown],
            "trouble": trouble,
            "next_query": urlencode({"producer_group": group, "after": shown[-1].half_offset})
            if found and len(found) > TRANSACTIONS_SHOWN
            else "",
        },
    )


@asking_page
def transaction(posted: Posted, request: HttpRequest, *, half_offset: int) -> Page:
    """Show one undecided transaction with the forms that decide it."""
    del request
    trouble, one = "", None
    try:
        one = selectors.one(half_offset) if half_offset <= _OFFSET_MAX else None
    except EngineError as error:
        trouble = f"The broker cannot be asked: {error}."
    if one is None:
        values = {"half_offset": half_offset, "trouble": trouble}
        return Page(
            template="console/no_transaction.html", values=values, status=503 if trouble else 404
        )
    values = {
        "row": _row(one, posted.snapshot["sampled_at_ms"]),
        "commit": WORDS[Outcome.COMMITTED],
        "roll_back": WORDS[Outcome.ROLLED_BACK],
    }
    return Page(template="console/transaction.html", values=values)


@console_action
def decide(request: HttpRequest, *, half_offset: int) -> Told:
    """Commit or roll back, when the word for it was typed."""
    back = f"/transactions/{half_offset}"
    outcome = next((one for one in WORDS if one.value == request.POST.get("outcome")), None)
    if outcome is None or request.POST.get("typed", "").strip().lower() != WORDS[outcome]:
        word = "commit" if outcome is None else WORDS[outcome]
        return Told(text=f"Nothing was done: type “{word}” to do it.", back=back, is_good=False)
    try:
        one = selectors.one(half_offset) if half_offset <= _OFFSET_MAX else None
        # The page may be of another store that had this offset.
        if one is None or one.transaction_id != request.POST.get("transaction_id"):
            return Told(text=_GONE, back="/transactions", is_good=False)
        ended = services.decide(transaction=one, outcome=outcome, by=actor_of(request))
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    place = f"{ended.topic}/{ended.queue} at offset {ended.queue_offset}"
    return Told(text=_DONE[outcome].format(place=place), back="/transactions")


@console_action
def check(request: HttpRequest) -> Told:
    """Have the producers asked before their time."""
    try:
        found = services.check_now(
            transaction_id=request.POST.get("transaction_id", ""), by=actor_of(request)
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back="/transactions", is_good=False)
    asked = f"Asked for: {found.producer_group} is asked about {found.topic} at once"
    if not found.producers:
        asked = f"{found.producer_group} will be asked as soon as one of its producers is there"
    return Told(text=f"{asked}.", back="/transactions")


def _row(one: PendingTransaction, now_ms: int) -> dict[str, object]:
    return {
        "transaction_id": one.transaction_id,
        "half_offset": one.half_offset,
        "topic": one.topic,
        "queue": one.queue,
        "message_id": one.message_id,
        "producer_group": one.producer_group,
        "producers": one.producers,
        "presence": "there" if one.producers else "none",
        "begun_at": rfc3339(moment(one.begun_ms)),
        # A wall clock that was set back must not make anything lie ahead.
        "age_s": max(0, now_ms - one.begun_ms) // 1000,
        "checks": one.checks,
        "next_check_s": None
        if one.next_check_ms is None
        else max(0, one.next_check_ms - now_ms) // 1000,
        "next_check": "no more" if one.next_check_ms is None else "",
        "last_check_s": None
        if one.last_check_ms is None
        else max(0, now_ms - one.last_check_ms) // 1000,
        "last_client_id": one.last_client_id,
        "size_bytes": one.size_bytes,
        "keys": one.keys,
        "tag": one.tag,
    }
