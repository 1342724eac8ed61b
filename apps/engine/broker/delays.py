"""Messages with a delay of their own, on the way in: packed into parcels, and rows for memory.

Knows properties, parcels and the store of waiting messages; not how what is due gets out again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import ClockJumped
from apps.engine.broker.clockguard import ClockGuard
from apps.engine.broker.damage import Damage
from apps.engine.broker.intake import Routed
from apps.engine.broker.journal import Event
from apps.engine.broker.produce import CheckedBatch, internal_batch
from apps.engine.broker.recallhandles import IssuedHandles, RecallHandles
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.schedule import GROUP as LEVELS_GROUP
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.delayed import due_times_of
from apps.engine.codec.layout import SCHEDULE_TOPIC, TIMER_TOPIC
from apps.engine.codec.scan import Properties, property_sections, tag_hashes
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.timer.parcel import decode_head, encode_parcel, rows_of
from apps.engine.derived.timer.rows import PARCEL_MESSAGES_MAX
from apps.engine.derived.timer.store import TimerStore
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.errors import DelayTooLong, QueueDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import Appended


class Delays:
    """What waits for a moment of its own, in one store.

    `on_sooner` is called when something came in that is due before all that waited.
    """

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queues: QueueSet,
        state: ConsumerState,
        recorder: Recorder,
        *,
        damage: Damage,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
        tuning: TimerTuning | None = None,
    ) -> None:
        """Bind to a store and bring what waits into memory. Raises StoreDamaged."""
        self.on_sooner: Callable[[], None] = _nothing
        self.handles = RecallHandles(log.store_id, broker_name=config.broker_name)
        self.state = state.timers
        self._progress = state.progress
        self._queues = queues
        self._log = log
        self._clock = clock
        self._delay_ms_max = config.delay_ms_max
        self.waiting = TimerStore(
            disk,
            log,
            queues.queue(TIMER_TOPIC, 0),
            state.timers,
            failpoints=failpoints,
            tuning=tuning or TimerTuning(),
        )
        damage.guarded(self.waiting.open)
        self.guard = ClockGuard(
            clock,
            recorder.record,
            next_number=lambda: self.waiting.next_number,
            log_end=lambda: log.written_offset,
        )
        recorder.on_event(self._recorded)

    def now_ms(self) -> int:
        """Return the wall time, only to be looked at."""
        return self._clock.wall_ms()

    def begin_checkpoint(self) -> Callable[[], None]:
        """Return what makes this moment count at a start, for a thread once the log is synced."""
        self.waiting.settle()
        if self.state.jumps:
            levels_from = self._levels_from()
            self.state.forget_jumps(self.waiting.first_number(), levels_from)
        return self.waiting.begin_checkpoint() or _nothing

    def _levels_from(self) -> int:
        """Return a log offset below which nothing waits in a delay level; 0 for not known."""
        found = [self._log.written_offset]
        for queue in self._queues:
            progress = self._progress.get((LEVELS_GROUP, SCHEDULE_TOPIC, queue.queue))
            start = queue.min_offset if progress is None else progress.floor
            if queue.topic == SCHEDULE_TOPIC and start < queue.end:
                try:
                    found.append(int(queue.read(start, 1, wait=False)["log_offset"][0]))
                except (ColdRead, QueueDamaged):
                    return 0
        return min(found)

    def _recorded(self, event: Event) -> None:
        if isinstance(event, ClockJumped):
            self.waiting.jumped()

    def route(self, batch: CheckedBatch, sections: Properties) -> Routed:
        """Return the way of a batch whose records have properties of a delay of their own.

        `sections` are the batch's property sections.
        Relative delays count from the wall clock now; what is past is due at once. The answer has
        the due times and recall handles. Raises MalformedBatch where a record has no such property
        or one that is no number, DelayTooLong; StoreFull or WriteFailed where the clock jumped.
        """
        now_ms = self.guard.look()
        asked_ms = due_times_of(sections, now_ms=now_ms)
        latest_ms = int(asked_ms.max())
        if latest_ms - now_ms > self._delay_ms_max:
            raise DelayTooLong(
                f"a delay is at most {self._delay_ms_max} ms, not {latest_ms - now_ms}"
            )
        due_ms = np.maximum(asked_ms, now_ms)
        parcel = self._parcel(batch, due_ms)

        def answer(stored: Sequence[Appended]) -> Appended:
            (one,) = stored
            handles = IssuedHandles(
                self.handles,
                topic=batch.topic,
                due_ms=due_ms.tolist(),
                sections=sections,
                first=one.queue_offset * PARCEL_MESSAGES_MAX,
                epoch=self._log.epoch,
            )
            return replace(
                one,
                topic=batch.topic,
                queue=batch.queue,
                queue_offset=-1,
                count=len(due_ms),
                due_ms=tuple(due_ms.tolist()),
                handles=handles,
            )

        return Routed([parcel], answer)

    def parcel(
        self, topic: str, queue: int, records: Sequence[bytes], due_ms: NDArray[np.int64]
    ) -> CheckedBatch:
        """Return the batch that lets records, of this topic and queue, wait for their due times.

        `due_ms` is int64[n] of wall milliseconds, one for each of up to 65,536 records, any far
        ahead. What is written is one record; its messages wait from then on.
        """
        sizes = np.array([len(record) for record in records], dtype=np.int32)
        payload = bytearray().join(records)
        hashes = tag_hashes(property_sections(payload, starts_of(sizes), sizes))
        batch = internal_batch(topic, bytes(payload), queue=queue)
        batch.sizes, batch.tag_hashes = sizes, hashes
        return self._parcel(batch, due_ms)

    def _parcel(self, batch: CheckedBatch, due_ms: NDArray[np.int64]) -> CheckedBatch:
        record = encode_parcel(
            topic=batch.topic,
            queue=batch.queue,
            epoch=self._log.epoch,
            due_ms=due_ms,
            tag_hashes=batch.tag_hashes,
            sizes=batch.sizes,
            payload=batch.payload,
            born_time_ms=self._clock.wall_ms(),
        )
        head = decode_head(memoryview(record))
        columns = bytes(
            memoryview(record)[head.columns_start : head.columns_start + head.columns_bytes]
        )

        def stored(appended: Appended) -> None:
            rows = rows_of(
                head,
                columns,
                number=appended.queue_offset,
                log_offset=appended.log_offset,
                place=self.waiting.places.number(head.topic, head.queue),
            )
            next_ms = self.waiting.next_ms
            self.waiting.insert(rows, epoch=head.epoch)
            if next_ms is None or int(rows["due_ms"].min()) < next_ms:
                self.on_sooner()

        whole = internal_batch(TIMER_TOPIC, record)
        whole.on_stored = stored
        return whole


def _nothing() -> None:
    pass
