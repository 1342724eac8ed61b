"""Where a search looks: in one place, along the index, or through queues. Knows no records.

Each gives candidates, the newest first, a bounded step at a time, and remembers where it is when a
cold read ends a step.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from apps.engine.broker.timesearch import StoreTimes
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.index.walk import KeyWalk
from apps.engine.derived.sparse import entries_between, named_between, stretch

# A step holds the loop for a millisecond or two; a search ends, incomplete, after 32 of the first
# kind or 16 of the second. A chain's entry costs 0.7 us, a queue's 0.01.
_WALK_ENTRIES = 2_048
WALKED_MAX = 65_536
_SCAN_ENTRIES = 16_384
SCANNED_MAX = 16 * _SCAN_ENTRIES
# Two searches by time in a queue are up to 80 looks of 10 us.
_QUEUES_A_STEP = 4
_FOUND_A_STEP = 32
# Where a queue ends in a gap it is not known how far back that reaches.
_UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A place in the log where a message may be; `size_bytes` is 0 where only a hash says so."""

    log_offset: int
    size_bytes: int = 0


class Places(Protocol):
    """Candidates of one search, the newest first."""

    @property
    def looked_from(self) -> int | None:
        """Return the log offset down to which all were given, where a tired search can say so.

        None where it cannot, and before it is tired.
        """
        ...

    @property
    def is_over(self) -> bool:
        """Say whether there are no more."""
        ...

    @property
    def is_incomplete(self) -> bool:
        """Say whether some place was not looked at."""
        ...

    def step(self, *, wait: bool) -> Sequence[Candidate]:
        """Return the next candidates, or none yet. Raises ColdRead as `patiently` wants it."""
        ...


class Known:
    """The one candidate that was named by its place."""

    is_incomplete = False
    looked_from: int | None = None

    def __init__(self, find: Callable[[bool], Sequence[Candidate]]) -> None:
        """Ask for it once; the argument says whether to wait for the disk."""
        self._find = find
        self.is_over = False

    def step(self, *, wait: bool) -> Sequence[Candidate]:
        """Return the candidate, or none where nothing can be there."""
        found = self._find(wait)
        self.is_over = True
        return found


class Indexed:
    """Candidates that the index has for a key."""

    looked_from: int | None = None

    def __init__(self, walk: KeyWalk) -> None:
        """Follow a walk, as far as one search may."""
        self._walk = walk

    @property
    def _is_tired(self) -> bool:
        return self._walk.walked >= WALKED_MAX

    @property
    def is_over(self) -> bool:
        """Say whether the chains are at their end, or the search is."""
        return self._walk.is_over or self._is_tired

    @property
    def is_incomplete(self) -> bool:
        """Say whether a file did not verify, or the chains go on."""
        return self._walk.has_gap or (self._is_tired and not self._walk.is_over)

    def step(self, *, wait: bool) -> Sequence[Candidate]:
        """Return what the next stretch of the chains has."""
        found = self._walk.step(entries_max=_WALK_ENTRIES, found_max=_FOUND_A_STEP, wait=wait)
        return [Candidate(offset) for offset in found]


class Kept:
    """Candidates among the kept messages of queues: of a key or an id, found in their rows."""

    looked_from: int | None = None

    def __init__(
        self, queues: Sequence[ConsumeQueue], *, key: tuple[int, int] | None, id_hash: int | None
    ) -> None:
        """Begin at the newest kept message of each queue, one queue after the other."""
        self._key = key
        self._id_hash = id_hash
        self._left = [(queue, queue.covered) for queue in queues if queue.covered]
        self._scanned = 0

    @property
    def _is_tired(self) -> bool:
        return self._scanned >= SCANNED_MAX

    @property
    def is_over(self) -> bool:
        """Say whether all rows were looked at, or as many as one search may."""
        return not self._left or self._is_tired

    @property
    def is_incomplete(self) -> bool:
        """Say whether rows were left out."""
        return bool(self._left)

    def step(self, *, wait: bool) -> Sequence[Candidate]:
        """Look at the next block of rows."""
        queue, stop = self._left[-1]
        found, first, count = named_between(
            queue, stop, key=self._key, id_hash=self._id_hash, wait=wait
        )
        self._scanned += count
        self._left.pop()
        if count and first > queue.min_offset:
            self._left.append((queue, first))
        rows = zip(found["log_offset"].tolist(), found["size_bytes"].tolist(), strict=True)
        return [Candidate(log_offset, size) for log_offset, size in rows][::-1]


@dataclass(slots=True, eq=False)
class _Lane:
    """A queue of a scan: what is left of it, and how many entries the next look takes."""

    queue: ConsumeQueue
    low: int
    high: int
    count: int = field(default=_FOUND_A_STEP)


