"""The viewers of this process, and the newest frame for them. Knows no socket, layer or engine.

One audience a process. Frames may come by several ways, late and twice: the sequence of a frame
decides, and viewers never see an older one after a newer one.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from apps.console.snapshot import Snapshot

Sequence = tuple[int, int]
"""The store's epoch and the picture's version in it: grows with every picture, also over restarts.
"""

BEFORE_ALL: Sequence = (0, 0)


def sequence_of(snapshot: Snapshot) -> Sequence:
    """Return where a picture stands among all pictures of its store."""
    return int(snapshot["store"]["epoch"]), snapshot["version"]


class Audience:
    """Holds the newest frame, however many wait for it; used from one event loop."""

    def __init__(self) -> None:
        self._sequence = BEFORE_ALL
        self._text = ""
        self._is_replaced = asyncio.Event()
        self._viewers = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count a viewer for the time of the block."""
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1

    @property
    def is_there(self) -> bool:
        """Say whether anybody watches."""
        return self._viewers > 0

    @property
    def sequence(self) -> Sequence:
        """Return the sequence of the newest frame; `BEFORE_ALL` before the first."""
        return self._sequence

    def show(self, sequence: Sequence, text: str) -> None:
        """Give a frame to all viewers; one that is not newer than the newest is dropped."""
        if sequence <= self._sequence:
            return
        self._sequence, self._text = sequence, text
        replaced, self._is_replaced = self._is_replaced, asyncio.Event()
        replaced.set()

    async def newer_than(self, sequence: Sequence) -> tuple[Sequence, str]:
        """Return the newest frame as soon as it is newer than `sequence`.

        What came while nobody asked is skipped: a viewer who reads slowly costs no memory.
        """
        while self._sequence <= sequence:
            await self._is_replaced.wait()
        return self._sequence, self._text

    def clear(self) -> None:
        """Forget the newest frame, and the event loop of those who waited for one."""
        self._sequence, self._text = BEFORE_ALL, ""
        self._is_replaced = asyncio.Event()


audience = Audience()
