"""Messages handed out and not settled, as leases ordered by due time.

Knows offsets, attempts and deadlines on the monotonic clock; not groups' progress, not the log.
A lease is one array of offsets, so ten thousand messages cost what one costs.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.journal import Runs, offsets_of
from apps.engine.broker.progress import QueueProgress
from apps.engine.failuretypes import Attempt
from apps.engine.limits import HISTORY_MAX, HISTORY_REASON_CHARACTERS_MAX

# Why an attempt failed that nobody gave back.
TIMED_OUT = "not acknowledged in time"
# What was settled is remembered so that an acknowledgement sent twice is answered "ok" twice.
_REMEMBERED = 65_536


@dataclass(slots=True, kw_only=True, eq=False)
class LeaseEntry:
    """Messages of one queue with one attempt number and one deadline.

    `offsets` int64[n], ascending, are those not settled. While `is_out` the handles are good; then
    the lease is ready (`due_ms` passed) or waits to become ready (given back with a delay). What
    was put off the first time has the attempt 0.
    """

    lease: int
    epoch: int
    """The store's epoch when the handles were given out; 0 where there are none."""
    progress: QueueProgress
    offsets: NDArray[np.int64]
    attempt: int
    due_ms: int
    until_wall_ms: int
    is_out: bool
    is_ready: bool = False
    failures_before: int = 0
    """How often each of the messages had failed before it came to this queue."""
    client_id: str = ""
    history: tuple[Attempt, ...] = ()
    """The failed attempts in this queue that are remembered, oldest first."""

    @property
    def failures(self) -> int:
        """Return how often the messages have failed, when this attempt has failed too."""
        return self.failures_before + self.attempt

    def given_back(self, at_ms: int, reason: str) -> tuple[Attempt, ...]:
        """Return the history once this attempt has failed for a reason."""
        attempt = Attempt(
            number=self.failures,
            at_ms=at_ms,
            reason=reason[:HISTORY_REASON_CHARACTERS_MAX],
            client_id=self.client_id,
        )
        return (*self.history, attempt)[-HISTORY_MAX:]

    def past(self) -> tuple[Attempt, ...]:
        """Return the history of a lease that is over, by being given back or by its time."""
        if not self.attempt or (self.history and self.history[-1].number == self.failures):
            return self.history
        return self.given_back(self.until_wall_ms, TIMED_OUT)


class Leases:
    """All leases of a store by number, and which of them falls due next."""

    def __init__(self) -> None:
        """Start with none."""
        self._entries: dict[int, LeaseEntry] = {}
        self._due: list[tuple[int, int]] = []
        self._settled: OrderedDict[tuple[int, int], list[Runs]] = OrderedDict()
        self.message_count = 0
        self.on_free: Callable[[QueueProgress], None] | None = None
        """Told when a lease is over or its messages are for anybody: something may be ready."""

    def __len__(self) -> int:
        """Return the number of leases."""
        return len(self._entries)

    def __iter__(self) -> Iterator[LeaseEntry]:
        """Iterate over the leases in no order."""
        return iter(list(self._entries.values()))

    def get(self, lease: int) -> LeaseEntry | None:
        """Return a lease with unsettled messages, or None."""
        return self._entries.get(lease)

    def was_settled(self, lease: int, epoch: int, first: int, last: int) -> bool:
        """Say whether a message between the two offsets was settled under the lease.

        Only as far back as is remembered: the last 65,536 leases that had anything settled.
        """
        runs = self._settled.get((lease, epoch), ())
        return any(((part[:, 0] <= last) & (part[:, 1] >= first)).any() for part in runs)

    def add(self, entry: LeaseEntry) -> None:
        """Keep a lease; an empty one is not kept."""
        if not len(entry.offsets):
            return
        self._entries[entry.lease] = entry
        entry.progress.leases.add(entry.lease)
        self.message_count += len(entry.offsets)
        if not entry.is_ready:
            heapq.heappush(self._due, (entry.due_ms, entry.lease))

    def settle(self, entry: LeaseEntry, runs: Runs) -> None:
        """Remove runs, all of which it has, from a lease, and remember that they were settled."""
        self._settled.setdefault((entry.lease, entry.epoch), []).append(runs)
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)
        self.take(entry, offsets_of(runs))

    def renew(self, entry: LeaseEntry, *, due_ms: int, until_wall_ms: int) -> None:
        """Move the deadline of a lease that is out; one that is ready already is left so."""
        if entry.is_ready or not entry.is_out:
            return
        entry.due_ms, entry.until_wall_ms = due_ms, until_wall_ms
        heapq.heappush(self._due, (due_ms, entry.lease))

    def take(self, entry: LeaseEntry, offsets: NDArray[np.int64]) -> None:
        """Remove offsets, all of which it has, from a lease; one left empty is dropped."""
        if len(offsets) < len(entry.offsets):
            kept = entry.offsets[~np.isin(entry.offsets, offsets, assume_unique=True)]
            self.message_count -= len(entry.offsets) - len(kept)
            entry.offsets = kept
        else:
            self.drop(entry)

    def drop(self, entry: LeaseEntry) -> None:
        """Forget a lease and the messages it still has."""
        self.message_count -= len(entry.offsets)
        self._entries.pop(entry.lease, None)
        entry.progress.leases.discard(entry.lease)
        if self.on_free is not None:
            self.on_free(entry.progress)

    def next_due_ms(self) -> int | None:
        """Return when the next lease falls due; None when there is none."""
        while self._due and self._is_stale(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def expire(self, now_ms: int) -> list[LeaseEntry]:
        """Make ready every lease due by `now_ms`, and return those."""
        ready = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            entry = self._entries[heapq.heappop(self._due)[1]]
            entry.is_out = False
            entry.is_ready = True
            ready.append(entry)
            if self.on_free is not None:
                self.on_free(entry.progress)
        return ready

    def _is_stale(self, item: tuple[int, int]) -> bool:
        entry = self._entries.get(item[1])
        # One that was renewed has its deadline in another item.
        return entry is None or entry.is_ready or entry.due_ms != item[0]
