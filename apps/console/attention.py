"""What of the alerts the overview says: which fire, and whether anybody looks. Asks no database.

Readings come from another thread every few seconds, so that the overview is there while the
database is away, and says then of when it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from apps.access.policy import Sight
from apps.access.policy.sight import ALL
from apps.alerts.selectors import Attention
from apps.console.alerts import AlertRow, age_s, alert_row
from apps.console.freshness import State, aged
from apps.core.phrases import Text
from apps.engine.clock import Clock

# Readings come every 3 s; from a database that is away each takes some seconds longer to fail.
OLD_AFTER_MS = 20_000
# Rules are looked at every 5 s.
LOOKED_S_MAX = 60


class AttentionPicture(TypedDict):
    """What needs somebody; `level` is how much, and `note` says when that was read too long ago.

    Of those that fire `more` are left out. It `is_old` when rules were looked at too long ago: what
    fires by now nobody knows.
    """

    level: str
    note: Text
    alerts: list[AlertRow]
    more: int
    firing: int
    acknowledged: int
    pending: int
    looked_s: int | None
    is_old: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    found: Attention
    taken_ms: int
    wall_ms: int


class AttentionWatch:
    """Keeps the newest reading, and tells what it means by now."""

    def __init__(self) -> None:
        """Know nothing yet."""
        # One attribute, replaced as a whole: readings come from another thread.
        self._reading: _Reading | None = None

    def take(self, read: Callable[[], Attention], *, clock: Clock) -> None:
        """Read and keep the reading; raise what `read` raises, and keep the last one then."""
        taken_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        self._reading = _Reading(found=read(), taken_ms=taken_ms, wall_ms=wall_ms)

    def forget(self) -> None:
        """Know nothing again."""
        self._reading = None

    def picture(self, *, clock: Clock, sight: Sight = ALL) -> AttentionPicture:
        """Return what needs somebody now, as far as a sight shows it."""
        reading = self._reading
        if reading is None:
            return _nothing(note="")
        passed_ms = clock.monotonic_ms() - reading.taken_ms
        state, note = aged(passed_ms, OLD_AFTER_MS)
        now_ms = reading.wall_ms + passed_ms
        found = reading.found.seen_by(sight)
        looked_s = age_s(found.looked_at, now_ms)
        is_old = looked_s is not None and looked_s > LOOKED_S_MAX
        level = "none"
        if found.alerts:
            is_critical = any(alert.severity == "critical" for alert in found.alerts)
            level = "critical" if is_critical else "warning"
        elif state is not State.FRESH or is_old:
            level = "stale"
        return {
            "level": level,
            "note": note,
            "alerts": [alert_row(alert, now_ms=now_ms) for alert in found.alerts],
            "more": found.firing - len(found.alerts),
            "firing": found.firing,
            "acknowledged": found.acknowledged,
            "pending": found.pending,
            "looked_s": looked_s,
            "is_old": is_old,
        }


def _nothing(*, note: str) -> AttentionPicture:
    return {
        "level": "none",
        "note": note,
        "alerts": [],
        "more": 0,
        "firing": 0,
        "acknowledged": 0,
        "pending": 0,
        "looked_s": None,
        "is_old": False,
    }


watch = AttentionWatch()
"""What this process has read; filled where the broker is."""
