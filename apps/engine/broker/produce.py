"""Take batches in: prove them, give them queue offsets, write one frame, index it.

Knows topics, queues and the log; not who waits for the result, nor for the disk.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.keyrule import check_keys
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.codec.batch import packed_entries, starts_of
from apps.engine.codec.check import check_batch
from apps.engine.codec.layout import JOURNAL_TOPIC, LITE_PREFIX
from apps.engine.codec.litenames import is_lite
from apps.engine.codec.scan import Sections
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import BatchTooLarge, MalformedBatch, MessageIllegal, WriteFailed
from apps.engine.limits import BINARY_BATCH_RECORDS_MAX
from apps.engine.log.commitlog import AppendedFrame, CommitLog, RecordRun
from apps.engine.types import Appended, Cleanup, RecordBatch, Special, TopicType


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


class _Share(RecordRun):
    """The batches of one queue in one frame, as one run of records."""

    __slots__ = ("batches", "hashes", "queue", "sections")

    def __init__(self, queue: ConsumeQueue, batches: Sequence[CheckedBatch]) -> None:
        """Join the batches: many small sends then cost array operations once, not once each."""
        self.queue = queue
        self.batches = batches
        if len(batches) == 1:
            (batch,) = batches
            self.payload, self.sizes = batch.payload, batch.sizes
            self.hashes, self.sections = batch.tag_hashes, batch.sections
        else:
            self.payload = bytearray().join([batch.payload for batch in batches])
            self.sizes = np.concatenate([batch.sizes for batch in batches])
            self.hashes = np.concatenate([batch.tag_hashes for batch in batches])
            self.sections = _joined([batch.sections for batch in batches])
        self.starts = starts_of(self.sizes)
        self.queue_offset = queue.end

    def tell(self, log_offset: int, store_time_ms: int) -> None:
        """Give each batch its place."""
        queue_offset = self.queue_offset
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


def _joined(sections: Sequence[Sections | None]) -> Sections | None:
    """Return the property sections of all records, None where some are to be found yet."""
    found = [one for one in sections if one is not None]
    if len(found) < len(sections):
        return None
    return b"".join([data for data, _ in found]), [n for _, many in found for n in many]


class Appender:
    """The one way messages get into the log."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueSet,
        index: KeyIndex,
        catalog: Catalog,
        *,
        lites: LiteTopics,
        config: EngineConfig,
    ) -> None:
        """Bind to a store."""
        self._lites = lites
        self._log = log
        self._queues = queues
        self._index = index
        self._catalog = catalog
        self._config = config
        self.message_count = 0
        self.byte_count = 0

    @property
    def written_offset(self) -> int:
        """Return where the log ends."""
        return self._log.written_offset

    def check(self, batches: Sequence[RecordBatch]) -> list[CheckedBatch]:
        """Prove all batches of a client. Writes nothing.

        Raises UnknownTopic, UnknownQueue, NotPermitted, MalformedBatch, ChecksumMismatch,
        MessageIllegal, LiteTopicsExhausted, MessageTooLarge or BatchTooLarge.
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
        sections: Sections | None = None
        if hashes is None:
            hashes, special, sections = check_batch(
                batch.payload,
                batch.sizes,
                topic=batch.topic,
                queue=batch.queue,
                body_bytes_max=self._config.body_bytes_max,
                properties_bytes_max=self._config.properties_bytes_max,
            )
        if spec.cleanup is Cleanup.COMPACT:
            check_keys(batch.payload, batch.sizes)
        if spec.type is TopicType.LITE:
            if not is_lite(batch.topic):
                raise MessageIllegal(f"a message of {batch.topic!r} names a lite topic of it")
            if special & (Special.DELAY | Special.TRANSACTION):
                raise MessageIllegal("a message of a lite topic has no delay and no transaction")
            self._lites.check(batch.topic)
        return CheckedBatch(
            batch,
            hashes,
            special,
            is_whole=batch.tag_hashes is None,
            sections=sections,
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
        frame = self._log.append(shares, is_internal=may_use_reserve)
        try:
            for share, log_offset in zip(shares, frame.run_log_offsets, strict=True):
                self._index_share(share, log_offset, frame)
                share.tell(log_offset, frame.store_time_ms)
                if share.queue.topic.startswith(LITE_PREFIX):
                    self._lites.stored(share.queue.topic, frame.store_time_ms)
                # What the engine notes about a client's messages is none of them.
                if not is_internal and share.queue.topic != JOURNAL_TOPIC:
                    self.byte_count += len(share.payload)
                    self.message_count += len(share.sizes)
            self._index.frame_added(frame.end)
        except MemoryError as error:
            # The frame is in the log and not in its queues: only a restart brings them level.
            raise WriteFailed("no memory was left to index what is in the log") from error
        return [batch.appended for batch in batches], frame.end

    def _index_share(self, share: _Share, log_offset: int, frame: AppendedFrame) -> None:
        """Give records their entries, and let them be found by their keys."""
        starts, sizes = share.starts, share.sizes
        share.queue.append(packed_entries(starts, sizes, share.hashes, log_offset=log_offset))
        self._queues.added(share.queue, frame_end=frame.end)
        self._index.incoming.add(
            share.queue.topic,
            share.payload,
            starts,
            sizes,
            log_offset=log_offset,
            store_time_ms=frame.store_time_ms,
            frame=frame.log_offset,
            sections=share.sections,
        )

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
