"""When a tick is sent: a little after each multiple of an interval. Knows Celery's schedules."""

from datetime import datetime
from math import floor

from celery.schedules import schedstate, schedule

# Ticks come this long after the slot begins, so that a clock a little ahead of the database's does
# not send them into the slot before.
AFTER_SLOT_S = 0.2


class AlignedSchedule(schedule):
    """Every `every_s` seconds, at multiples of it since the epoch.

    However long nothing was sent, one tick is sent to make up for it. A clock that jumps, forward
    or back, costs at most one extra tick.
    """

    def __init__(self, every_s: int) -> None:
        super().__init__(run_every=every_s)
        self.every_s = every_s

    def __reduce__(self) -> tuple[type["AlignedSchedule"], tuple[int]]:
        return type(self), (self.every_s,)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether to send now, and in how many seconds to look again."""
        now_s = self.now().timestamp() - AFTER_SLOT_S
        slot = floor(now_s / self.every_s)
        last_slot = floor((last_run_at.timestamp() - AFTER_SLOT_S) / self.every_s)
        return schedstate(is_due=slot != last_slot, next=(slot + 1) * self.every_s - now_s)
