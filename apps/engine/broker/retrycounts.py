"""How often a group's messages have failed that are to come again: counts, for operators.

Knows where such messages are: in the group's retry topic, on their way there through a delay, and,
for `receive`, where they failed. Each record is looked at, so a count looks at no more than so many
of each kind and says when that was not all; it goes by portions, so that nobody waits for it.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.delays import Delays
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.names import check_group_name
from apps.engine.broker.owntopics import retry_topic
from apps.engine.broker.schedule import Schedule
from apps.engine.broker.state import ConsumerState
from apps.engine.codec.layout import RECORD_FIXED_BYTES, RECORD_HEADER, RECORD_HEADER_BYTES
from apps.engine.codec.properties import REAL_TOPIC, decode_properties
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.timer.rows import Rows, joined
from apps.engine.errors import StoreDamaged
from apps.engine.failuretypes import GroupRetries, RetryCount
from apps.engine.files.backend import NotCached
from apps.engine.log.commitlog import CommitLog

# What one count looks at: records of the retry topic and of each delay level, rows with a delay of
# their own, and of these the records that are for the group.
TOPIC_MAX = 10_000
LEVEL_MAX = 1_000
ROWS_MAX = 16_384
OWN_MAX = 1_000
# Holds the loop for 3 ms, of a level for 11 ms, on two busy processors with bodies of 1 KB.
_PORTION = 250
# Entries that lie apart are read with what is between them.
_SPAN = 4_096
_NEVER = 1 << 60

_Offsets = NDArray[np.int64]
_Headers = np.ndarray[tuple[int], np.dtype[np.void]]


@dataclass(slots=True, kw_only=True, eq=False)
class Counting:
    """A count, half done: what was found, by number of failures, and the portions left."""

    group: str
    in_topic: Counter[int] = field(default_factory=Counter)
    delayed: Counter[int] = field(default_factory=Counter)
    in_place: Counter[int] = field(default_factory=Counter)
    is_complete: bool = True
    # Each changes the counts once it has read everything, so that it may be repeated.
    portions: deque[Callable[[bool], None]] = field(default_factory=deque)

    def answer(self) -> GroupRetries:
        """Return what was found."""
        failures = self.in_topic.keys() | self.delayed.keys() | self.in_place.keys()
        return GroupRetries(
            group=self.group,
            counts=tuple(
                RetryCount(
                    failures=number,
                    in_topic=self.in_topic[number],
                    delayed=self.delayed[number],
                    in_place=self.in_place[number],
                )
                for number in sorted(failures)
            ),
            is_complete=self.is_complete,
        )


class RetryCounts:
    """Counts one group at a time, a portion at a time.

    What moves meanwhile from a delay into the retry topic is not counted, or where it was.
    """

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        state: ConsumerState,
        schedule: Schedule,
        delays: Delays,
    ) -> None:
        """Bind to a store."""
        self._log = log
        self._queues = queues
        self._state = state
        self._schedule = schedule
        self._delays = delays

    def begin(self, group: str) -> Counting:
        """Count what is known without reading, and return what is left to be looked at.

        Raises InvalidName.
        """
        check_group_name(group)
        counting = Counting(group=group)
        topic = retry_topic(group)
        queue = self._queues.find(topic, 0)
        leased = self._count_leases(counting)
        if queue is not None:
            offsets = self._waiting(group, queue)
            offsets = offsets[~np.isin(offsets, leased)]
            self._plan(counting, queue, offsets, TOPIC_MAX, counting.in_topic, None)
        for level in self._schedule.queues():
            offsets = np.arange(
                self._schedule.start(level),
                min(level.visible, self._schedule.start(level) + LEVEL_MAX + 1),
            )
            self._plan(counting, level, offsets, LEVEL_MAX, counting.delayed, topic)
        if self._delays.waiting.places.of_topic(topic):
            counting.portions.append(partial(self._find_own, counting, topic))
        return counting

    def look(self, counting: Counting, *, wait: bool) -> None:
        """Look at the next portion. Raises StoreDamaged; ColdRead when it may not wait."""
        counting.portions[0](wait)
        counting.portions.popleft()

    # --- where they failed: leases -------------------------------------------------------------

    def _count_leases(self, counting: Counting) -> _Offsets:
        """Count what failed where it lies; return the offsets of such in the retry topic."""
        topic = retry_topic(counting.group)
        leased = [np.empty(0, dtype=np.int64)]
        for progress in list(self._state.progress.values()):
            if progress.group != counting.group:
                continue
            for entry in map(self._state.leases.get, progress.leases):
                if entry is None or not (failures := _failures(entry)):
                    continue
                if progress.topic == topic:
                    counting.in_topic[failures] += len(entry.offsets)
                    leased.append(entry.offsets)
                else:
                    counting.in_place[failures] += len(entry.offsets)
        return np.concatenate(leased)

    # --- the retry topic and the levels: consume queues ----------------------------------------

    def _waiting(self, group: str, queue: ConsumeQueue) -> _Offsets:
        """Return the first offsets that the group has neither settled nor sent back."""
        progress = self._state.progress.get((group, queue.topic, queue.queue))
        first, inside = queue.min_offset, np.empty(0, dtype=np.int64)
        if progress is not None:
            first = max(first, progress.cursor)
            inside = np.flatnonzero(~progress.settled) + progress.floor
        last = min(queue.visible, first + TOPIC_MAX + 1)
        offsets = np.concatenate([inside, np.arange(first, last)])
        sent_back = self._state.failures.sent_back(group, queue.topic, queue.queue)
        return offsets[~np.isin(offsets, sent_back)]

    def _plan(
        self,
        counting: Counting,
        queue: ConsumeQueue,
        offsets: _Offsets,
        offsets_max: int,
        counts: Counter[int],
        topic: str | None,
    ) -> None:
        """Plan to look at offsets, up to so many; with a topic only at records that go there."""
        counting.is_complete &= len(offsets) <= offsets_max
        offsets = offsets[:offsets_max]
        while len(offsets):
            near = offsets[offsets < offsets[0] + _SPAN][:_PORTION]
            counting.portions.append(partial(self._look_at, queue, near, counts, topic))
            offsets = offsets[len(near) :]

    def _look_at(
        self,
        queue: ConsumeQueue,
        offsets: _Offsets,
        counts: Counter[int],
        topic: str | None,
        wait: bool,
    ) -> None:
        # What was deleted meanwhile does not come again.
        offsets = offsets[offsets >= queue.min_offset]
        if not len(offsets):
            return
        first = int(offsets[0])
        entries = queue.read(first, int(offsets[-1]) - first + 1, wait=wait)[offsets - first]
        log_offsets = entries["log_offset"].astype(np.int64)
        sizes = entries["size_bytes"].astype(np.int32)
        headers = self._headers(log_offsets, wait=wait)
        body_bytes = headers["body_bytes"].astype(np.int64)
        is_right = (headers["log_offset"] == log_offsets) & (headers["total_bytes"] == sizes)
        is_right &= (body_bytes >= 0) & (body_bytes <= sizes - RECORD_FIXED_BYTES)
        if not is_right.all():
            wrong = int(offsets[int(np.argmin(is_right))])
            raise StoreDamaged(
                f"queue {queue.topic}/{queue.queue} offset {wrong} is not in the log"
            )
        failures = headers["reconsume_times"]
        if topic is not None:
            behind = RECORD_HEADER_BYTES + body_bytes
            tails = self._read(log_offsets + behind, (sizes - behind).astype(np.int32), wait=wait)
            failures = failures[_goes_to(topic, tails, (sizes - behind).tolist())]
        counts.update(failures.tolist())

    def _headers(self, log_offsets: _Offsets, *, wait: bool) -> _Headers:
        sizes = np.full(len(log_offsets), RECORD_HEADER_BYTES, dtype=np.int32)
        return np.frombuffer(self._read(log_offsets, sizes, wait=wait), dtype=RECORD_HEADER)

    def _read(self, log_offsets: _Offsets, sizes: NDArray[np.int32], *, wait: bool) -> memoryview:
        try:
            return self._log.read_records(log_offsets, sizes, wait=wait)
        except NotCached as error:
            raise ColdRead(lambda: self._log.read_records(log_offsets, sizes, wait=True)) from error

    # --- delays of their own: rows -------------------------------------------------------------

    def _find_own(self, counting: Counting, topic: str, wait: bool) -> None:
        """Find the rows that go to a topic, and plan to look at their records."""
        waiting = self._delays.waiting
        parts = [waiting.waiting.between(0, _NEVER, ROWS_MAX)]
        is_complete = len(parts[0]) >= len(waiting.waiting)
        looked = len(parts[0])
        for run in waiting.runs.values():
            for block in range(run.cursor, run.block_count):
                if looked >= ROWS_MAX:
                    is_complete = False
                    break
                rows = run.block(block, wait=wait)
                parts.append(rows[~self._delays.state.is_done(rows["number"], rows["due_ms"])])
                looked += len(rows)
        rows = joined(parts)
        rows = rows[np.isin(rows["place"], waiting.places.of_topic(topic))]
        counting.is_complete &= is_complete and len(rows) <= OWN_MAX
        rows = rows[:OWN_MAX]
        for start in range(0, len(rows), _PORTION):
            portion = rows[start : start + _PORTION]
            counting.portions.append(partial(self._look_at_own, counting, portion))

    def _look_at_own(self, counting: Counting, rows: Rows, wait: bool) -> None:
        # One may be delivered meanwhile; its record stays in the log.
        fronts = self._delays.waiting.fronts(rows, wait=wait)
        headers = np.frombuffer(b"".join(header for header, _ in fronts), dtype=RECORD_HEADER)
        counting.delayed.update(headers["reconsume_times"].tolist())


def _failures(entry: LeaseEntry) -> int:
    """Return how often the messages of a lease have failed by now."""
    return entry.failures - 1 if entry.is_out else entry.failures


def _goes_to(topic: str, tails: memoryview, sizes: list[int]) -> NDArray[np.bool_]:
    """Say of each record whether its real topic is this one; tails are what is behind its body.

    A loop over records: properties have no array form.
    """
    found, at = [], 0
    for size in sizes:
        section = bytes(tails[at + 1 + tails[at] + 2 : at + size])
        found.append(decode_properties(section).get(REAL_TOPIC) == topic)
        at += size
    return np.array(found, dtype=bool)
