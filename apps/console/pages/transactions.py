"""The pages of undecided transactions: the list, and one to be decided.

Knows services and selectors of the transactions; does no arithmetic on a picture.
"""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from rest_framework.exceptions import ValidationError

from apps.access.asking import sight_of
from apps.access.policy import Sight, topic
from apps.console.board import Posted
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.pages.searching import given, refusal_of
from apps.console.refusals import refusal_text, why
from apps.core.actors import actor_of
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.core.queries import asked_name, asked_number
from apps.engine.errors import EngineError
from apps.engine.transactiontypes import Outcome, PendingTransaction
from apps.transactions import permitted, selectors, services

TRANSACTIONS_SHOWN = 50
_OFFSET_MAX = 2**62

# What has to be typed, so that a slip of the hand decides nothing.
WORDS = {Outcome.COMMITTED: "commit", Outcome.ROLLED_BACK: "roll back"}
_DONE = {
    Outcome.COMMITTED: gettext_lazy("Committed: the message is in %(place)s."),
    Outcome.ROLLED_BACK: gettext_lazy("Rolled back: nobody will ever see the message."),
}
_GONE = gettext_lazy("It is not pending any more: its producer has decided it, or it was given up.")


@asking_page
def transactions(posted: Posted, request: HttpRequest) -> Page:
    """Show the transactions nobody has decided yet, the oldest first."""
    group = request.GET.get("producer_group", "")
    found: list[PendingTransaction] | None = None
    behind: int | None = None
    sight = sight_of(request)
    trouble = ""
    try:
        query = given(request.GET)
        after = asked_number(query, "after", lowest=0, highest=_OFFSET_MAX)
        found, behind = selectors.shown_pending(
            sight,
            producer_group=asked_name(query, "producer_group"),
            after=-1 if after is None else after,
            transactions_max=TRANSACTIONS_SHOWN,
        )
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    except EngineError as error:
        trouble = _("The list cannot be read: %(why)s.") % {"why": why(error)}
    now_ms = posted.snapshot["sampled_at_ms"]
    return Page(
        template="console/transactions.html",
        values={
            "transactions": posted.snapshot["transactions"],
            "producer_group": group,
            "found": None if found is None else [_row(one, now_ms, sight) for one in found],
            "trouble": trouble,
            "next_query": ""
            if behind is None
            else urlencode({"producer_group": group, "after": behind}),
        },
    )


@asking_page
def transaction(posted: Posted, request: HttpRequest, *, half_offset: int) -> Page:
    """Show one undecided transaction with the forms that decide it."""
    sight = sight_of(request)
    trouble, one = "", None
    try:
        one = selectors.one(half_offset) if half_offset <= _OFFSET_MAX else None
    except EngineError as error:
        trouble = _("The broker cannot be asked: %(why)s.") % {"why": why(error)}
    # What may not be known of looks like what is not there.
    if one is None or not sight.topic(one.topic):
        values = {"half_offset": half_offset, "trouble": trouble}
        return Page(
            template="console/no_transaction.html", values=values, status=503 if trouble else 404
        )
    values = {
        "row": _row(one, posted.snapshot["sampled_at_ms"], sight),
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
        text = _("Nothing was done: type “%(word)s” to do it.") % {"word": word}
        return Told(text=text, back=back, is_good=False)
    try:
        one = permitted.to_decide(request, half_offset) if half_offset <= _OFFSET_MAX else None
        # The page may be of another store that had this offset.
        if one is None or one.transaction_id != request.POST.get("transaction_id"):
            return Told(text=str(_GONE), back="/transactions", is_good=False)
        ended = services.decide(transaction=one, outcome=outcome, by=actor_of(request))
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    place = place_text(ended.topic, ended.queue, ended.queue_offset)
    return Told(text=str(_DONE[outcome]) % {"place": place}, back="/transactions")


@console_action
def check(request: HttpRequest) -> Told:
    """Have the producers asked before their time."""
    transaction_id = request.POST.get("transaction_id", "")
    try:
        permitted.check_by_id(request, transaction_id)
        found = services.check_now(transaction_id=transaction_id, by=actor_of(request))
    except EngineError as error:
        return Told(text=refusal_text(error), back="/transactions", is_good=False)
    asked = _("Asked for: %(group)s is asked about %(topic)s at once.")
    if not found.producers:
        asked = _("%(group)s will be asked as soon as one of its producers is there.")
    text = asked % {"group": found.producer_group, "topic": found.topic}
    return Told(text=text, back="/transactions")


def place_text(topic: str, queue: int | None, offset: int | None) -> str:
    """Return where a message is, as part of a sentence."""
    return _("%(topic)s/%(queue)s at offset %(offset)s") % {
        "topic": topic,
        "queue": queue,
        "offset": offset,
    }


def _row(one: PendingTransaction, now_ms: int, sight: Sight) -> dict[str, object]:
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
        "next_check": pgettext("check of a transaction", "no more")
        if one.next_check_ms is None
        else "",
        "last_check_s": None
        if one.last_check_ms is None
        else max(0, now_ms - one.last_check_ms) // 1000,
        "last_client_id": one.last_client_id,
        "size_bytes": one.size_bytes,
        "keys": one.keys if sight.peeks(topic(one.topic)) else None,
        "tag": one.tag,
    }
