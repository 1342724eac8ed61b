"""What is done about undecided transactions: by the clockwork, and by people, who are written down.

The engine decides; a row is written before it is asked, and its answer after, so that no decision
of a person goes without a line.
"""

import logging
import re

from apps.audit.services import recorded
from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.core.phrases import sentence
from apps.engine.errors import EngineError, UnknownTransaction
from apps.engine.transactiontypes import (
    Ended,
    GivenUpMessage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
)
from apps.transactions.models import (
    REASON_CHARACTERS_MAX,
    Answer,
    Asked,
    TransactionDecision,
)

TRANSACTIONS_PER_CALL = 100
CALLS_PER_STEP = 10

# Wider than the engine's ids; what is no id at all leaves no line.
_ID = re.compile(r"[0-9a-zA-Z._:-]{1,100}")
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,16}")
# Younger ones than any log can have lost.
_COMPARED_MAX = 1_000
_ACTS = {Outcome.COMMITTED: "transaction.commit", Outcome.ROLLED_BACK: "transaction.roll_back"}
_ASKED = {Outcome.COMMITTED: Asked.COMMIT, Outcome.ROLLED_BACK: Asked.ROLL_BACK}

_log = logging.getLogger("mqweb.transactions")


def give_up() -> Step:
    """Give up what was checked often enough or is too old, at most 1,000 transactions.

    `done` counts them. The engine does each once, however many workers ask. Raises Busy while it
    cannot be asked.
    """
    given_up, count = 0, TRANSACTIONS_PER_CALL
    for _ in range(CALLS_PER_STEP):
        count = bridge.call(lambda engine: engine.give_up_transactions(TRANSACTIONS_PER_CALL))
        given_up += count
        if count < TRANSACTIONS_PER_CALL:
            break
    if given_up:
        _log.warning("transactions_given_up", extra={"count": given_up})
    return Step(done=given_up, more=count >= TRANSACTIONS_PER_CALL)


def report_unknown_decisions(*, begun: int) -> int:
    """Say which decisions are of transactions that the log has lost; return how many those are.

    `begun` is how many half messages the log has ever had. Only a log that was put back has fewer
    than a line names: its producers ask again, or nobody does.
    """
    # What was refused may name anything.
    obeyed = TransactionDecision.objects.exclude(asked=Asked.SEND).exclude(answer=Answer.REFUSED)
    lines = obeyed.order_by("-id")[:_COMPARED_MAX]
    unknown = [line.transaction_id for line in lines if _half_offset(line.transaction_id) >= begun]
    if unknown:
        extra = {"count": len(unknown), "transaction_id": unknown[0]}
        _log.warning("decisions_ahead_of_log", extra=extra)
    return len(unknown)


def _half_offset(transaction_id: str) -> int:
    """Return where an id says that its half message lies; -1 for what is no id."""
    digits = transaction_id.partition(".")[0]
    return int(digits, 16) if _HEXADECIMAL.fullmatch(digits) else -1


def decide(*, transaction: PendingTransaction, outcome: Outcome, by: str) -> Ended:
    """Commit or roll back in place of a producer that does not.

    Raises UnknownTransaction, TransactionDecided when it was decided otherwise meanwhile, what
    storing the message raises, and Busy, after which it may have been decided or not; asking for
    the same again is safe.
    """
    with recorded(
        by=by,
        act=_ACTS[outcome],
        kind="transaction",
        name=transaction.transaction_id,
        before=_told(transaction),
    ) as entry:
        line = _written(transaction, _ASKED[outcome], by)
        try:
            ended = bridge.call(
                lambda engine: engine.end_transaction(transaction.transaction_id, outcome, by=by)
            )
        except EngineError as error:
            _answered(line, Answer.FAILED if error.retriable else Answer.REFUSED, str(error))
            raise
        entry.after = {
            "state": outcome.value,
            "topic": ended.topic,
            "queue": ended.queue,
            "offset": ended.queue_offset,
            "was_so_before": ended.is_repeat,
        }
        place = "" if ended.queue_offset is None else f"{ended.topic}/{ended.queue}"
        detail = f"{place} at offset {ended.queue_offset}" if place else ""
        _answered(line, Answer.REPEAT if ended.is_repeat else Answer.DONE, detail)
    return ended


