"""Verbs of delays, dead letters and transactions, asked from another process."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apps.bridge.remote import RemoteEngine
from apps.engine.api import EngineControl
from apps.engine.delaytypes import (
    DelayedMessage,
    DelayedPage,
    DelayLevelState,
    DelayStatus,
    LevelsDelivered,
    Recall,
)
from apps.engine.errors import (
    EngineError,
    InvalidArgument,
    StoreFull,
    TransactionDecided,
    UnknownTransaction,
)
from apps.engine.failuretypes import GroupRetries, Resend, ResendResult, RetryCount
from apps.engine.transactiontypes import (
    Ended,
    GivenUpMessage,
    GivenUpPage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
    TransactionStatus,
)
from apps.engine.types import QueueRange
from tests.doors.control.serving import Answering, Served

Question = Callable[[EngineControl], object]

LEVELS = LevelsDelivered(
    delivered=2,
    more=True,
    levels=(
        DelayLevelState(level=1, delay_ms=1000, delivered=7, max_offset=2**40),
        DelayLevelState(
            level=2, delay_ms=5000, delivered=0, max_offset=1, head_due_ms=5, late_ms=0
        ),
    ),
)
PAGE = DelayedPage(
    messages=(
        DelayedMessage(
            number=2**40,
            topic="orders",
            queue=3,
            message_id="7F" * 16,
            due_ms=1_700_000_000_000,
            size_bytes=100,
            handle="aGFuZGxl",
            keys="a b",
        ),
        DelayedMessage(
            number=0, topic="orders", queue=0, message_id="x", due_ms=1, size_bytes=1, level=18
        ),
    ),
    cursor="next",
)
DELAYS = DelayStatus(pending=2**40, next_due_ms=None, late_ms=7, histogram=((60, 1), (None, 2)))
LETTERS = [
    ResendResult(
        queue_offset=2**40, outcome=Resend.SENT, topic="orders", queue=3, sent_offset=2**41
    ),
    ResendResult(queue_offset=1, outcome=Resend.FAILED, detail="größer"),
]
PENDING = PendingTransaction(
    transaction_id="7.1-fa4efa4e",
    half_offset=7,
    topic="orders",
    queue=3,
    message_id="7F" * 16,
    producer_group="tills",
    begun_ms=1_700_000_000_000,
    checks=15,
    next_check_ms=None,
)
ENDED = Ended(
    transaction_id="7.1-fa4efa4e",
    outcome=Outcome.COMMITTED,
    is_repeat=True,
    topic="orders",
    queue=3,
    queue_offset=2**40,
)
RANGE = QueueRange(topic="%DLQ%billing", queue=0, min_offset=1, max_offset=2**40)

RETRIES = GroupRetries(
    group="billing",
    counts=(RetryCount(failures=1, in_topic=2**40), RetryCount(failures=2, delayed=1, in_place=3)),
    is_complete=False,
)
LOST = GivenUpMessage(
    given_up_offset=2**40,
    transaction_id=None,
    half_offset=None,
    topic="orders",
    queue=3,
    message_id="x",
    producer_group="tills",
    born_ms=-1,
    given_up_ms=5,
    checks=None,
    size_bytes=1,
    sent_ms=7,
    sent_by="ana",
)

LATER = [
    (
        "deliver_levels",
        lambda engine: engine.deliver_levels(10_000),
        ((10_000,), {}),
        LEVELS,
    ),
    (
        "delayed",
        lambda engine: engine.delayed(),
        (
            (),
            {
                "level": None, "topic": None, "from_ms": None, "to_ms": None, "cursor": None,
                "messages_max": 100,
            },
        ),
        PAGE,
    ),
    (
        "delayed",
        lambda engine: engine.delayed(
            level=18, topic="orders", from_ms=1, to_ms=2**40, cursor="c", messages_max=7
        ),
        (
            (),
            {
                "level": 18, "topic": "orders", "from_ms": 1, "to_ms": 2**40, "cursor": "c",
                "messages_max": 7,
            },
        ),
        DelayedPage(messages=()),
    ),
    ("recall", lambda engine: engine.recall("h"), (("h",), {}), Recall.CANCELLED),
    ("deliver_now", lambda engine: engine.deliver_now("h"), (("h",), {}), Recall.UNKNOWN),
    (
        "resend",
        lambda engine: engine.resend("billing", (2**40, 1), by="ana"),
        (("billing", [2**40, 1]), {"topic": None, "by": "ana"}),
        LETTERS,
    ),
    (
        "transactions",
        lambda engine: engine.transactions(producer_group="tills", after=7, messages_max=9),
        ((), {"producer_group": "tills", "after": 7, "messages_max": 9}),
        [PENDING],
    ),
    (
        "end_transaction",
        lambda engine: engine.end_transaction("7.1-f", Outcome.ROLLED_BACK, by="ana"),
        (("7.1-f", Outcome.ROLLED_BACK), {"by": "ana"}),
        ENDED,
    ),
    ("give_up_transactions", lambda engine: engine.give_up_transactions(5), ((5,), {}), 3),
    ("group_retries", lambda engine: engine.group_retries("billing"), (("billing",), {}), RETRIES),
    (
        "given_up",
        lambda engine: engine.given_up(before=2**40, messages_max=7),
        ((), {"before": 2**40, "messages_max": 7}),
        GivenUpPage(messages=(LOST,), before=9),
    ),
    (
        "send_given_up",
        lambda engine: engine.send_given_up(2**40, transaction_id="7.1-f", by="ana"),
        ((2**40,), {"transaction_id": "7.1-f", "by": "ana"}),
        SentAfterAll(topic="orders", queue=3, queue_offset=2**40, is_repeat=True),
    ),
]  # fmt: skip
AT_ONCE = [
    ("delay_levels", lambda engine: engine.delay_levels(), ((), {}), LEVELS),
    ("delay_status", lambda engine: engine.delay_status(), ((), {}), DELAYS),
    ("transaction_status", lambda engine: engine.transaction_status(), ((), {}),
     TransactionStatus(pending=1, oldest_begun_ms=5)),
    ("check_now", lambda engine: engine.check_now("7.1-f"), (("7.1-f",), {}), PENDING),
    ("check_now", lambda engine: engine.check_now("7.1-f"), (("7.1-f",), {}), None),
    ("own_ranges", lambda engine: engine.own_ranges("%DLQ%"), (("%DLQ%",), {}),
     {"%DLQ%billing": [RANGE]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "question", "asked", "answer", "is_later"),
    [
        *((*row, is_later) for row in LATER for is_later in (False, True)),
        *((*row, False) for row in AT_ONCE),
    ],
)
async def test_what_is_asked_and_answered_arrives_as_it_was(
    served: Served,
    remote: RemoteEngine,
    verb: str,
    question: Question,
    asked: tuple[tuple[Any, ...], dict[str, Any]],
    answer: object,
    is_later: bool,
) -> None:
    engine: Any = Answering(verb, answer, is_later=is_later)
    served.engine = engine

    found = await asyncio.to_thread(question, remote)

    assert found == answer
    assert engine.asked == [asked]


@pytest.mark.parametrize(
    ("verb", "question", "error"),
    [
        ("end_transaction", lambda engine: engine.end_transaction("7", Outcome.COMMITTED),
         TransactionDecided("it was rolled back")),
        ("end_transaction", lambda engine: engine.end_transaction("7", Outcome.COMMITTED),
         UnknownTransaction("7")),
        ("send_given_up", lambda engine: engine.send_given_up(0, transaction_id="7"),
         UnknownTransaction("of another transaction")),
        ("resend", lambda engine: engine.resend("billing", [0]), InvalidArgument("no topic")),
        ("deliver_levels", lambda engine: engine.deliver_levels(), StoreFull("3 bytes left")),
    ],
)  # fmt: skip
async def test_what_fails_later_arrives_as_the_engine_raised_it(
    served: Served, remote: RemoteEngine, verb: str, question: Question, error: EngineError
) -> None:
    engine: Any = Answering(verb, error, is_later=True)
    served.engine = engine

    with pytest.raises(type(error), match=str(error)):
        await asyncio.to_thread(question, remote)

    assert len(engine.asked) == 1
