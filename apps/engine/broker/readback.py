"""Read messages of a queue back as records, to write them again elsewhere; and batches of such.

Knows entries, records and batches; not why they are written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.selection import Selection, load, pick
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import Record, decode_record
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.sparse import gone
from apps.engine.limits import FETCH_MESSAGES_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """The first of the offsets that were asked for, and their records: as many as fit a frame.

    `lost` int64[n] are those among them that cannot be read any more; they have no record.
    """

    offsets: NDArray[np.int64]
    records: list[Record]
    lost: NDArray[np.int64]

    @property
    def looked(self) -> int:
        """Return how many of the offsets that were asked for this is about."""
        return len(self.offsets) + len(self.lost)


def read_back(
    log: CommitLog,
    queue: ConsumeQueue,
    offsets: NDArray[np.int64],
    *,
    bytes_max: int,
    wait: bool,
) -> ReadBack:
    """Read the first of `offsets`, int64[n], ascending: up to `bytes_max`, at least one.

    Messages that cannot be read any more come along as `lost`. Raises ColdRead
    when `wait` is false and the disk would have to be waited for, StoreDamaged when a record is not
    the one expected.
    """
    near = offsets[offsets < offsets[0] + FETCH_MESSAGES_MAX]
    chosen = pick(queue, near, bytes_max=bytes_max, wait=wait)
    is_lost = gone(queue, near, wait=wait) & (near < chosen.next_offset)
    return ReadBack(
        offsets=chosen.offsets,
        records=records_of(log, queue, chosen, wait=wait),
        lost=near[is_lost],
    )


def records_of(
    log: CommitLog, queue: ConsumeQueue, chosen: Selection, *, wait: bool
) -> list[Record]:
    """Return chosen messages as records. Raises what `read_back` raises.

    A loop over messages: each is to get other properties, which have no array form. Reading and
    writing one again costs 20 us for a body of 1 KiB.
    """
    if not len(chosen.sizes):
        return []
    block = load(log, queue, chosen, wait=wait)
    return [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]


def batch_of(
    topic: str, queue: int, records: Sequence[bytes], tag_hashes: Sequence[int]
) -> CheckedBatch:
    """Return a batch of records of the engine's making, all of one topic and queue."""
    batch = RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray().join(records),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )
    return CheckedBatch(batch, np.array(tag_hashes, dtype=np.int64))
