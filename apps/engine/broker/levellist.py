"""What waits in a delay level, a page at a time. Knows the level's queue and its records."""

import numpy as np

from apps.engine.broker.readback import records_of
from apps.engine.broker.schedule import Schedule, Waiting
from apps.engine.broker.search import Search
from apps.engine.broker.timerstate import TimerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.codec.batch import count_within
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.properties import KEYS, REAL_QID, REAL_TOPIC, TAGS, TIMER_OUT_MS
from apps.engine.codec.record import Record, decode_record
from apps.engine.delaytypes import DelayedCopies, DelayedMessage, DelayedPage
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument
from apps.engine.limits import CARE_MESSAGES_MAX, DELAY_LEVELS_MAX, MIB, SEARCH_MESSAGES_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import TopicSpec

# How much one page looks at before it answers with where to go on.
_LOOKED_ENTRIES = 16_384
_READ_BYTES = 4 * MIB
_CURSOR_DIGITS_MAX = 18
# Copies of one message are its size each, and few.
_FOUND_BYTES = 8 * MIB


class _Levels:
    """The topic of levels, which nobody but the engine may look into."""

    def topic(self, name: str) -> TopicSpec:
        """Return it."""
        return TopicSpec(name=name, queue_count=DELAY_LEVELS_MAX)

    def readable(self, name: str, queue: int = 0) -> TopicSpec:
        """Return it."""
        del queue
        return self.topic(name)


class LevelList:
    """Lists levels by queue offset, which is by due time unless the clock was set back."""

    def __init__(
        self,
        schedule: Schedule,
        log: CommitLog,
        queues: QueueSet,
        *,
        index: KeyIndex,
        times: StoreTimes,
        timers: TimerState,
    ) -> None:
        """Bind to a store."""
        self._schedule = schedule
        self._log = log
        self._queues = queues
        self._index = index
        self._times = times
        self._timers = timers

    def search(self, message_id: str) -> Search:
        """Begin a search for what a level ever had with an id; the index leads to it.

        However much waits, it costs what one look-up does. Raises InvalidArgument.
        """
        return Search(
            SearchRequest(
                topic=SCHEDULE_TOPIC,
                message_id=message_id,
                messages_max=SEARCH_MESSAGES_MAX,
                bytes_max=_FOUND_BYTES,
            ),
            log=self._log,
            queues=self._queues,
            index=self._index,
            catalog=_Levels(),
            times=self._times,
        )

    def still_waiting(self, found: SearchResult) -> DelayedCopies:
        """Return what of a search's result is not delivered yet."""
        waiting = []
        for block in found.blocks:
            record = decode_record(block.payload)
            queue = self._queues.queue(SCHEDULE_TOPIC, record.queue)
            if record.queue_offset >= self._schedule.start(queue):
                held = self._timers.held_ms(np.array([record.log_offset], dtype=np.int64))
                due_ms = int(record.properties[TIMER_OUT_MS]) + int(held[0])
                waiting.append(_message(record, record.queue + 1, due_ms))
        is_cut = found.truncated or found.scan_incomplete
        return DelayedCopies(messages=tuple(waiting), is_complete=not is_cut)

    def page(
        self,
        level: int,
        *,
        topic: str | None,
        from_ms: int | None,
        to_ms: int | None,
        cursor: str | None,
        messages_max: int,
        wait: bool,
    ) -> DelayedPage:
        """Return messages of one level that are due from `from_ms` on and before `to_ms`.

        A page may be short, or empty, and still have a cursor. Raises InvalidArgument; ColdRead
        when `wait` is false and the disk would have to be waited for.
        """
        if not 1 <= level <= DELAY_LEVELS_MAX:
            raise InvalidArgument(f"a level is 1 to {DELAY_LEVELS_MAX}, not {level}")
        if not 1 <= messages_max <= CARE_MESSAGES_MAX:
            raise InvalidArgument(f"a page has 1 to {CARE_MESSAGES_MAX} messages")
        first = _offset(cursor)
        queue = self._queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return DelayedPage(messages=())
        start = max(first, self._schedule.start(queue))
        if start >= queue.visible:
            return DelayedPage(messages=())
        looked = self._schedule.waiting(queue, start, _LOOKED_ENTRIES, wait=wait)
        after = start + len(looked.offsets)
        is_meant = np.ones(len(looked.offsets), dtype=bool)
        if from_ms is not None:
            is_meant &= looked.due_ms >= from_ms
        if to_ms is not None:
            is_meant &= looked.due_ms < to_ms
        is_meant &= ~np.isin(looked.offsets, queue.lost, assume_unique=True)
        rows = np.flatnonzero(is_meant)[: messages_max if topic is None else CARE_MESSAGES_MAX]
        rows = rows[: count_within(looked.sizes[rows], _READ_BYTES)]
        if len(rows) < np.count_nonzero(is_meant):
            after = int(looked.offsets[rows[-1]]) + 1
        part = Waiting(
            offsets=looked.offsets[rows],
            log_offsets=looked.log_offsets[rows],
            sizes=looked.sizes[rows],
            due_ms=looked.due_ms[rows],
        )
        found: list[DelayedMessage] = []
        records = (
            records_of(self._log, queue, part.first(len(rows)), wait=wait) if len(rows) else []
        )
        for record, due_ms in zip(records, part.due_ms.tolist(), strict=True):
            if topic is None or record.properties[REAL_TOPIC] == topic:
                found.append(_message(record, level, due_ms))
            if len(found) == messages_max:
                after = record.queue_offset + 1
                break
        return DelayedPage(
            messages=tuple(found), cursor=str(after) if after < queue.visible else None
        )


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS_MAX):
        raise InvalidArgument("the cursor is none of a level's")
    return int(cursor)


def _message(record: Record, level: int, due_ms: int) -> DelayedMessage:
    properties = record.properties
    return DelayedMessage(
        number=record.queue_offset,
        topic=properties[REAL_TOPIC],
        queue=int(properties[REAL_QID]),
        message_id=record.message_id,
        due_ms=due_ms,
        size_bytes=record.size_bytes,
        level=level,
        tag=properties.get(TAGS, ""),
        keys=properties.get(KEYS, ""),
        born_time_ms=record.born_time_ms,
    )
