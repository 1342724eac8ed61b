"""The time of an event loop as a clock. For how long a thread takes, not for what messages say."""

import asyncio

from apps.engine.clock import Clock


class LoopClock:
    """Tells time by the loop that waits for a thread, and wall time by the store's clock.

    The store's clock may be set or stand still while a sync is under way; how long the sync takes
    is measured by what would time it out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Bind to both."""
        self._loop = loop
        self._clock = clock

    def monotonic_ms(self) -> int:
        """Return the loop's time."""
        return int(self._loop.time() * 1000)

    def wall_ms(self) -> int:
        """Return the store's wall time."""
        return self._clock.wall_ms()
