"""Small sends of one turn of the event loop, written as one frame. Knows batches, no messages.

The first send of a turn goes out at once: waiting for company would gain nothing when there is
none. What follows in the same turn shares a frame at its end.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from apps.engine.broker.produce import CheckedBatch
from apps.engine.errors import EngineError
from apps.engine.types import Appended

# Frames are shared up to about this size.
_SHARED_BYTES = 1024 * 1024
# A send of this size is written by itself.
_OWN_BYTES = 64 * 1024

_Answer = TypeVar("_Answer")
Written = tuple[list[Appended], int]
"""Where each batch went, and where their frame ends."""


class SharedFrames:
    """Puts sends together, and gives each its own answer."""

    def __init__(
        self, write: Callable[[list[CheckedBatch]], Written], *, overshoot_room_bytes: int
    ) -> None:
        """Write frames with `write`.

        A shared frame stops growing at `overshoot_room_bytes`; its last batch may go beyond.
        """
        self._write = write
        self._shared_bytes = min(_SHARED_BYTES, overshoot_room_bytes)
        self._waiting: list[tuple[list[CheckedBatch], asyncio.Future[Written]]] = []
        self._is_turn_begun = False

    async def append(self, batches: list[CheckedBatch]) -> Written:
        """Write the batches, in one frame, at once or at the end of the turn."""
        loop = asyncio.get_running_loop()
        if self._is_turn_begun and _payload_bytes(batches) < _OWN_BYTES:
            written: asyncio.Future[Written] = loop.create_future()
            self._waiting.append((batches, written))
            return await written
        if not self._is_turn_begun:
            self._is_turn_begun = True
            loop.call_soon(self._end_turn)
        if self._waiting:
            self.drain()  # Nobody is overtaken.
        return self._write(batches)

    def alone(self, write: Callable[[], _Answer]) -> _Answer:
        """Carry out a write of its own frame, behind all that waits: nobody is overtaken."""
        self.drain()
        return write()

    def drain(self) -> None:
        """Write what waits for the end of the turn."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            size_bytes, count = 0, 0
            while count < len(waiting) and (not count or size_bytes < self._shared_bytes):
                size_bytes += _payload_bytes(waiting[count][0])
                count += 1
            shared, waiting = waiting[:count], waiting[count:]
            try:
                appended, frame_end = self._write([b for batches, _ in shared for b in batches])
            except EngineError as error:
                for _, written in shared:
                    if not written.done():
                        written.set_exception(error)
                continue
            at = 0
            for batches, written in shared:
                if not written.done():
                    written.set_result((appended[at : at + len(batches)], frame_end))
                at += len(batches)

    def _end_turn(self) -> None:
        self._is_turn_begun = False
        if self._waiting:
            self.drain()


def _payload_bytes(batches: Sequence[CheckedBatch]) -> int:
    return sum(len(batch.payload) for batch in batches)
