"""The way of a group's life into rows: looked at on the engine's loop, written in a thread.

A look costs little where nothing happened, and nothing is then written. What a look that could not
be written has seen is seen again by the next: the engine remembers its history, and state is what
it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from apps.engine.api import EngineControl
from apps.engine.clock import Clock
from apps.engine.grouptypes import GroupHistory, LockRefused
from apps.groups.projection.history import write_history
from apps.groups.projection.reading import Reading
from apps.groups.projection.refusals import RefusalsSeen, write_refusals
from apps.groups.projection.seen import SeenGroups
from apps.groups.projection.state import write_reading
from apps.groups.projection.turns import turn

# What is in no history changes seldom: what a member wants, and whether a lock has expired.
READ_EVERY_MS = 5_000
# All rows are compared at times, so that one that anybody else has changed does not stay wrong.
COMPARE_EVERY_MS = 60_000
# A look at all groups shares the engine's loop, and takes one fiftieth of its time at most.
REST_PER_LOOK = 50
# Asking for so many groups one by one costs as much as asking for all.
GROUPS_READ_ALONE_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at the engine has seen; `groups` None asks for a comparison of all rows."""

    store_id: str
    epoch: int
    history: GroupHistory
    refused: Sequence[LockRefused]
    reading: Reading
    pictures: Mapping[str, object]
    groups: frozenset[str] | None
    compare_again_ms: int


class GroupProjector:
    """Remembers what the rows say, and writes what does not agree with it."""

    def __init__(self, clock: Clock) -> None:
        """Know nothing: the first look compares all rows, and reads the whole history."""
        self._clock = clock
        self.seen = SeenGroups()
        self._store_id = ""
        self._epoch = 0
        self._refusals = RefusalsSeen()
        self._after = -1
        self._written: Mapping[str, object] = {}
        self._read_again_ms = self._compare_again_ms = clock.monotonic_ms()

    def look(self, engine: EngineControl) -> Look | None:
        """Ask the engine what happened; None where no row has to be written for it.

        Groups with a new line of history are read at once, all groups every few seconds.
        """
        now_ms = self._clock.monotonic_ms()
        # An engine has one store as long as it lives.
        if not self._store_id:
            status = engine.status()
            self._store_id, self._epoch = status.store_id, status.epoch
        history = engine.history(self._after)
        happened = {line.group for line in history.transitions}
        happened |= {line.group for line in history.rebalances}
        reads_all = now_ms >= self._read_again_ms
        if not happened and not reads_all:
            return None
        reading = self._read(engine, None if reads_all else happened)
        refused: Sequence[LockRefused] = ()
        if reads_all:
            refused = self._refusals.news(engine.lock_refusals(self._refusals.since_ms))
        pictures = reading.pictures()
        if not reads_all:
            others = {name: of for name, of in self._written.items() if name not in happened}
            pictures = {**others, **pictures}
        changed = _changed(self._written, pictures)
        compares_all = reads_all and now_ms >= self._compare_again_ms
        if reads_all:
            spent_ms = self._clock.monotonic_ms() - now_ms
            self._read_again_ms = now_ms + max(READ_EVERY_MS, spent_ms * REST_PER_LOOK)
        if not happened and not changed and not compares_all and not refused:
            return None
        return Look(
            store_id=self._store_id,
            epoch=self._epoch,
            history=history,
            refused=refused,
            reading=reading,
            pictures=pictures,
            groups=None if compares_all else changed,
            compare_again_ms=now_ms + COMPARE_EVERY_MS if compares_all else self._compare_again_ms,
        )

    def write(self, look: Look) -> int:
        """Write what a look has seen and return how many rows that were.

        When the database refuses, nothing is remembered, and the next look sees it again.
        """
        with turn():
            written = write_history(
                look.history, store_id=look.store_id, now_ms=look.reading.taken_ms
            ) + write_reading(look.reading, look.groups)
            written += write_refusals(look.refused, store_id=look.store_id, epoch=look.epoch)
        if look.groups is None:
            self.seen.forget()
        written += self.seen.project(look.pictures)
        self._refusals.remember(look.refused)
        self._after = look.history.last
        self._written = look.pictures
        self._compare_again_ms = look.compare_again_ms
        return written

    def _read(self, engine: EngineControl, groups: Collection[str] | None) -> Reading:
        names: Sequence[str | None] = (
            [None] if groups is None or len(groups) > GROUPS_READ_ALONE_MAX else sorted(groups)
        )
        return Reading(
            taken_ms=self._clock.wall_ms(),
            members=[found for name in names for found in engine.members(name)],
            assigned=[found for name in names for found in engine.rebalances(name)],
            locks=[found for name in names for found in engine.queue_locks(name)],
        )


def _changed(before: Mapping[str, object], now: Mapping[str, object]) -> frozenset[str]:
    return frozenset(group for group in {*before, *now} if before.get(group) != now.get(group))
