"""How far one group is in one queue. Knows queue offsets; no clock, no leases, no log.

Every offset below `floor` is settled. `floor` to `cursor` is the window: handed out at least once,
settled or not, a bit each. From `cursor` on nothing was handed out.
"""

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.journal import Runs, runs_of

_WINDOW_MIN = 64
# Of who has nothing out: of tens of thousands of lite topics most are so.
_NO_WINDOW = np.zeros(0, dtype=bool)
_NO_RUNS = np.empty((0, 2), dtype=np.int64)


class QueueProgress:
    """Floor, cursor and the window between them."""

    __slots__ = ("_begin", "_window", "cursor", "floor", "group", "leases", "queue", "topic")

    def __init__(self, group: str, topic: str, queue: int, *, start: int) -> None:
        """Begin at queue offset `start` with nothing handed out."""
        self.group = group
        self.topic = topic
        self.queue = queue
        self.floor = start
        self.cursor = start
        self.leases: set[int] = set()
        # The window's bits are _window[_begin : _begin + cursor - floor].
        self._window = _NO_WINDOW
        self._begin = 0

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Return the window's bits, the first for `floor`: bool[cursor - floor], a view."""
        return self._window[self._begin : self._begin + self.cursor - self.floor]

    @property
    def settled_runs(self) -> Runs:
        """Return what is settled inside the window."""
        if self.floor == self.cursor:
            return _NO_RUNS
        return runs_of(np.flatnonzero(self.settled) + self.floor)

    def advance(self, cursor: int, unsettled: NDArray[np.int64]) -> None:
        """Move the cursor; offsets passed over that are not in `unsettled` count as settled."""
        passed = cursor - self.cursor
        if passed <= 0:
            return
        self._make_room(passed)
        used = self._begin + self.cursor - self.floor
        self._window[used : used + passed] = True
        self._window[used + unsettled - self.cursor] = False
        self.cursor = cursor
        self._raise_floor()

    def settle(self, offsets: NDArray[np.int64]) -> None:
        """Mark offsets of the window settled; those outside it are passed over."""
        inside = offsets[(offsets >= self.floor) & (offsets < self.cursor)]
        self._window[self._begin + inside - self.floor] = True
        self._raise_floor()

    def jump(self, queue_offset: int) -> None:
        """Begin anew at `queue_offset`, forwards or back, with nothing handed out."""
        self.floor = self.cursor = queue_offset
        self._begin = 0

    def raise_to(self, floor: int) -> None:
        """Count everything below `floor` as settled; nothing moves back."""
        if floor >= self.cursor:
            self.jump(floor)
        elif floor > self.floor:
            self.settle(np.arange(self.floor, floor))

    def _raise_floor(self) -> None:
        bits = self.settled
        if not len(bits) or not bits[0]:
            return
        first = int(np.argmin(bits))
        step = len(bits) if bits[first] else first
        self._begin += step
        self.floor += step
        if self.floor == self.cursor and len(self._window) <= _WINDOW_MIN:
            self._window, self._begin = _NO_WINDOW, 0

    def _make_room(self, count: int) -> None:
        used = self.cursor - self.floor
        if self._begin + used + count <= len(self._window):
            return
        if used + count > len(self._window) // 2:
            grown = np.zeros(max(_WINDOW_MIN, 2 * (used + count)), dtype=bool)
            grown[:used] = self.settled
            self._window = grown
        else:
            self._window[:used] = self.settled.copy()
        self._begin = 0
