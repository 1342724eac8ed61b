"""Dead letters sent again: to where they come from or elsewhere, each at most once ever.

Knows records, the catalog and what was sent again; not when the disk is waited for. A frame has the
messages and the event that they were sent, so a crash sends none twice and loses none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import Resent
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.failedrecords import resent_properties
from apps.engine.broker.journal import runs_of
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.owntopics import dead_letter_topic, retry_topic
from apps.engine.broker.readback import ReadBack, batch_of, read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.copies import copy_record
from apps.engine.codec.properties import DLQ_ORIGIN_TOPIC, ORIGIN_QUEUE, RETRY_TOPIC, TAGS
from apps.engine.codec.record import Record
from apps.engine.codec.tags import tag_hash
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument, Refused
from apps.engine.failuretypes import Resend, ResendResult
from apps.engine.limits import CARE_MESSAGES_MAX
from apps.engine.log.commitlog import CommitLog

_Place = tuple[str, int]


@dataclass(slots=True, kw_only=True, eq=False)
class Resending:
    """A request to send again, half done: the results so far, and the offsets left to read."""

    group: str
    topic: str | None
    by: str
    asked: list[int]
    results: dict[int, ResendResult]
    left: NDArray[np.int64]

    def answer(self) -> list[ResendResult]:
        """Return one result for each offset asked for; one asked for again was sent already."""
        first: set[int] = set()
        found = []
        for offset in self.asked:
            is_again = offset in first and self.results[offset].outcome is Resend.SENT
            found.append(_already(offset) if is_again else self.results[offset])
            first.add(offset)
        return found


class DeadLetters:
    """Sends dead letters again, a part of a request at a time."""

    def __init__(
        self,
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
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._bytes_max = bytes_max
        self.message_count = 0

    def begin(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None, by: str
    ) -> Resending:
        """Check a request and return what is to be read for it.

        Raises InvalidName or InvalidArgument.
        """
        check_group_name(group)
        check_client_id(by)
        if not 1 <= len(queue_offsets) <= CARE_MESSAGES_MAX:
            raise InvalidArgument(
                f"1 to {CARE_MESSAGES_MAX} dead letters, not {len(queue_offsets)}"
            )
        queue = self._queues.find(dead_letter_topic(group), 0)
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.visible)
        there = [offset for offset in queue_offsets if low <= offset < high]
        sent = set(self._sent(group, np.array(there, dtype=np.int64)).tolist())
        results, left = {}, []
        for offset in sorted(set(queue_offsets)):
            if not low <= offset < high:
                results[offset] = ResendResult(queue_offset=offset, outcome=Resend.GONE)
            elif offset in sent:
                results[offset] = _already(offset)
            else:
                left.append(offset)
        return Resending(
            group=group,
            topic=topic,
            by=by,
            asked=list(queue_offsets),
            results=results,
            left=np.array(left, dtype=np.int64),
        )

    def read(self, request: Resending, *, wait: bool) -> ReadBack:
        """Read the next dead letters. Raises ColdRead or StoreDamaged."""
        queue = self._queues.queue(dead_letter_topic(request.group), 0)
        return read_back(self._log, queue, request.left, bytes_max=self._bytes_max, wait=wait)

    def store(self, request: Resending, read: ReadBack) -> None:
        """Send what was read, and fill in its results. Raises StoreFull, with nothing changed."""
        request.left = request.left[read.looked :]
        for offset in read.lost.tolist():
            request.results[offset] = ResendResult(
                queue_offset=offset, outcome=Resend.FAILED, detail="damaged on the disk"
            )
        sent_before = set(self._sent(request.group, read.offsets).tolist())
        now_ms = self._clock.wall_ms()
        sent: dict[_Place, list[tuple[int, bytes, int]]] = {}
        for offset, record in zip(read.offsets.tolist(), read.records, strict=True):
            if offset in sent_before:
                request.results[offset] = _already(offset)
                continue
            try:
                place, copy = self._copy(request, record, now_ms)
            except Refused as error:
                request.results[offset] = ResendResult(
                    queue_offset=offset, outcome=Resend.FAILED, detail=str(error)
                )
                continue
            tag = tag_hash(record.properties.get(TAGS, ""))
            sent.setdefault(place, []).append((offset, copy, tag))
        if not sent:
            return
        offsets = np.array(sorted(item[0] for items in sent.values() for item in items))
        event = Resent(group=request.group, by=request.by, runs=runs_of(offsets))
        batches = [
            batch_of(*place, [copy for _, copy, _ in items], [tag for _, _, tag in items])
            for place, items in sent.items()
        ]
        _, stored = self._recorder.commit([event], batches, is_internal=False)
        self.message_count += len(offsets)
        for appended, items in zip(stored, sent.values(), strict=True):
            for index, (offset, _, _) in enumerate(items):
                request.results[offset] = ResendResult(
                    queue_offset=offset,
                    outcome=Resend.SENT,
                    topic=appended.topic,
                    queue=appended.queue,
                    sent_offset=appended.queue_offset + index,
                )

    def _sent(self, group: str, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of the offsets were sent again."""
        return np.intersect1d(self._state.failures.resent(group), offsets)

    def _copy(self, request: Resending, record: Record, now_ms: int) -> tuple[_Place, bytes]:
        """Return where a dead letter goes, and its record there. Raises what a send raises."""
        properties = record.properties
        origin = properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC, "")
        topic = origin if request.topic is None else request.topic
        is_for_group = topic == retry_topic(request.group)
        queue = 0
        if not is_for_group:
            # A topic that takes no messages into its first queue takes none at all.
            count = self._catalog.writable(topic, 0).writable_count
            queue = int(properties.get(ORIGIN_QUEUE, "0")) % count
        copy = copy_record(
            record,
            topic=topic,
            queue=queue,
            properties=resent_properties(
                record, is_for_group=is_for_group, by=request.by, at_ms=now_ms
            ),
            reconsume_times=0,
        )
        return (topic, queue), copy


def _already(offset: int) -> ResendResult:
    return ResendResult(queue_offset=offset, outcome=Resend.ALREADY)
