"""That a lite topic is gone, and that its name is free, as records of the log.

Knows the bytes of docs/FORMAT.md 5, kinds 27 and 28; not what the events do.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from apps.engine.broker.eventbytes import I64, Reader, text_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteExpired:
    """A lite topic begins at `min_offset`, its end, and no group is anywhere in it any more.

    All its records lie below `log_offset`. A message that comes again is numbered on from there.
    """

    KIND: ClassVar[int] = 27
    topic: str
    min_offset: int
    log_offset: int

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return text_bytes(self.topic) + I64.pack(self.min_offset) + I64.pack(self.log_offset)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(topic=read.text(), min_offset=read.number(I64), log_offset=read.number(I64))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteForgotten:
    """The log has no record of a lite topic any more: one of that name begins at 0."""

    KIND: ClassVar[int] = 28
    topic: str

    def body(self) -> bytes:
        """Return the record's body behind its kind."""
        return text_bytes(self.topic)

    @classmethod
    def read(cls, read: Reader) -> Self:
        """Return the event of a body."""
        return cls(topic=read.text())


LiteEvent = LiteExpired | LiteForgotten
