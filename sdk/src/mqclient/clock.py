"""Where the client gets the time. Knows the system's clocks; nothing else here may read them."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall's for time stamps, a steady one for waiting."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC; may jump."""

    def steady_s(self) -> float:
        """Return seconds since some moment; never goes back."""


class SystemClock:
    """The clocks of the operating system."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    # Asked several times a send, so without a Python call around it.
    steady_s = staticmethod(time.monotonic)
