"""How long what has ended rests before it is started again. Knows times it is given; no clock."""

from dataclasses import dataclass, field

# What lived this long is taken for healthy, and its next pause is short again.
HEALTHY_MS = 60_000


@dataclass(slots=True, kw_only=True)
class Pauses:
    """Pauses that double from end to end, from `min_ms` up to `max_ms`."""

    min_ms: int
    max_ms: int
    _next_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._next_ms = self.min_ms

    def after(self, lived_ms: int, *, is_hopeless: bool = False) -> int:
        """Return the pause after a life of so many ms: the longest where an early start again is
        of no use."""
        if lived_ms >= HEALTHY_MS:
            self._next_ms = self.min_ms
        if is_hopeless:
            self._next_ms = self.max_ms
        found = self._next_ms
        self._next_ms = min(2 * found, self.max_ms)
        return found
