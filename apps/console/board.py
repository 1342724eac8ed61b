"""Where the feed posts its newest picture and pages and sockets find it. Knows no engine.

One board a process. Empty means that no engine is open in this process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.access.policy import Sight
from apps.console.picture import Picture, Point
from apps.console.snapshot import Snapshot
from apps.engine.clock import Clock

# Readings come once a second; after this long without one, what is shown is history.
STALE_AFTER_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A picture, and when it was taken by the feed's clock."""

    picture: Picture
    clock: Clock
    taken_monotonic_ms: int

    @property
    def snapshot(self) -> Snapshot:
        """Return what the picture shows."""
        return self.picture.snapshot

    @property
    def history(self) -> Sequence[Point]:
        """Return the minutes before it."""
        return self.picture.history

    def seen_by(self, sight: Sight) -> "Posted":
        """Return the post as far as a sight shows it."""
        picture = self.picture.seen_by(sight)
        return self if picture is self.picture else replace(self, picture=picture)

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
