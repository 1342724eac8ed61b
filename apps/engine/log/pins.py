"""Who is in the middle of a read. Knows no files: it counts readers by when they began.

What was reachable when a reader began must be there until it ends. Whoever takes something away
first makes it unreachable, and then waits for those that had begun before. For one thread: readers
in other threads are held by whoever waits for them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pins:
    """Readers under way, by generation."""

    def __init__(self) -> None:
        """Start without any."""
        self._generation = 0
        self._counts: dict[int, int] = {}
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Count as a reader until the block ends."""
        generation = self._generation
        self._counts[generation] = self._counts.get(generation, 0) + 1
        try:
            yield
        finally:
            self._counts[generation] -= 1
            if not self._counts[generation]:
                del self._counts[generation]
                self._call_back()

    def when_gone(self, call: Callable[[], None]) -> None:
        """Call once when all readers that are under way now have ended; at once without any."""
        self._waiting.append((self._generation, call))
        self._generation += 1
        self._call_back()

    def _call_back(self) -> None:
        oldest = min(self._counts, default=self._generation)
        ready = [call for generation, call in self._waiting if generation < oldest]
        self._waiting = [item for item in self._waiting if item[0] >= oldest]
        for call in ready:
            call()
