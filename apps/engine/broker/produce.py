"""Take batches in: prove them, give them queue offsets, write one frame, index it.

Knows topics, queues and the log; not who waits for the result, nor for the disk.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.keyrule import check_keys
from apps.engine.codec.batch import queue_entries, starts_of
from apps.engine.codec.check import check_batch
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.index.incoming import Sections
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import BatchTooLarge, MalformedBatch, WriteFailed
from apps.engine.limits import BINARY_BATCH_RECORDS_MAX
from apps.engine.log.commitlog import AppendedFrame, CommitLog, RecordRun
from apps.engine.types import Appended, Cleanup, RecordBatch, Special


class CheckedBatch:
    """A batch that may be written: its records are proved and its tags known.

    `appended` is set when it was, and `on_stored` is called with it then, in order of the batches
    of a frame. `tag_hashes` int64[n] go into the consume queue: the due times of a delay level.
    `sections` are the records' property sections, where a check has found them.
    `is_whole` says that it came as bytes, so that a repeat of it has the same messages or none.
    """

    __slots__ = (
        "appended", "is_whole", "on_stored", "payload", "queue", "sections", "sizes", "special",
        "tag_hashes", "topic",
    )  # fmt: skip

    appended: Appended

    def __init__(
        self,
        batch: RecordBatch,
        tag_hashes: NDArray[np.int64],
        special: Special = Special.NOTHING,
        *,
        on_stored: Callable[[Appended], None] | None = None,
        is_whole: bool = False,
        sections: Sections | None = None,
    ) -> None:
        """Keep what the write needs."""
        self.sections = sections
        self.special = special
        self.is_whole = is_whole
        self.on_stored = on_stored
        self.topic = batch.topic
        self.queue = batch.queue
        self.payload = batch.payload
        self.sizes = batch.sizes
        self.tag_hashes = tag_hashes


class _Share:
    """The batches of one queue in one frame, as one run of records."""

    __slots__ = ("batches", "hashes", "queue", "run")

    def __init__(self, queue: ConsumeQueue, batches: Sequence[CheckedBatch]) -> None:
        """Join the batches: many small sends then cost array operations once, not once each."""
        self.queue = queue
        self.batches = batches
        if len(batches) == 1:
            payload, sizes = batches[0].payload, batches[0].sizes
            self.hashes = batches[0].tag_hashes
        else:
            payload = bytearray().join([batch.payload for batch in batches])
            sizes = np.concatenate([batch.sizes for batch in batches])
            self.hashes = np.concatenate([batch.tag_hashes for batch in batches])
        self.run = RecordRun(
            payload=payload, sizes=sizes, starts=starts_of(sizes), queue_offset=queue.end
        )

    def index(self, log_offset: int, frame_end: int, queues: QueueSet) -> None:
        """Give the records their entries."""
        run = self.run
        self.queue.append(queue_entries(run.starts, run.sizes, self.hashes, log_offset=log_offset))
        queues.added(self.queue, frame_end=frame_end)

    def index_keys(self, log_offset: int, frame: AppendedFrame, index: KeyIndex) -> None:
        """Let the records be found by their keys."""
        run = self.run
        index.add(
            self.queue.topic,
            run.payload,
            run.starts,
            run.sizes,
            log_offset=log_offset,
            store_time_ms=frame.store_time_ms,
            frame=frame.log_offset,
            sections=self._sections(),
        )

    def _sections(self) -> Sections | None:
        """Return the property sections of all records, None where they are to be found yet."""
        found = [batch.sections for batch in self.batches if batch.sections is not None]
        if len(found) < len(self.batches):
            return None
        if len(found) == 1:
            return found[0]
        return b"".join([data for data, _ in found]), [n for _, many in found for n in many]

    def tell(self, log_offset: int, store_time_ms: int) -> None:
        """Give each batch its place."""
        queue_offset = self.run.queue_offset
        for batch in self.batches:
            count = len(batch.sizes)
            batch.appended = Appended(
                topic=batch.topic,
                queue=batch.queue,
                queue_offset=queue_offset,
                count=count,
                log_offset=log_offset,
                store_time_ms=store_time_ms,
            )
            queue_offset += count
            log_offset += len(batch.payload)
            if batch.on_stored is not None:
                batch.on_stored(batch.appended)


class Appender:
    """The one way messages get into the log."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueSet,
        index: KeyIndex,
        catalog: Catalog,
        *,
        config: EngineConfig,
    ) -> None:
        """Bind to a store."""
        self._log = log
        self._queues = queues
        self._index = index
        self._catalog = catalog
        self._config = config
        self.message_count = 0
        self.byte_count = 0

    def check(self, batches: Sequence[RecordBatch]) -> list[CheckedBatch]:
        """Prove all batches of a client. Writes nothing.

        Raises UnknownTopic, UnknownQueue, NotPermitted, MalformedBatch, ChecksumMismatch,
        MessageIllegal, MessageTooLarge or BatchTooLarge.
        """
        if not batches:
            raise MalformedBatch("there is nothing to store")
        size_bytes, count = 0, 0
        for batch in batches:
            size_bytes += len(batch.payload)
            count += len(batch.sizes)
        if size_bytes > self._config.batch_bytes_max:
            raise BatchTooLarge(f"a batch is at most {self._config.batch_bytes_max} bytes")
        if count > BINARY_BATCH_RECORDS_MAX:
            raise BatchTooLarge(f"a batch is at most {BINARY_BATCH_RECORDS_MAX} messages")
        return [self._check(batch) for batch in batches]

    def _check(self, batch: RecordBatch) -> CheckedBatch:
        spec = self._catalog.writable(batch.topic, batch.queue)
        hashes, special = batch.tag_hashes, batch.special
        sections: list[Sections] = []
        if hashes is None:
            hashes, special = check_batch(
                batch.payload,
                batch.sizes,
                topic=batch.topic,
                queue=batch.queue,
                body_bytes_max=self._config.body_bytes_max,
                properties_bytes_max=self._config.properties_bytes_max,
                keep=lambda data, lengths: sections.append((data, lengths)),
            )
        if spec.cleanup is Cleanup.COMPACT:
            check_keys(batch.payload, batch.sizes)
        return CheckedBatch(
            batch,
            hashes,
            special,
            is_whole=batch.tag_hashes is None,
            sections=sections[0] if sections else None,
        )

    def write(
        self, batches: Sequence[CheckedBatch], *, is_internal: bool = False
    ) -> tuple[list[Appended], int]:
        """Write one frame; return where each batch went and where the frame ends.

        An internal frame may use the room that is kept free for acknowledgements.
        Raises StoreFull, with nothing changed, or WriteFailed.
        """
        shares = self._shares(batches)
        may_use_reserve = is_internal or self._are_ours(batches)
        frame = self._log.append([share.run for share in shares], is_internal=may_use_reserve)
        try:
            for share, log_offset in zip(shares, frame.run_log_offsets, strict=True):
                share.index(log_offset, frame.end, self._queues)
                share.index_keys(log_offset, frame, self._index)
                share.tell(log_offset, frame.store_time_ms)
                # What the engine notes about a client's messages is none of them.
                if not is_internal and share.queue.topic != JOURNAL_TOPIC:
                    self.byte_count += len(share.run.payload)
                    self.message_count += len(share.run.sizes)
            self._index.frame_added(frame.end)
        except MemoryError as error:
            # The frame is in the log and not in its queues: only a restart brings them level.
            raise WriteFailed("no memory was left to index what is in the log") from error
        return [batch.appended for batch in batches], frame.end

    def _are_ours(self, batches: Sequence[CheckedBatch]) -> bool:
        """Say whether all of it is the product's own work, which goes on while the disk is full."""
        topics = self._config.reserve_topics
        return bool(topics) and all(batch.topic in topics for batch in batches)

    def _shares(self, batches: Sequence[CheckedBatch]) -> list[_Share]:
        """Put the batches of each queue together."""
        if len(batches) == 1:
            (batch,) = batches
            return [_Share(self._queues.queue(batch.topic, batch.queue), batches)]
        grouped: dict[tuple[str, int], list[CheckedBatch]] = {}
        for batch in batches:
            grouped.setdefault((batch.topic, batch.queue), []).append(batch)
        return [_Share(self._queues.queue(*key), group) for key, group in grouped.items()]


def internal_batch(topic: str, *records: bytes, queue: int = 0) -> CheckedBatch:
    """Return a batch of records of the engine's own, without tags."""
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    batch = RecordBatch(topic=topic, queue=queue, payload=bytearray().join(records), sizes=sizes)
    return CheckedBatch(batch, np.zeros(len(records), dtype=np.int64))