def check_now(*, transaction_id: str, by: str) -> PendingTransaction:
    """Have the producers of a transaction asked at once, as an ordinary check.

    Raises UnknownTransaction for one that is not pending, and Busy while the engine cannot be
    asked.
    """
    if _ID.fullmatch(transaction_id) is None:
        raise UnknownTransaction(sentence("this is no id of a transaction"))
    with recorded(by=by, act="transaction.check", kind="transaction", name=transaction_id) as entry:
        line = _written(None, Asked.CHECK, by, transaction_id=transaction_id)
        try:
            found = bridge.call(lambda engine: engine.check_now(transaction_id))
            if found is None:
                raise UnknownTransaction(
                    sentence("the transaction is not pending; it may have been decided")
                )
        except EngineError as error:
            _answered(line, Answer.FAILED if error.retriable else Answer.REFUSED, str(error))
            raise
        entry.after = {**_told(found), "producers": found.producers}
        _describe(line, found)
        _answered(line, Answer.DONE, f"{found.producers} producers are there")
    return found


def send_given_up(*, message: GivenUpMessage, by: str, reason: str) -> SentAfterAll:
    """Send a given-up message where it was for, once, whoever asks how often.

    Raises UnknownTransaction where another message is there now, UnknownTopic when its topic was
    deleted, what storing a message raises, and Busy, after which it may have been sent or not;
    asking again is safe.
    """
    transaction_id = message.transaction_id or ""
    with recorded(
        by=by,
        act="transaction.send_given_up",
        kind="transaction",
        name=transaction_id,
        reason=reason,
        before={**_told(message), "given_up_offset": message.given_up_offset},
    ) as entry:
        line = TransactionDecision(
            by=by,
            asked=Asked.SEND,
            reason=_text(reason)[:REASON_CHARACTERS_MAX],
            transaction_id=transaction_id[:100],
            producer_group=message.producer_group,
            topic=message.topic,
            message_id=_text(message.message_id)[:255],
        )
        line.save()
        try:
            sent = bridge.call(
                lambda engine: engine.send_given_up(
                    message.given_up_offset, transaction_id=transaction_id, by=by
                )
            )
        except EngineError as error:
            _answered(line, Answer.FAILED if error.retriable else Answer.REFUSED, str(error))
            raise
        entry.after = {
            "topic": sent.topic,
            "queue": sent.queue,
            "offset": sent.queue_offset,
            "was_so_before": sent.is_repeat,
        }
        detail = f"{sent.topic}/{sent.queue} at offset {sent.queue_offset}"
        _answered(line, Answer.REPEAT if sent.is_repeat else Answer.DONE, detail)
    return sent


def _told(found: PendingTransaction | GivenUpMessage) -> dict[str, object]:
    return {
        "topic": found.topic,
        "queue": found.queue,
        "message_id": found.message_id,
        "producer_group": found.producer_group,
        "checks": found.checks,
    }


def _written(
    transaction: PendingTransaction | None, asked: Asked, by: str, *, transaction_id: str = ""
) -> TransactionDecision:
    line = TransactionDecision(by=by, asked=asked, transaction_id=transaction_id)
    if transaction is not None:
        line.transaction_id = transaction.transaction_id
        _describe(line, transaction)
    line.save()
    return line


def _describe(line: TransactionDecision, transaction: PendingTransaction) -> None:
    line.producer_group, line.topic = transaction.producer_group, transaction.topic
    # The producer chose it, and may have put in what no column can hold.
    line.message_id = _text(transaction.message_id)[:255]


def _text(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _answered(line: TransactionDecision, answer: Answer, detail: str) -> None:
    line.answer = answer
    line.detail = _text(detail)[:500]
    line.save(update_fields=["answer", "detail", "producer_group", "topic", "message_id"])
    _log.warning(
        "transaction_decided_by_operator",
        extra={
            "asked": line.asked,
            "answer": line.answer,
            "by": line.by,
            "transaction_id": line.transaction_id,
            "detail": line.detail,
        },
    )
