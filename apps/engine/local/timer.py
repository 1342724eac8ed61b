"""Call back when something falls due. Knows a loop and a clock; not what falls due."""

import asyncio
from collections.abc import Callable

from apps.engine.clock import Clock


class Timer:
    """One alarm, set for the earliest of many moments. Needs a running loop."""

    def __init__(
        self, clock: Clock, next_ms: Callable[[], int | None], act: Callable[[], None]
    ) -> None:
        """Act when it is the moment `next_ms` tells, on the monotonic clock."""
        self._clock = clock
        self._next_ms = next_ms
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    def arm(self) -> None:
        """Ask for the next moment; to be called after whatever may have brought it forward."""
        due_ms = self._next_ms()
        if due_ms is None or (self._alarm is not None and self._alarm_ms <= due_ms):
            return
        self.cancel()
        self._alarm_ms = due_ms
        left_ms = max(0, due_ms - self._clock.monotonic_ms())
        self._alarm = self._loop.call_later(left_ms / 1000, self._ring)

    def cancel(self) -> None:
        """Do not call back any more, until it is armed again."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self._act()
        self.arm()
