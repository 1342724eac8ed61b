"""Recall handles: base64 of `v1 topic broker due message-id number epoch check`. Knows text only.

The first five parts are RocketMQ's. The number finds the message, the epoch keeps apart two
messages of one number, since a power cut may take back what got it first, and the check ties the
handle to the store.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from apps.engine.codec.checksum import crc32
from apps.engine.codec.delayed import message_ids_of
from apps.engine.codec.scan import Properties

_CHARACTERS_MAX = 64 * 1024
_PARTS_BEHIND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHandle:
    """What a handle names."""

    topic: str
    due_ms: int
    message_id: str
    number: int
    epoch: int


class RecallHandles:
    """Issue and read the recall handles of one store."""

    def __init__(self, store_id: str, *, broker_name: str) -> None:
        """Bind to a store."""
        self._seed = crc32(store_id.encode())
        self._broker = broker_name.replace(" ", "_")

    def issue(self, *, topic: str, due_ms: int, message_id: str, number: int, epoch: int) -> str:
        """Return the handle of a message."""
        text = f"v1 {topic} {self._broker} {due_ms} {message_id} {number} {epoch}".encode()
        whole = b"%s %08x" % (text, crc32(text, self._seed))
        return base64.urlsafe_b64encode(whole).rstrip(b"=").decode("ascii")

    def parse(self, handle: str) -> RecallHandle | None:
        """Return what a handle names; None when this store has not issued it."""
        if len(handle) > _CHARACTERS_MAX:
            return None
        try:
            padded = handle.encode("ascii") + b"=" * (-len(handle) % 4)
            whole = base64.b64decode(padded, altchars=b"-_", validate=True)
            text, _, check = whole.rpartition(b" ")
            if check != b"%08x" % crc32(text, self._seed):
                return None
            # A message id is a client's text and may have blanks.
            front, number, epoch = text.decode().rsplit(" ", _PARTS_BEHIND - 1)
            _, topic, _, due_ms, message_id = front.split(" ", 4)
            return RecallHandle(
                topic=topic,
                due_ms=int(due_ms),
                message_id=message_id,
                number=int(number),
                epoch=int(epoch),
            )
        except (ValueError, binascii.Error):
            return None


class IssuedHandles(Sequence[str]):
    """The handles of a parcel's messages, each made when it is asked for.

    Making one takes as long as taking a message in, and answers in records have none.
    """

    def __init__(
        self,
        handles: RecallHandles,
        *,
        topic: str,
        due_ms: Sequence[int],
        sections: Properties,
        first: int,
        epoch: int,
    ) -> None:
        """Name messages from number `first` on; `sections` are their properties."""
        self._handles = handles
        self._topic = topic
        self._due_ms = due_ms
        self._sections = sections
        self._message_ids: list[str] | None = None
        self._first = first
        self._epoch = epoch

    def __len__(self) -> int:
        """Return how many messages there are."""
        return len(self._due_ms)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """Return the handle of the message at a place of the parcel."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        if self._message_ids is None:
            self._message_ids = message_ids_of(self._sections)
        return self._handles.issue(
            topic=self._topic,
            due_ms=self._due_ms[at],
            message_id=self._message_ids[at],
            number=self._first + at,
            epoch=self._epoch,
        )
