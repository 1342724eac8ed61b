"""What operators did to a group's queues, as records of the log.

Knows the bytes of docs/FORMAT.md 5, from kind 21 on; not what the events do.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from apps.engine.broker.eventbytes import I64, U8, U32, Reader, text_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSuspended:
    """A queue gives a group nothing from here on, or again everything, by whom and why."""

    KIND: ClassVar[int] = 21
    group: str
    topic: str
    queue: int
    is_suspended: bool
    by: str
    reason: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.group) + text_bytes(self.topic) + U32.pack(self.queue)
        return place + U8.pack(self.is_suspended) + text_bytes(self.by) + text_bytes(self.reason)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            group=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            is_suspended=bool((False, True)[read.number(U8)]),
            by=read.text(),
            reason=read.text(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPassed:
    """The head of a queue is done for a group, and nobody of the group has done it.

    A parked one is in the group's dead letters, by the same frame. Who read the queue under a
    generation up to `fence` begins anew.
    """

    KIND: ClassVar[int] = 22
    group: str
    topic: str
    queue: int
    queue_offset: int
    is_parked: bool
    fence: int
    by: str
    reason: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.group) + text_bytes(self.topic) + U32.pack(self.queue)
        what = I64.pack(self.queue_offset) + U8.pack(self.is_parked) + I64.pack(self.fence)
        return place + what + text_bytes(self.by) + text_bytes(self.reason)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            group=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            queue_offset=read.number(I64),
            is_parked=bool((False, True)[read.number(U8)]),
            fence=read.number(I64),
            by=read.text(),
            reason=read.text(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """A group goes on at `queue_offset` of a queue; what it was handed out there is void.

    Who read the queue under a generation up to `fence` begins anew. `before` is where the group
    was.
    """

    KIND: ClassVar[int] = 23
    group: str
    topic: str
    queue: int
    queue_offset: int
    before: int
    fence: int
    reset_id: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.group) + text_bytes(self.topic) + U32.pack(self.queue)
        where = I64.pack(self.queue_offset) + I64.pack(self.before) + I64.pack(self.fence)
        return place + where + text_bytes(self.reset_id)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            group=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            queue_offset=read.number(I64),
            before=read.number(I64),
            fence=read.number(I64),
            reset_id=read.text(),
        )


OperatorEvent = QueueSuspended | HeadPassed | OffsetReset
