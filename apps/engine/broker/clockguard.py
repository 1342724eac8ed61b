"""Notice that the wall clock was set. Knows the two readings of a clock; not what waits.

Time itself moves both readings alike. A step of the wall clock alone is written down, so that what
was accepted before waits as long as it was asked to by both reckonings, over restarts too. What
happens while no broker runs cannot be told from time: then the wall clock is believed.
"""

import logging
from collections.abc import Callable

from apps.engine.broker.careevents import ClockJumped
from apps.engine.clock import Clock

_log = logging.getLogger(__name__)

# A clock that is kept right by the network is slewed, or set by less than this.
_STEP_MS_MAX = 1_000


class ClockGuard:
    """Compares the readings at every look."""

    def __init__(
        self,
        clock: Clock,
        record: Callable[[ClockJumped], object],
        *,
        next_number: Callable[[], int],
        log_end: Callable[[], int],
    ) -> None:
        """Begin now; `record` writes a jump down and carries it out."""
        self._clock = clock
        self._record = record
        self._next_number = next_number
        self._log_end = log_end
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()

    def look(self) -> int:
        """Return the wall time, after a jump of it was recorded. Raises StoreFull or WriteFailed.

        To be called before anything is delivered by this time or given a moment in it.
        """
        wall_ms = self._clock.wall_ms()
        ahead_ms = wall_ms - self._clock.monotonic_ms()
        jump_ms = ahead_ms - self._ahead_ms
        if abs(jump_ms) > _STEP_MS_MAX:
            self._record(
                ClockJumped(number=self._next_number(), log_offset=self._log_end(), jump_ms=jump_ms)
            )
            _log.warning("clock_jumped", extra={"jump_ms": jump_ms, "wall_ms": wall_ms})
        self._ahead_ms = ahead_ms
        return wall_ms
