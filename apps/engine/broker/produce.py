"""Take batches in: prove them, give them queue offsets, write one frame, index it.

Knows topics, queues and the log; not who waits for the result, nor for the disk.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.catalog import Catalog
from apps.engine.codec.batch import queue_entries, starts_of
from apps.engine.codec.check import check_batch
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import BatchTooLarge, MalformedBatch
from apps.engine.limits import BINARY_BATCH_RECORDS_MAX
from apps.engine.log.commitlog import CommitLog, RecordRun
from apps.engine.types import Appended, RecordBatch

_NO_TAGS = np.zeros(1, dtype=np.int64)


class CheckedBatch:
    """A batch that may be written: its records are proved and its tags known."""

    __slots__ = ("payload", "queue", "sizes", "starts", "tag_hashes", "topic")

    def __init__(self, batch: RecordBatch, tag_hashes: NDArray[np.int64]) -> None:
        """Keep what the write needs."""
        self.topic = batch.topic
        self.queue = batch.queue
        self.payload = batch.payload
        self.sizes = batch.sizes
        self.starts = starts_of(batch.sizes)
        self.tag_hashes = tag_hashes


class Appender:
    """The one way messages get into the log."""

    def __init__(
        self, log: CommitLog, queues: QueueSet, catalog: Catalog, *, config: EngineConfig
    ) -> None:
        """Bind to a store."""
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._config = config
        self.message_count = 0
        self.byte_count = 0

    def check(self, batches: Sequence[RecordBatch]) -> list[CheckedBatch]:
        """Prove all batches of a client. Writes nothing.

        Raises UnknownTopic, UnknownQueue, NotPermitted, MalformedBatch, ChecksumMismatch,
        MessageTooLarge or BatchTooLarge.
        """
        if not batches:
            raise MalformedBatch("there is nothing to store")
        if sum(len(batch.payload) for batch in batches) > self._config.batch_bytes_max:
            raise BatchTooLarge(f"a batch is at most {self._config.batch_bytes_max} bytes")
        if sum(len(batch.sizes) for batch in batches) > BINARY_BATCH_RECORDS_MAX:
            raise BatchTooLarge(f"a batch is at most {BINARY_BATCH_RECORDS_MAX} messages")
        return [self._check(batch) for batch in batches]

    def _check(self, batch: RecordBatch) -> CheckedBatch:
        self._catalog.writable(batch.topic, batch.queue)
        hashes = batch.tag_hashes
        if hashes is None:
            hashes = check_batch(
                batch.payload,
                batch.sizes,
                topic=batch.topic,
                queue=batch.queue,
                body_bytes_max=self._config.body_bytes_max,
                properties_bytes_max=self._config.properties_bytes_max,
            )
        return CheckedBatch(batch, hashes)

    def write(
        self, batches: Sequence[CheckedBatch], *, is_internal: bool = False
    ) -> tuple[list[Appended], int]:
        """Write one frame; return where each batch went and where the frame ends.

        An internal frame may use the room that is kept free for acknowledgements.
        Raises StoreFull, with nothing changed, or WriteFailed.
        """
        taken: dict[ConsumeQueue, int] = {}
        runs, queues = [], []
        for batch in batches:
            queue = self._queues.queue(batch.topic, batch.queue)
            queue_offset = taken.get(queue, queue.end)
            taken[queue] = queue_offset + len(batch.sizes)
            queues.append(queue)
            runs.append(
                RecordRun(
                    payload=batch.payload,
                    sizes=batch.sizes,
                    starts=batch.starts,
                    queue_offset=queue_offset,
                )
            )
        frame = self._log.append(runs, is_internal=is_internal)
        appended = []
        for batch, run, queue, log_offset in zip(
            batches, runs, queues, frame.run_log_offsets, strict=True
        ):
            queue.append(
                queue_entries(batch.starts, batch.sizes, batch.tag_hashes, log_offset=log_offset)
            )
            appended.append(
                Appended(
                    topic=batch.topic,
                    queue=batch.queue,
                    queue_offset=run.queue_offset,
                    count=len(batch.sizes),
                    log_offset=log_offset,
                    store_time_ms=frame.store_time_ms,
                )
            )
        for queue in taken:
            self._queues.added(queue, frame_end=frame.end)
        if not is_internal:
            self.byte_count += sum(len(batch.payload) for batch in batches)
            self.message_count += sum(len(batch.sizes) for batch in batches)
        return appended, frame.end


def internal_batch(topic: str, record: bytes) -> CheckedBatch:
    """Return a batch of one record of the engine's own, without a tag."""
    batch = RecordBatch(
        topic=topic,
        queue=0,
        payload=bytearray(record),
        sizes=np.array([len(record)], dtype=np.int32),
    )
    return CheckedBatch(batch, _NO_TAGS)
