"""Kept messages of a compacted queue: which they are, and their records. Knows parts and slices.

Below a border the queue's messages lie in a file beside the log, and offsets that it does not have
are no loss: newer messages of their keys have replaced them. A round of the broker may replace the
file at any moment; the next one goes at least as far, so what it lacks was replaced as well.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import count_within, starts_of
from apps.engine.codec.columns import fixed_fields
from apps.engine.derived.compacted import layout, manifest
from apps.engine.derived.compacted.layout import Rows
from apps.engine.derived.compacted.part import Part, PartDamaged
from apps.engine.errors import StoreDamaged
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import OnLoss, QueueSlice, RecordBlock

_BLOCK_BYTES = 8 << 20
_REMOVED = "the topic's kept messages were removed meanwhile"
# The file that counts may be replaced between looking and opening.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class KeptRange:
    """The offsets of a queue that are read from its kept messages, `stop` not included."""

    begin: int
    stop: int


def kept_range(store: OpenedStore, topic: str, queue: int) -> KeptRange | None:
    """Return what the kept messages of a queue stand for; None without any.

    Raises StoreDamaged or UnknownFormat.
    """
    part = _opened(store, topic, queue)
    if part is None:
        return None
    with closing(part):
        return KeptRange(part.begin, part.stop)


def read_kept(
    store: OpenedStore, wanted: QueueSlice, *, on_loss: OnLoss, on_damage: OnLoss, rows_max: int
) -> Iterator[RecordBlock]:
    """Iterate over the kept messages of a slice, in blocks of about `rows_max` and of 8 MiB.

    What is damaged is told before the block that follows it. Raises StoreDamaged where the file
    cannot be followed at all.
    """
    at, stop = wanted.start, min(wanted.stop, wanted.kept_stop)
    part = _opened(store, wanted.topic, wanted.queue)
    if part is None:
        on_loss(at, stop - 1, _REMOVED)
        return
    with closing(part):
        while at < stop:
            try:
                rows = part.rows_from(at, rows_max, wait=True)
                rows = rows[rows["queue_offset"] < stop]
                rows = rows[: count_within(rows["size_bytes"], _BLOCK_BYTES)]
                payload = part.records(rows, wait=True)
            except PartDamaged as damage:
                if not part.pass_over(damage):
                    raise
                _tell(part, damage, at, stop, on_damage)
                continue
            if not len(rows):
                return
            block = _block(wanted, rows, bytes(payload))
            at = int(block.offsets[-1]) + 1
            yield block


def kept_offsets(
    store: OpenedStore, topic: str, queue: int, start: int, stop: int
) -> NDArray[np.int64]:
    """Return the offsets of a stretch of a queue that are kept, ascending. Raises StoreDamaged."""
    part = _opened(store, topic, queue)
    if part is None:
        return np.empty(0, dtype=np.int64)
    with closing(part):
        found = [
            part.block(number, wait=True)["queue_offset"].astype(np.int64)
            for number in range(max(part.block_below(start), 0), part.block_below(stop) + 1)
        ]
    offsets = np.concatenate([np.empty(0, dtype=np.int64), *found])
    return offsets[(offsets >= start) & (offsets < stop)]


def first_kept(store: OpenedStore, wanted: QueueSlice, column: str, value: int) -> int | None:
    """Return the first offset of a slice whose row's `column`, a rising one, is not below `value`.

    None where no kept message of the slice is. Raises StoreDamaged.
    """
    if wanted.start >= wanted.kept_stop:
        return None
    part = _opened(store, wanted.topic, wanted.queue)
    if part is None:
        return None
    with closing(part):
        low, high = 0, part.block_count
        while low < high:
            middle = (low + high) // 2
            if int(part.block(middle, wait=True)[column][-1]) < value:
                low = middle + 1
            else:
                high = middle
        if low == part.block_count:
            return None
        rows = part.block(low, wait=True)
        at = int(np.flatnonzero(rows[column] >= value)[0])
        found = max(int(rows["queue_offset"][at]), wanted.start)
        return found if found < wanted.kept_stop else None


def _opened(store: OpenedStore, topic: str, queue: int) -> Part | None:
    store_id = store.identity.store_id.hex()
    for _ in range(_TRIES):
        place = manifest.counting(store.disk, layout.directory(topic, queue))
        if place is None:
            return None
        try:
            return Part(store.disk, topic, queue, place.generation, store_id=store_id)
        except FileNotFoundError:
            continue
    raise StoreDamaged(f"the kept messages of {topic}/{queue} are replaced faster than opened")


def _block(wanted: QueueSlice, rows: Rows, payload: bytes) -> RecordBlock:
    sizes = rows["size_bytes"].astype(np.int32)
    starts = starts_of(sizes)
    return RecordBlock(
        topic=wanted.topic,
        queue=wanted.queue,
        payload=payload,
        starts=starts,
        sizes=sizes,
        fixed=fixed_fields(payload, starts),
        offsets=rows["queue_offset"].astype(np.int64),
    )


def _tell(
    part: Part, damage: PartDamaged, at: int, stop: int, on_damage: Callable[[int, int, str], None]
) -> None:
    """Tell what is damaged of the offsets `at` up to, not with, `stop`."""
    if damage.block >= 0:
        number = damage.block
        is_last = number + 1 == part.block_count
        end = part.stop if is_last else part.first_of(number + 1)
        reason = f"a block of {part.count_of(number)} kept messages is not what was written"
        spans = [(part.first_of(number), end - 1)]
    else:
        reason = "the kept message is not what was written"
        spans = [(offset, offset) for offset in _ascending(damage.offsets)]
    for first, last in spans:
        if first < stop and last >= at:
            on_damage(max(first, at), min(last, stop - 1), reason)


def _ascending(offsets: NDArray[np.int64]) -> list[int]:
    found: list[int] = np.sort(offsets).tolist()
    return found
