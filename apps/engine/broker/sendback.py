"""Messages that a reader of queues failed at: taken over for another try, or as dead letters.

Knows a group's policy, records and where copies wait; not when the disk is waited for. Each frame
has copies and the event that keeps the group from their old places, so a message is in one of both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import SentBack
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.failedrecords import (
    dead_letter_properties,
    failures_before,
    retried_properties,
)
from apps.engine.broker.fencing import Fencing
from apps.engine.broker.journal import runs_of
from apps.engine.broker.levels import DelayLevels
from apps.engine.broker.names import check_group_name
from apps.engine.broker.owntopics import dead_letter_topic, retry_topic
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.readback import ReadBack, batch_of, read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.retrypolicy import (
    DEAD_LETTER_LEVEL,
    check_delay,
    clamped_level,
    delay_ms,
    is_by_level,
    is_over,
    level_of,
)
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.copies import copy_record
from apps.engine.codec.properties import TAGS
from apps.engine.codec.record import Record
from apps.engine.codec.tags import tag_hash
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument
from apps.engine.failuretypes import Attempt, FailedMessage, Returned, ReturnResult
from apps.engine.limits import CARE_MESSAGES_MAX, HISTORY_REASON_CHARACTERS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import GroupSpec, OffsetCommit

Parcel = Callable[[str, int, Sequence[bytes], NDArray[np.int64]], CheckedBatch]
Place = tuple[str, int]
_ALREADY = ReturnResult(outcome=Returned.ALREADY)
_GONE = ReturnResult(outcome=Returned.GONE)


@dataclass(slots=True, kw_only=True, eq=False)
class Returning:
    """A request to send back, half done: `results` so far, and the offsets left in each queue.

    `indexes` says which of the request's messages, the first to name it, lies at a place.
    """

    group: str
    client_id: str
    delay_level: int | None
    delay_ms: int | None
    reason: str
    results: list[ReturnResult]
    indexes: dict[tuple[str, int, int], int]
    left: dict[Place, NDArray[np.int64]]


@dataclass(slots=True)
class _Copies:
    """Records on their way into one batch."""

    records: list[bytes] = field(default_factory=list)
    tags: list[int] = field(default_factory=list)
    due_ms: list[int] = field(default_factory=list)

    def add(self, record: bytes, *, tag: int, due_ms: int = 0) -> None:
        """Add one."""
        self.records.append(record)
        self.tags.append(tag)
        self.due_ms.append(due_ms)


class SendBack:
    """Takes failed messages over, a part of a request at a time."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        fencing: Fencing,
        levels: DelayLevels,
        parcel: Parcel,
        clock: Clock,
        bytes_max: int,
        delay_ms_max: int,
    ) -> None:
        """Bind to a store. `parcel` makes the batch of records with due times of their own."""
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._fencing = fencing
        self._levels = levels
        self._parcel = parcel
        self._clock = clock
        self._bytes_max = bytes_max
        self._delay_ms_max = delay_ms_max
        self.message_count = 0
        self.dead_letter_count = 0

    def begin(
        self,
        group: str,
        messages: Sequence[FailedMessage],
        *,
        client_id: str,
        delay_level: int | None,
        delay_ms: int | None,
        reason: str,
        generation: int | None,
    ) -> Returning:
        """Check a request and return what is to be read for it.

        Raises InvalidName, InvalidArgument, UnknownTopic, UnknownQueue, NotPermitted, LockLost or
        StaleGeneration.
        """
        check_group_name(group)
        if not 1 <= len(messages) <= CARE_MESSAGES_MAX:
            raise InvalidArgument(f"1 to {CARE_MESSAGES_MAX} messages, not {len(messages)}")
        check_delay(delay_level, delay_ms, delay_ms_max=self._delay_ms_max)
        for message in messages:
            self._catalog.readable(message.topic, message.queue)
        commits = [
            OffsetCommit(
                topic=message.topic,
                queue=message.queue,
                queue_offset=message.queue_offset,
                epoch=message.epoch,
            )
            for message in messages
        ]
        self._fencing.check_commit(group, commits, client_id=client_id, generation=generation)
        indexes: dict[tuple[str, int, int], int] = {}
        for index, message in enumerate(messages):
            indexes.setdefault((message.topic, message.queue, message.queue_offset), index)
        results = [_ALREADY] * len(messages)
        left: dict[Place, list[int]] = {}
        for (topic, number, offset), index in indexes.items():
            queue = self._queues.queue(topic, number)
            if not queue.min_offset <= offset < queue.visible:
                results[index] = _GONE
            else:
                left.setdefault((topic, number), []).append(offset)
        return Returning(
            group=group,
            client_id=client_id,
            delay_level=delay_level,
            delay_ms=delay_ms,
            reason=reason[:HISTORY_REASON_CHARACTERS_MAX],
            results=results,
            indexes=indexes,
            left={
                place: self._open(group, place, np.array(sorted(found)))
                for place, found in left.items()
            },
        )

    def read(self, request: Returning, place: Place, wait: bool) -> ReadBack:
        """Read the next messages of one queue. Raises ColdRead or StoreDamaged."""
        return read_back(
            self._log,
            self._queues.queue(*place),
            request.left[place],
            bytes_max=self._bytes_max,
            wait=wait,
        )

    def store(self, request: Returning, place: Place, read: ReadBack) -> None:
        """Store what was read anew, and fill in its results. Raises StoreFull: nothing changed.

        What somebody else sent back or settled meanwhile is answered ALREADY.
        """
        request.left[place] = request.left[place][read.looked :]
        for offset in read.lost.tolist():
            # Nobody can try it again, and its reader may commit beyond it.
            gone = ReturnResult(outcome=Returned.GONE)
            request.results[request.indexes[*place, offset]] = gone
        spec = self._catalog.group(request.group)
        now_ms = self._clock.wall_ms()
        batches: dict[int | None, _Copies] = {}
        timed = _Copies()
        found: list[tuple[int, ReturnResult]] = []
        still_open = set(self._open(request.group, place, read.offsets).tolist())
        for offset, record in zip(read.offsets.tolist(), read.records, strict=True):
            if offset in still_open:
                result = self._copy(request, spec, record, now_ms, batches, timed)
                found.append((offset, result))
        if not found:
            return
        offsets = np.array([offset for offset, _ in found], dtype=np.int64)
        event = SentBack(group=request.group, topic=place[0], queue=place[1], runs=runs_of(offsets))
        frame = [self._batch(request.group, level, copies) for level, copies in batches.items()]
        if timed.records:
            due_ms = np.array(timed.due_ms, dtype=np.int64)
            frame.append(self._parcel(retry_topic(request.group), 0, timed.records, due_ms))
        self._recorder.commit([event], frame, is_internal=False)
        self.message_count += len(found)
        for offset, result in found:
            self.dead_letter_count += result.outcome is Returned.DEAD_LETTER
            request.results[request.indexes[*place, offset]] = result

    def _open(self, group: str, place: Place, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the offsets that the group has neither sent back nor settled."""
        is_done = np.isin(offsets, self._state.failures.sent_back(group, *place))
        progress = self._state.progress.get((group, *place))
        if progress is not None:
            is_done |= offsets < progress.floor
            inside = np.flatnonzero((offsets >= progress.floor) & (offsets < progress.cursor))
            is_done[inside] |= progress.settled[offsets[inside] - progress.floor]
        return offsets[~is_done]

    def _copy(
        self,
        request: Returning,
        spec: GroupSpec,
        record: Record,
        now_ms: int,
        batches: dict[int | None, _Copies],
        timed: _Copies,
    ) -> ReturnResult:
        """Add the copy of one message to the batch it belongs to; level 0 there is no delay."""
        before = failures_before(record, request.group)
        attempt = Attempt(
            number=before + 1,
            at_ms=now_ms,
            reason=request.reason,
            client_id=request.client_id,
        )
        tag = tag_hash(record.properties.get(TAGS, ""))
        if request.delay_level == DEAD_LETTER_LEVEL or is_over(spec, before + 1):
            copy = copy_record(
                record,
                topic=dead_letter_topic(request.group),
                queue=0,
                properties=dead_letter_properties(record, request.group, [attempt]),
                reconsume_times=before + 1,
            )
            batches.setdefault(None, _Copies()).add(copy, tag=tag)
            return ReturnResult(outcome=Returned.DEAD_LETTER)
        topic = retry_topic(request.group)
        properties = retried_properties(record, request.group, [attempt])
        level = self._level(request, spec, before)
        if level is not None:
            due_ms = self._levels.due_ms(level, now_ms)
            waiting = self._levels.record(
                record,
                level,
                due_ms,
                topic=topic,
                queue=0,
                properties=properties,
                reconsume_times=before + 1,
            )
            batches.setdefault(level, _Copies()).add(waiting, tag=tag, due_ms=due_ms)
            return ReturnResult(outcome=Returned.RETRY, due_ms=due_ms)
        wait_ms = request.delay_ms
        if wait_ms is None:
            wait_ms = delay_ms(spec, before, self._levels.levels_ms)
        copy = copy_record(
            record, topic=topic, queue=0, properties=properties, reconsume_times=before + 1
        )
        if wait_ms:
            timed.add(copy, tag=tag, due_ms=now_ms + wait_ms)
        else:
            batches.setdefault(0, _Copies()).add(copy, tag=tag)
        return ReturnResult(outcome=Returned.RETRY, due_ms=now_ms + wait_ms)

    def _level(self, request: Returning, spec: GroupSpec, before: int) -> int | None:
        """Return the level a retry waits in; None where it has a delay of its own."""
        if request.delay_level:
            return clamped_level(request.delay_level, self._levels.levels_ms)
        if request.delay_ms is None and is_by_level(spec):
            return level_of(before, self._levels.levels_ms)
        return None

    def _batch(self, group: str, level: int | None, copies: _Copies) -> CheckedBatch:
        if level:
            return self._levels.batch(level, copies.records, copies.due_ms)
        topic = dead_letter_topic(group) if level is None else retry_topic(group)
        return batch_of(topic, 0, copies.records, copies.tags)
