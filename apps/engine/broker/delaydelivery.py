"""Messages with a delay of their own, on the way out: each into its queue once, or not at all.

Knows waiting rows, the catalog and the recorder; not when it is asked. Messages and the note that
they wait no more are one frame, so whatever ends in between, nothing is delivered twice or lost.
"""

import logging
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import TimerDone
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.delays import Delays
from apps.engine.broker.eventbytes import runs_of
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.recalled import recalled_batch
from apps.engine.broker.recallhandles import RecallHandle
from apps.engine.broker.recorder import Recorder
from apps.engine.clock import Clock
from apps.engine.codec.batch import count_within, starts_of
from apps.engine.codec.windows import window
from apps.engine.delaytypes import Recall
from apps.engine.derived.timer.rows import Rows
from apps.engine.errors import UnknownTopic
from apps.engine.limits import MIB
from apps.engine.types import RecordBatch, TopicSpec

_log = logging.getLogger(__name__)

# A frame holds the loop for about 2 ms then, and the journal's part of it stays below 64 KiB.
_FRAME_MESSAGES_MAX = 4_096
_FRAME_BYTES_MAX = 4 * MIB
_QUEUE_AT = 12


class DelayDelivery:
    """Delivers, recalls and counts."""

    def __init__(
        self, delays: Delays, catalog: Catalog, recorder: Recorder, *, clock: Clock, bytes_max: int
    ) -> None:
        """Bind to a store; one frame has messages of up to about `bytes_max`."""
        self._delays = delays
        self._waiting = delays.waiting
        self._state = delays.state
        self._catalog = catalog
        self._recorder = recorder
        self._clock = clock
        self._bytes_max = min(_FRAME_BYTES_MAX, bytes_max)
        self.delivered = 0
        self.cancelled = 0
        self.sent_now = 0
        self.late_ms: int | None = None
        self.without_topic: Counter[str] = Counter()

    def deliver(self, *, wait: bool) -> bool:
        """Deliver what is due, as much as fits a frame; say whether more is due at once.

        A message whose topic is gone is passed over, counted in `without_topic`; one whose queue is
        gone goes to that of the rest of its number. Raises ColdRead when `wait` is false and the
        disk would have to be waited for; StoreFull, StoreDamaged; and nothing has changed then.
        """
        now_ms = self._delays.guard.look()
        self._waiting.settle()
        self._waiting.load_ahead(now_ms, wait=wait)
        rows = self._fitting(self._waiting.waiting.due(now_ms, _FRAME_MESSAGES_MAX))
        if len(rows):
            alive = rows[self._waiting.waiting.is_alive(rows)]
            if len(alive):
                self._deliver(alive, is_early=False, wait=wait)
                self.late_ms = now_ms - int(alive["at_ms"][0])
            self._waiting.waiting.remove_until(rows[-1])
        next_ms = self._waiting.next_ms
        if next_ms is not None and next_ms <= now_ms:
            return True
        self._state.settle(self._waiting.next_number, now_ms)
        return False

    def recall(self, handle: str, *, wait: bool) -> Recall:
        """Cancel a message, if it is still waiting, and say what became of it.

        What became of it is told in the topic of traces, in the same frame.
        Raises ColdRead when `wait` is false and the disk would have to be waited for, and
        StoreFull; nothing has changed then.
        """
        named, end, row = self._find(handle, wait=wait)
        if named is None or row is None:
            return end
        number = np.array([named.number])
        done = TimerDone(outcome=Recall.CANCELLED, runs=runs_of(number), due_ms=named.due_ms)
        topic, queue = self._waiting.places.place(int(row["place"]))
        told = recalled_batch(
            topic=topic,
            queue=queue,
            message_id=named.message_id,
            due_ms=named.due_ms,
            at_ms=self._clock.wall_ms(),
        )
        self._recorder.commit([done], [told])
        self._waiting.end(row, wait=True)
        self.cancelled += 1
        return Recall.CANCELLED

    def deliver_now(self, handle: str, *, wait: bool) -> Recall:
        """Deliver a message before its time, if it is still waiting; say what became of it.

        Raises ColdRead as `recall` does; UnknownTopic where its topic is gone, and StoreFull.
        """
        named, end, row = self._find(handle, wait=wait)
        if named is None or row is None:
            return end
        topic, _ = self._waiting.places.place(int(row["place"]))
        self._catalog.topic(topic)
        self._deliver(np.array([row], dtype=row.dtype), is_early=True, wait=wait)
        self._waiting.end(row, wait=True)
        self.sent_now += 1
        return Recall.DELIVERED

    def _find(self, handle: str, *, wait: bool) -> tuple[RecallHandle | None, Recall, Rows | None]:
        """Return what a handle names, how it ended, and its row where it has not."""
        named = self._delays.handles.parse(handle)
        if named is None or self._waiting.epoch_of(named.number) != named.epoch:
            return None, Recall.UNKNOWN, None
        end = self._state.end_of(named.number, named.due_ms)
        if end is not None:
            return named, end, None
        row = self._waiting.find(named.number, named.due_ms, wait=wait)
        # Doors let callers in by the handle's topic, and its check is no signature.
        if row is not None and self._waiting.places.place(int(row["place"]))[0] != named.topic:
            return None, Recall.UNKNOWN, None
        return named, Recall.UNKNOWN, row

    def _fitting(self, rows: Rows) -> Rows:
        return rows[: count_within(rows["size_bytes"], self._bytes_max)]

    def _deliver(self, rows: Rows, *, is_early: bool, wait: bool) -> None:
        """Write messages and their end in one frame; rows are in the order of delivery."""
        payload = self._waiting.records(rows, wait=wait)
        batches, lost = self._batches(rows, payload)
        numbers = np.sort(rows["number"])
        done = TimerDone(
            outcome=Recall.DELIVERED,
            runs=runs_of(numbers),
            due_ms=int(rows["due_ms"].max()),
            is_early=is_early,
        )
        self._recorder.commit([done], batches, is_internal=False)
        for topic, count in lost.items():
            _log.warning("delayed_without_topic", extra={"topic": topic, "count": count})
        self.without_topic += lost
        if not is_early:
            self.delivered += len(rows) - lost.total()

    def _batches(self, rows: Rows, payload: bytes) -> tuple[list[CheckedBatch], Counter[str]]:
        """Return a batch for each queue, in order of delivery there, and what has no topic."""
        lost: Counter[str] = Counter()
        found: dict[tuple[str, int], list[int]] = {}
        for place in np.unique(rows["place"]).tolist():
            topic, queue = self._waiting.places.place(place)
            try:
                spec = self._catalog.topic(topic)
            except UnknownTopic:
                lost[topic] += int((rows["place"] == place).sum())
                continue
            found.setdefault((topic, _queue_of(spec, queue)), []).append(place)
        starts = starts_of(rows["size_bytes"])
        return [
            _batch(*target, rows, payload, starts, np.isin(rows["place"], places))
            for target, places in found.items()
        ], lost


def _queue_of(spec: TopicSpec, queue: int) -> int:
    """Return the queue that a message goes to, since its own may be gone or about to go."""
    return queue % (spec.writable_count or spec.queue_count)


def _batch(
    topic: str,
    queue: int,
    rows: Rows,
    payload: bytes,
    starts: NDArray[np.int64],
    is_chosen: NDArray[np.bool_],
) -> CheckedBatch:
    sizes = rows["size_bytes"][is_chosen].astype(np.int32)
    if is_chosen.all():
        chosen = bytearray(payload)
    else:
        view = memoryview(payload)
        first = starts[is_chosen]
        # Slices joined: an index array of every byte would cost ten times as much.
        spans = zip(first.tolist(), (first + sizes).tolist(), strict=True)
        chosen = bytearray().join([view[start:stop] for start, stop in spans])
    # Where the queue is gone it is another one than the records say.
    window(chosen, ">i4")[starts_of(sizes) + _QUEUE_AT] = queue
    batch = RecordBatch(topic=topic, queue=queue, payload=chosen, sizes=sizes)
    return CheckedBatch(batch, rows["tag_hash"][is_chosen].astype(np.int64))
