"""Notices when leases of locks end without a renewal. Knows the lock table and both clocks.

A lease ends by the monotonic clock and nothing happens then: the lock stays where it is until
somebody takes it. That it ended is written down when it is noticed, so that a history can tell who
lost a lock from who gave it back. While the broker is away nobody notices, and after a restart
every lock whose end was not written down has a whole lease again.
"""

import heapq
import logging
from collections.abc import Callable, Sequence

from apps.engine.broker.journal import Event
from apps.engine.broker.lockevents import LockExpired
from apps.engine.broker.locktable import LockTable, Place
from apps.engine.clock import Clock
from apps.engine.errors import StoreFull

_log = logging.getLogger(__name__)

# One look takes a few milliseconds at most; the next one follows at once.
_NOTED_MAX = 1_000
# A full disk has no room for the note; so long until the next try.
_TRY_AGAIN_MS = 1_000


class LockExpiries:
    """When to look at which lock; a renewal moves its end, and is seen at the next look."""

    def __init__(
        self, table: LockTable, record_all: Callable[[Sequence[Event]], object], *, clock: Clock
    ) -> None:
        """Look at every lock of the table when its lease ends."""
        self._table = table
        self._record_all = record_all
        self._clock = clock
        # (when to look, number, group, place, epoch): one for each possession, not each renewal.
        self._looks: list[tuple[int, int, str, Place, int]] = []
        self._number = 0
        for group, place, entry in table:
            if entry.is_over:
                continue
            self.watch(group, place, epoch=entry.epoch, at_ms=entry.lease_end_ms)

    def watch(self, group: str, place: Place, *, epoch: int, at_ms: int) -> None:
        """Look at a lock at a time of the monotonic clock, if it has this epoch then."""
        self._number += 1
        heapq.heappush(self._looks, (at_ms, self._number, group, place, epoch))

    def next_look_ms(self) -> int | None:
        """Return when `note` may have something to do, on the monotonic clock."""
        return self._looks[0][0] if self._looks else None

    def note(self) -> int:
        """Write down which leases have ended, 1,000 at the most, and return how many.

        Raises WriteFailed. On a full disk nothing is written, and it is tried again a second later.
        """
        now_ms = self._clock.monotonic_ms()
        ended: list[Event] = []
        found: list[tuple[str, Place, int]] = []
        owners: list[str] = []
        while self._looks and self._looks[0][0] <= now_ms and len(ended) < _NOTED_MAX:
            _, _, group, place, epoch = heapq.heappop(self._looks)
            entry = self._table.get(group, *place)
            if entry is None or entry.epoch != epoch:
                continue
            if entry.lease_end_ms > now_ms:
                self.watch(group, place, epoch=epoch, at_ms=entry.lease_end_ms)
                continue
            topic, queue = place
            late_ms = now_ms - entry.lease_end_ms
            ended.append(
                LockExpired(group=group, topic=topic, queue=queue, epoch=epoch, late_ms=late_ms)
            )
            found.append((group, place, epoch))
            owners.append(entry.owner)
        try:
            if ended:
                self._record_all(ended)
        except StoreFull:
            # Some may have been written; they are noted twice rather than not at all.
            for group, place, epoch in found:
                self.watch(group, place, epoch=epoch, at_ms=now_ms + _TRY_AGAIN_MS)
            raise
        for (group, (topic, queue), epoch), owner in zip(found, owners, strict=True):
            what = {"group": group, "topic": topic, "queue": queue, "epoch": epoch}
            _log.warning("lock_expired", extra={**what, "owner": owner})
        return len(ended)
