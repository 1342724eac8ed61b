"""What happened to delayed, failed and transactional messages, as records of the log.

Knows the bytes of docs/FORMAT.md 5, from kind 10 on; not what the events do. Each is in one frame
with the messages that it is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.eventbytes import (
    I64,
    U8,
    U32,
    Reader,
    Runs,
    runs_bytes,
    text_bytes,
)
from apps.engine.broker.liteevents import LiteEvent, LiteExpired, LiteForgotten
from apps.engine.broker.lockevents import LockExpired, OrderEvent, ReadInOrder
from apps.engine.broker.operatorevents import (
    HeadPassed,
    OffsetReset,
    OperatorEvent,
    QueueSuspended,
)
from apps.engine.delaytypes import Recall
from apps.engine.transactiontypes import Outcome

# How a delayed message and a transaction ended, by the number that is written for it.
_TIMER_ENDS = ((Recall.DELIVERED, False), (Recall.CANCELLED, False), (Recall.DELIVERED, True))
_OUTCOMES = (Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.GIVEN_UP)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentBack:
    """Messages of a queue are in the group's retry topic or dead letters now, not here."""

    KIND: ClassVar[int] = 10
    group: str
    topic: str
    queue: int
    runs: Runs

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.group) + text_bytes(self.topic) + U32.pack(self.queue)
        return place + runs_bytes(self.runs)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(group=read.text(), topic=read.text(), queue=read.number(U32), runs=read.runs())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resent:
    """Dead letters of a group, by queue offset, were sent again, by a person or a job."""

    KIND: ClassVar[int] = 11
    group: str
    by: str
    runs: Runs

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return text_bytes(self.group) + text_bytes(self.by) + runs_bytes(self.runs)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(group=read.text(), by=read.text(), runs=read.runs())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimerDone:
    """Messages with a delay of their own, by number, wait no more: delivered or cancelled.

    `due_ms` is when the last of them was due; `is_early` says that they were sent before that.
    """

    KIND: ClassVar[int] = 12
    outcome: Recall
    runs: Runs
    due_ms: int
    is_early: bool = False

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        end = U8.pack(_TIMER_ENDS.index((self.outcome, self.is_early)))
        return end + I64.pack(self.due_ms) + runs_bytes(self.runs)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        outcome, is_early = _TIMER_ENDS[read.number(U8)]
        due_ms = read.number(I64)
        return cls(outcome=outcome, runs=read.runs(), due_ms=due_ms, is_early=is_early)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped:
    """The wall clock went `jump_ms` ahead of time itself, or back where negative.

    `number` is the first that no message with a delay of its own had at that moment,
    `log_offset` where the log ended.
    """

    KIND: ClassVar[int] = 13
    number: int
    log_offset: int
    jump_ms: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return I64.pack(self.number) + I64.pack(self.log_offset) + I64.pack(self.jump_ms)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(number=read.number(I64), log_offset=read.number(I64), jump_ms=read.number(I64))


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfStored:
    """A half message is at `half_offset` of the topic of half messages.

    `epoch` is the store's: a power cut may take the record back, and its offset then goes to
    another one, but never with the same epoch.
    """

    KIND: ClassVar[int] = 14
    half_offset: int
    epoch: int
    producer_group: str
    immunity_ms: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        head = I64.pack(self.half_offset) + U32.pack(self.epoch)
        return head + text_bytes(self.producer_group) + I64.pack(self.immunity_ms)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            half_offset=read.number(I64),
            epoch=read.number(U32),
            producer_group=read.text(),
            immunity_ms=read.number(I64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfChecked:
    """A client was asked about a half message; with no `client_id` one is to be asked at once."""

    KIND: ClassVar[int] = 15
    half_offset: int
    client_id: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return I64.pack(self.half_offset) + text_bytes(self.client_id)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(half_offset=read.number(I64), client_id=read.text())


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfEnded:
    """A transaction is decided; `by` says who where it was a person.

    A committed message is at `queue_offset` of its queue; others have no topic there.
    """

    KIND: ClassVar[int] = 16
    half_offset: int
    outcome: Outcome
    by: str = ""
    topic: str = ""
    queue: int = 0
    queue_offset: int = -1

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        head = I64.pack(self.half_offset) + U8.pack(_OUTCOMES.index(self.outcome))
        where = text_bytes(self.topic) + U32.pack(self.queue) + I64.pack(self.queue_offset)
        return head + text_bytes(self.by) + where

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            half_offset=read.number(I64),
            outcome=_OUTCOMES[read.number(U8)],
            by=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            queue_offset=read.number(I64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpSent:
    """A given-up message, by its offset in the topic of those, is also where it was for.

    A person wanted it there. `queue_offset` is its place in `queue` of `topic`.
    """

    KIND: ClassVar[int] = 19
    given_up_offset: int
    by: str
    topic: str
    queue: int
    queue_offset: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        head = I64.pack(self.given_up_offset) + text_bytes(self.by)
        return head + text_bytes(self.topic) + U32.pack(self.queue) + I64.pack(self.queue_offset)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            given_up_offset=read.number(I64),
            by=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            queue_offset=read.number(I64),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequenced:
    """Messages with a producer's numbers were stored, so that none of them is stored again.

    `rows` int64[n, 3] are runs of numbers: first, last, and the queue offset of the first; -1 where
    the messages wait for their time. `due_ms` and `handles` are then what their producer was told,
    a message each in order of the rows, or empty.
    """

    KIND: ClassVar[int] = 17
    producer_id: str
    topic: str
    queue: int
    rows: NDArray[np.int64]
    due_ms: tuple[int, ...] = ()
    handles: tuple[str, ...] = ()

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.producer_id) + text_bytes(self.topic) + U32.pack(self.queue)
        rows = U32.pack(len(self.rows)) + self.rows.astype(">i8").tobytes()
        due = U32.pack(len(self.due_ms)) + b"".join(map(I64.pack, self.due_ms))
        return (
            place
            + rows
            + due
            + U32.pack(len(self.handles))
            + b"".join(map(text_bytes, self.handles))
        )

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            producer_id=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            rows=read.numbers(3 * read.number(U32)).reshape(-1, 3),
            due_ms=tuple(read.numbers(read.number(U32)).tolist()),
            handles=tuple(read.text() for _ in range(read.number(U32))),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PutOff:
    """Messages given back, visible from `visible_ms` on, as if this attempt had not been."""

    KIND: ClassVar[int] = 29
    lease: int
    visible_ms: int
    runs: Runs

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return I64.pack(self.lease) + I64.pack(self.visible_ms) + runs_bytes(self.runs)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(lease=read.number(I64), visible_ms=read.number(I64), runs=read.runs())


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """Retention has taken a queue's messages below `min_offset` from all groups."""

    KIND: ClassVar[int] = 20
    topic: str
    queue: int
    min_offset: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return text_bytes(self.topic) + U32.pack(self.queue) + I64.pack(self.min_offset)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(topic=read.text(), queue=read.number(U32), min_offset=read.number(I64))


FailureEvent = SentBack | Resent | PutOff
TimerEvent = TimerDone | ClockJumped
TransactionEvent = HalfStored | HalfChecked | HalfEnded | GivenUpSent
CareEvent = (
    FailureEvent
    | TimerEvent
    | TransactionEvent
    | Sequenced
    | Retired
    | OperatorEvent
    | OrderEvent
    | LiteEvent
)

CARE_EVENTS: Mapping[int, type[CareEvent]] = MappingProxyType(
    {
        event.KIND: event
        for event in (
            SentBack, Resent, TimerDone, ClockJumped, HalfStored, HalfChecked, HalfEnded, Sequenced,
            GivenUpSent, Retired, QueueSuspended, HeadPassed, OffsetReset, LockExpired,
            ReadInOrder, LiteExpired, LiteForgotten, PutOff,
        )
    }
)  # fmt: skip