class Scanned:
    """Candidates that queues have in a stretch of time, of one tag or any, in order of the log.

    The queue that was looked at the least far back is looked at next, so that what is given is
    complete down to where the search is.
    """

    def __init__(
        self,
        queues: Sequence[ConsumeQueue],
        times: StoreTimes,
        *,
        from_ms: int | None,
        to_ms: int | None,
        tag_hash: int | None,
        before: int | None = None,
    ) -> None:
        """Begin at the newest message of each queue, of those before a log offset."""
        self._unbounded = list(queues)
        self._times = times
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._tag_hash = tag_hash
        self._before = before
        # By how far back each was looked at, the least first; the number settles ties.
        self._lanes: list[tuple[int, int, _Lane]] = []
        self._found: list[tuple[int, Candidate]] = []
        self._scanned = 0

    @property
    def _is_tired(self) -> bool:
        return self._scanned >= SCANNED_MAX and bool(self._lanes)

    @property
    def is_over(self) -> bool:
        """Say whether every entry of the stretch was looked at, or as many as one search may."""
        if self._unbounded:
            return False
        return not self._complete and (not self._lanes or self._is_tired)

    @property
    def is_incomplete(self) -> bool:
        """Say whether entries were left out."""
        return self._is_tired

    @property
    def looked_from(self) -> int | None:
        """Return the log offset down to which all was given when it was too much for one search.

        None where a queue ends in a gap, of which it is not known how far back it reaches.
        """
        if not self._is_tired or -self._lanes[0][0] >= _UNKNOWN:
            return None
        return -self._lanes[0][0]

    @property
    def _complete(self) -> bool:
        """Say whether something was found that nothing newer can come before."""
        return bool(self._found) and -self._found[0][0] >= self._complete_from

    @property
    def _complete_from(self) -> int:
        if not self._lanes or (self._is_tired and self.looked_from is None):
            return -1
        return -self._lanes[0][0]

    def step(self, *, wait: bool) -> Sequence[Candidate]:
        """Bound some queues in time, or look at the next stretch of one."""
        if self._unbounded:
            self._bound(wait=wait)
            return ()
        if self._lanes and not self._is_tired:
            self._look(wait=wait)
        found: list[Candidate] = []
        while self._complete and len(found) < _FOUND_A_STEP:
            found.append(heapq.heappop(self._found)[1])
        return found

    def _bound(self, *, wait: bool) -> None:
        for _ in range(min(_QUEUES_A_STEP, len(self._unbounded))):
            queue = self._unbounded[-1]
            low, high = queue.min_offset, queue.visible
            if self._from_ms is not None:
                low = self._times.first_since(queue, self._from_ms, wait=wait)
            if self._to_ms is not None:
                high = self._times.first_since(queue, self._to_ms, wait=wait)
            if self._before is not None:
                high = _first_at_log(queue, self._before, low, high, wait=wait)
            if low < high:
                last = entries_between(queue, high - 1, high, wait=wait)
                # It is not looked at yet, so the queue is known down to just behind it.
                newest = int(last["log_offset"][0]) + 1 if len(last) else _UNKNOWN
                lane = _Lane(queue=queue, low=low, high=high)
                heapq.heappush(self._lanes, (-newest, len(self._unbounded), lane))
            self._unbounded.pop()

    def _look(self, *, wait: bool) -> None:
        # What was seen of a lane stays as it was where the next stretch is one gap.
        _, number, lane = self._lanes[0]
        # A topic that was deleted, or a queue that got shorter, takes its messages along.
        low = max(lane.low, lane.queue.min_offset)
        first = max(lane.high - lane.count, low)
        if first >= lane.high:
            heapq.heappop(self._lanes)
            return
        entries = entries_between(lane.queue, first, lane.high, wait=wait)
        self._scanned += len(entries)
        lane.high = first
        if self._tag_hash is None:
            rows = np.arange(len(entries))
        else:
            rows = np.flatnonzero(entries["tag_hash"] == self._tag_hash)
        if not len(rows):
            lane.count = min(4 * lane.count, _SCAN_ENTRIES)
        for row in rows.tolist():
            candidate = Candidate(int(entries["log_offset"][row]), int(entries["size_bytes"][row]))
            heapq.heappush(self._found, (-candidate.log_offset, candidate))
        if lane.high <= low:
            heapq.heappop(self._lanes)
        elif len(entries):
            seen = int(entries["log_offset"][0])
            heapq.heapreplace(self._lanes, (-seen, number, lane))


def _first_at_log(queue: ConsumeQueue, log_offset: int, low: int, high: int, *, wait: bool) -> int:
    """Return the first queue offset from `low` on, below `high`, that lies there or behind it."""
    while low < high:
        middle = (low + high) // 2
        # In a gap it is the next message that says where the queue is in the log.
        offsets, entries, _ = stretch(queue, middle, 1, wait=wait)
        if len(offsets) and int(entries["log_offset"][0]) < log_offset:
            low = int(offsets[0]) + 1
        else:
            high = middle
    return low
