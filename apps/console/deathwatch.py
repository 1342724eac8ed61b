"""What the overview says of dead letters: how many wait, since when, and in which groups.

Asks no database: readings come from another thread. Ages go by the database's clock up to the
reading, and by the monotonic clock from there on. None is unknown, and never written as 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypedDict

from apps.console.freshness import NOT_READ_YET, State, aged
from apps.core.moments import ms_of
from apps.core.phrases import Text, phrases
from apps.deadletters.selectors import Waiting
from apps.engine.clock import Clock

# Readings come every 5 s; from a database that is away each takes some seconds longer to fail.
OLD_AFTER_MS = 20_000
# So many the overview has room for; the picture has all.
GROUPS_SHOWN: Final = 5


class GroupDeaths(TypedDict):
    """The dead letters of one group; the oldest that waits died so many seconds ago."""

    group: str
    waiting: int
    died_today: int
    oldest_s: int | None


class DeathsPicture(TypedDict):
    """The dead letters at the moment of a picture; `note` says when they are of another one.

    `groups` are those with letters that wait, most first, and those where some died;
    `note_of_groups` says how many of the first the overview leaves out.
    """

    state: str
    note: Text
    waiting: int | None
    died_today: int | None
    oldest_s: int | None
    groups: list[GroupDeaths]
    note_of_groups: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    found: Sequence[Waiting]
    taken_ms: int
    wall_ms: int


class DeathWatch:
    """Keeps the newest reading, and tells what it means by now."""

    def __init__(self, *, clock: Clock) -> None:
        """Know nothing yet."""
        self._clock = clock
        # One attribute, replaced as a whole: readings come from another thread.
        self._reading: _Reading | None = None

    def take(self, read: Callable[[], Sequence[Waiting]]) -> None:
        """Read and keep the reading; raise what `read` raises, and keep the last one then."""
        # The time before the reading, so that nothing looks younger than it is.
        taken_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self._reading = _Reading(found=read(), taken_ms=taken_ms, wall_ms=wall_ms)

    def picture(self) -> DeathsPicture:
        """Return the dead letters as pages show them now."""
        reading = self._reading
        if reading is None:
            return {
                "state": State.NOT_KNOWN.value,
                "note": NOT_READ_YET,
                "waiting": None,
                "died_today": None,
                "oldest_s": None,
                "groups": [],
                "note_of_groups": "",
            }
        passed_ms = self._clock.monotonic_ms() - reading.taken_ms
        state, note = aged(passed_ms, OLD_AFTER_MS)
        now_ms = reading.wall_ms + passed_ms
        in_need = [one for one in reading.found if one.waiting]
        oldest = min((one.oldest_at for one in in_need if one.oldest_at), default=None)
        left_out = len(in_need) - GROUPS_SHOWN
        return {
            "state": state.value,
            "note": note,
            "waiting": sum(one.waiting for one in in_need),
            "died_today": sum(one.died_today for one in reading.found),
            "oldest_s": _age_s(oldest, now_ms),
            "groups": [
                {
                    "group": one.group,
                    "waiting": one.waiting,
                    "died_today": one.died_today,
                    "oldest_s": _age_s(one.oldest_at, now_ms),
                }
                for one in reading.found
            ],
            "note_of_groups": note_of(left_out),
        }


def note_of(left_out: int) -> Text:
    """Say how many groups the overview has no room for; empty where it has."""
    if left_out <= 0:
        return ""
    return phrases("and %(count)s more group", "and %(count)s more groups", left_out)


def cut(picture: DeathsPicture) -> DeathsPicture:
    """Return what the overview shows."""
    in_need = [row for row in picture["groups"][:GROUPS_SHOWN] if row["waiting"]]
    return {**picture, "groups": in_need}


def of_group(picture: DeathsPicture, group: str) -> GroupDeaths | None:
    """Return the dead letters of one group that wait; None while nothing is known."""
    if picture["waiting"] is None:
        return None
    none: GroupDeaths = {"group": group, "waiting": 0, "died_today": 0, "oldest_s": None}
    return next((row for row in picture["groups"] if row["group"] == group), none)


def _age_s(at: datetime | None, now_ms: int) -> int | None:
    # A clock that was set back must not make anything lie ahead.
    return None if at is None else max(0, now_ms - ms_of(at)) // 1000
