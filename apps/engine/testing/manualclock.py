"""A clock that a test moves. Knows no real time."""

_START_WALL_MS = 1_700_000_000_000


class ManualClock:
    """Both readings of `Clock`, standing still until told otherwise."""

    def __init__(self, wall_ms: int = _START_WALL_MS) -> None:
        """Start the wall clock at `wall_ms` and the monotonic one at 1,000,000 ms."""
        self._wall_ms = wall_ms
        self._monotonic_ms = 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return self._wall_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let `ms` go by on both; raise ValueError for less than 0."""
        if ms < 0:
            raise ValueError("time goes forward; use set_wall for a jump")
        self._wall_ms += ms
        self._monotonic_ms += ms

    def set_wall(self, wall_ms: int) -> None:
        """Set the wall clock, as an administrator does; the monotonic one goes on unmoved."""
        self._wall_ms = wall_ms
