"""That the lease of a lock has ended, or a group reads in order, as records of the log.

Knows the bytes of docs/FORMAT.md 5, kinds 24 and 25; not what the events do.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from apps.engine.broker.eventbytes import I64, U32, Reader, text_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LockExpired:
    """The lease of the lock that was granted with `epoch` is over, and was not renewed.

    It ended `late_ms` before the record was written. The lock stays its owner's until somebody
    takes it.
    """

    KIND: ClassVar[int] = 24
    group: str
    topic: str
    queue: int
    epoch: int
    late_ms: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        place = text_bytes(self.group) + text_bytes(self.topic) + U32.pack(self.queue)
        return place + I64.pack(self.epoch) + I64.pack(self.late_ms)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(
            group=read.text(),
            topic=read.text(),
            queue=read.number(U32),
            epoch=read.number(I64),
            late_ms=read.number(I64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInOrder:
    """A group without members was handed messages in order, for the first time."""

    KIND: ClassVar[int] = 25
    group: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return text_bytes(self.group)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(group=read.text())


OrderEvent = LockExpired | ReadInOrder
