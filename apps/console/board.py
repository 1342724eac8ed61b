"""Where the feed posts its newest picture and pages and sockets find it. Knows no engine.

One board a process. Empty means that no engine is open in this process.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.console.snapshot import Snapshot
from apps.engine.clock import Clock

# Readings come once a second; after this long without one, what is shown is history.
STALE_AFTER_MS = 5_000

Point = tuple[int, float | None, float | None, int | None]
"""Wall time in ms, messages sent and consumed a second, lag; None is unknown and breaks a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A picture, the short history before it, and when it was taken by the feed's clock."""

    snapshot: Snapshot
    history: Sequence[Point]
    clock: Clock
    taken_monotonic_ms: int

    def age_ms(self) -> int:
        """Return how long ago the picture was taken; jumps of the wall clock do not count."""
        return self.clock.monotonic_ms() - self.taken_monotonic_ms

    def is_stale(self) -> bool:
        """Return whether the feed has stopped bringing readings."""
        return self.age_ms() > STALE_AFTER_MS


class Board:
    """Holds the newest post; read from any thread, written by the feed alone."""

    def __init__(self) -> None:
        # One attribute, replaced as a whole: a reader sees the old post or the new one.
        self._posted: Posted | None = None

    def latest(self) -> Posted | None:
        """Return the newest post; None when no engine is open here."""
        return self._posted

    def put(self, posted: Posted) -> None:
        """Replace the post."""
        self._posted = posted

    def clear(self) -> None:
        """Say that no engine is open."""
        self._posted = None


board = Board()
