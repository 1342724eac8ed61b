"""Things to do at a moment. Knows no clock: who asks says what time it is."""

import heapq
from collections.abc import Callable
from itertools import count


class Timers:
    """Callbacks by moment; its owner keeps the lock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, moment_s: float, call: Callable[[], None]) -> None:
        """Call back at a moment of the steady clock, in the order of the moments."""
        heapq.heappush(self._heap, (moment_s, next(self._numbers), call))

    def next_s(self) -> float | None:
        """Return the first moment, None without any."""
        return self._heap[0][0] if self._heap else None

    def run(self, now_s: float) -> None:
        """Call back everything whose moment has come."""
        while self._heap and self._heap[0][0] <= now_s:
            heapq.heappop(self._heap)[2]()
