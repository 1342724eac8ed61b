"""Delay levels on the way out: what is due goes to its real queue, each message once.

Knows the queues of the schedule topic, due times and the catalog; not when it is asked. The due
time of a message is its entry's tag field, so nothing that is not due is read. How far a level is
delivered is the progress of a group of the engine's own, set in the frame of the messages.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.journal import Commit
from apps.engine.broker.levels import DelayLevels
from apps.engine.broker.owntopics import own_spec
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.readback import batch_of, records_of
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.selection import Selection, without
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.batch import count_within
from apps.engine.codec.copies import copy_record
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.properties import DELAY, REAL_QID, REAL_TOPIC, TAGS, TIMER_DELAY_LEVEL
from apps.engine.codec.record import Record
from apps.engine.codec.tags import tag_hash
from apps.engine.delaytypes import DelayLevelState
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.limits import DELAY_LEVELS_MAX
from apps.engine.log.commitlog import CommitLog

# RocketMQ's name; its own group of the same topic.
GROUP = "CID_RMQ_SYS_SCHEDULE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The first `count` messages of a level's queue, which were due when they were read.

    `records` are those of them that can be read.
    """

    queue: ConsumeQueue
    head: "Waiting"
    count: int
    records: list[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A stretch of a level's queue: queue offsets, entries, and when each may go, int64[n]."""

    offsets: NDArray[np.int64]
    log_offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    due_ms: NDArray[np.int64]

    def first(self, count: int) -> Selection:
        """Return the first of them, to be read."""
        return Selection(
            offsets=self.offsets[:count],
            log_offsets=self.log_offsets[:count],
            sizes=self.sizes[:count],
            next_offset=int(self.offsets[0]) + count,
        )


class Schedule:
    """Delivers levels, each from its head, and says where they are."""

    def __init__(
        self,
        levels: DelayLevels,
        *,
        log: CommitLog,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        clock: Clock,
        bytes_max: int,
    ) -> None:
        """Bind to a store; one frame has messages of up to about `bytes_max`."""
        self._levels = levels
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._bytes_max = bytes_max
        self._late_ms: dict[int, int] = {}
        self.without_topic: Counter[str] = Counter()

    def queues(self) -> list[ConsumeQueue]:
        """Return the levels' queues that ever held a message, of levels that are gone too."""
        return [
            queue
            for number in range(DELAY_LEVELS_MAX)
            if (queue := self._queues.find(SCHEDULE_TOPIC, number)) is not None and queue.visible
        ]

    def due(self, queue: ConsumeQueue, *, messages_max: int, wait: bool) -> Due | None:
        """Read what is due at the head of a level, up to so many messages; None for nothing.

        Raises ColdRead when `wait` is false and the disk would have to be waited for.
        """
        start = self._start(queue)
        if not self._ready(self.waiting(queue, start, 1, wait=wait)):
            return None
        found = self.waiting(queue, start, messages_max, wait=wait)
        count = min(self._ready(found), count_within(found.sizes, self._bytes_max))
        readable = without(found.first(count), queue.lost)
        return Due(
            queue=queue,
            head=found,
            count=count,
            records=records_of(self._log, queue, readable, wait=wait),
        )

    def deliver(self, due: Due) -> int:
        """Put messages into their real queues, in one frame with the level's progress.

        Returns how many went there: none where others delivered them since they were read, or the
        clock was set back. Messages whose topic is gone are passed over, and counted in
        `without_topic`. Raises StoreFull, with nothing changed.
        """
        first, count = int(due.head.offsets[0]), due.count
        # The clock may have jumped since they were read, and hold them back now.
        now = self.waiting(due.queue, first, count, wait=True)
        if self._start(due.queue) != first or self._ready(now) < count:
            return 0
        batches, lost = self._delivered(due.records)
        commit = Commit(
            group=GROUP,
            topic=SCHEDULE_TOPIC,
            queue=due.queue.queue,
            queue_offset=first + count,
        )
        self._recorder.commit([commit], batches, is_internal=False)
        self.without_topic += lost
        self._late_ms[due.queue.queue] = self._clock.wall_ms() - int(now.due_ms[-1])
        return len(due.records) - lost.total()

    def states(self) -> tuple[DelayLevelState, ...]:
        """Return where each level is; a level that is gone from the table has no delay."""
        return tuple(self._states())

    def is_due(self) -> bool:
        """Say whether a message of any level could be delivered now."""
        now_ms = self._clock.wall_ms()
        return any(
            state.head_due_ms is not None and state.head_due_ms <= now_ms
            for state in self._states()
        )

    def waiting(self, queue: ConsumeQueue, start: int, count: int, *, wait: bool) -> Waiting:
        """Return up to `count` messages of a level from a queue offset on. Raises ColdRead."""
        count = max(0, min(count, queue.visible - start))
        entries = queue.read(start, count, wait=wait)
        log_offsets = entries["log_offset"].astype(np.int64)
        return Waiting(
            offsets=np.arange(start, start + len(entries)),
            log_offsets=log_offsets,
            sizes=entries["size_bytes"].astype(np.int32),
            due_ms=entries["tag_hash"].astype(np.int64) + self._state.timers.held_ms(log_offsets),
        )

    def start(self, queue: ConsumeQueue) -> int:
        """Return the first queue offset of a level that is not delivered."""
        return self._start(queue)

    def _states(self) -> Iterator[DelayLevelState]:
        in_use = {queue.queue for queue in self.queues()}
        for number in sorted(in_use | set(range(len(self._levels.levels_ms)))):
            delays = self._levels.levels_ms
            queue = self._queues.find(SCHEDULE_TOPIC, number)
            start, end = (0, 0) if queue is None else (self._start(queue), queue.visible)
            head_due_ms = None
            if queue is not None and start < end:
                # One entry a level, so waiting for the disk is a page each at the most.
                head_due_ms = int(self.waiting(queue, start, 1, wait=True).due_ms[0])
            yield DelayLevelState(
                level=number + 1,
                delay_ms=delays[number] if number < len(delays) else 0,
                delivered=start,
                max_offset=end,
                head_due_ms=head_due_ms,
                late_ms=self._late_ms.get(number),
            )

    def _start(self, queue: ConsumeQueue) -> int:
        progress = self._state.progress.get((GROUP, SCHEDULE_TOPIC, queue.queue))
        return queue.min_offset if progress is None else max(queue.min_offset, progress.floor)

    def _ready(self, found: Waiting) -> int:
        """Return how many at the head are due; one that is not stops those behind it."""
        is_early = found.due_ms > self._clock.wall_ms()
        return int(np.argmax(is_early)) if is_early.any() else len(is_early)

    def _delivered(self, records: list[Record]) -> tuple[list[CheckedBatch], Counter[str]]:
        """Return the batches of messages as their receivers get them, and what has no topic."""
        copies: dict[tuple[str, int], list[bytes]] = {}
        hashes: dict[tuple[str, int], list[int]] = {}
        lost: Counter[str] = Counter()
        for record in records:
            properties = dict(record.properties)
            topic = properties.pop(REAL_TOPIC)
            number = int(properties.pop(REAL_QID))
            # When it was due, and by which level, is what its lateness is measured by.
            properties[TIMER_DELAY_LEVEL] = properties.pop(DELAY)
            spec = self._catalog.snapshot.topics.get(topic) or own_spec(topic)
            if spec is None:
                lost[topic] += 1
                continue
            place = (topic, number % spec.queue_count)
            copy = copy_record(record, topic=topic, queue=place[1], properties=properties)
            copies.setdefault(place, []).append(copy)
            hashes.setdefault(place, []).append(tag_hash(properties.get(TAGS, "")))
        return [batch_of(*place, copies[place], hashes[place]) for place in copies], lost
