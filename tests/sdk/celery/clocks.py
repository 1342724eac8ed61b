"""A clock for tests of leases and outages. Knows nothing of either."""


class ManualClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def wall_ms(self) -> int:
        """Return its time as a wall clock's."""
        return int(self.now_s * 1000)

    def steady_s(self) -> float:
        """Return its time."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Go on."""
        self.now_s += seconds
