"""Celery's scheduler on a clock that nobody sets. Knows Celery's heap of entries; no task."""

from datetime import UTC, datetime
from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from apps.engine.clock import SystemClock

_clock = SystemClock()
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class SteadyScheduler(Scheduler):
    """Waits by the monotonic clock; whether an entry is due is still asked of its schedule.

    The stock scheduler waits for wall times: set back by an hour, it would send nothing for an
    hour.
    """

    def setup_schedule(self) -> None:
        """Have every entry due at once: while no beat ran, slots may have begun."""
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at = _LONG_AGO

    def _when(self, entry: ScheduleEntry, next_time_to_run: Any, *_mktime: Any) -> float:
        """Return the moment of the monotonic clock that lies so many seconds ahead."""
        del entry
        return _clock.monotonic_ms() / 1000 + float(self.adjust(next_time_to_run) or 0)
