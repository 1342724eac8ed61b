"""Time as the engine sees it. The only module that asks the system for the time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one for people and records, one for deadlines."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC; may jump either way."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back; meaningless across restarts."""
        ...


class SystemClock:
    """The clock of the machine."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000
