"""Entries of a queue wherever they are: of kept messages below a border, of the log from it on.

Knows consume queues and kept messages; not what a reader wants of them. Below the border there are
gaps, which are passed over.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY
from apps.engine.derived.compacted.layout import BLOCK_ROWS_MAX, MANY_KEYS, Rows
from apps.engine.derived.compacted.part import Part
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.files.backend import NotCached
from apps.engine.log.gather import Take, fresh

_Answer = TypeVar("_Answer")
_NO_ENTRIES = np.empty(0, dtype=QUEUE_ENTRY)


def stretch(
    queue: ConsumeQueue, start: int, count: int, *, wait: bool
) -> tuple[NDArray[np.int64], NDArray[np.void], int]:
    """Return offsets and entries of up to `count` messages from `start` on, and where to read on.

    Either all are kept messages or none. `start` must be in the queue. Raises ColdRead when `wait`
    is false and the disk would have to be waited for, PartDamaged or StoreDamaged.
    """
    part = queue.kept
    if part is not None and start < part.stop:
        rows = _rows(part, start, count, lambda: part.rows_from(start, count, wait=wait))
        if len(rows):
            offsets = rows["queue_offset"].astype(np.int64)
            next_offset = int(offsets[-1]) + 1 if len(rows) == count else part.stop
            return offsets, entries_of(rows), next_offset
        start = part.stop
    count = min(count, queue.visible - start)
    if count <= 0:
        return np.empty(0, dtype=np.int64), _NO_ENTRIES, start
    entries = queue.read(start, count, wait=wait)
    return np.arange(start, start + len(entries)), entries, start + len(entries)


def entries_between(queue: ConsumeQueue, start: int, stop: int, *, wait: bool) -> NDArray[np.void]:
    """Return the entries of a stretch of offsets, without the gaps. Raises as `stretch`."""
    part = queue.kept
    if part is None or start >= part.stop:
        return queue.read(start, stop - start, wait=wait)
    border = min(stop, part.stop)
    rows = _rows(part, start, stop - start, lambda: part.rows_between(start, border, wait=wait))
    if stop <= part.stop:
        return entries_of(rows)
    rest = queue.read(part.stop, stop - part.stop, wait=wait)
    entries = np.empty(len(rows) + len(rest), dtype=QUEUE_ENTRY)
    entries[: len(rows)] = entries_of(rows)
    entries[len(rows) :] = rest
    return entries


def entries_at(queue: ConsumeQueue, offsets: NDArray[np.int64], *, wait: bool) -> NDArray[np.void]:
    """Return the entries of offsets, ascending, that are all there and on one side of the border.

    Raises as `stretch`.
    """
    part = queue.kept
    first = int(offsets[0])
    if part is not None and first < part.stop:
        rows = _rows(part, first, len(offsets), lambda: part.rows_at(offsets, wait=wait))
        return entries_of(rows)
    return queue.read(first, int(offsets[-1]) - first + 1, wait=wait)[offsets - first]


def gone(queue: ConsumeQueue, offsets: NDArray[np.int64], *, wait: bool) -> NDArray[np.bool_]:
    """Say of offsets, ascending, which cannot be read any more: damaged, or replaced.

    Raises as `stretch`.
    """
    is_gone = np.isin(offsets, queue.lost, assume_unique=True)
    part = queue.kept
    below = 0 if part is None else int(np.searchsorted(offsets, part.stop))
    if part is None or not below:
        return is_gone
    asked = offsets[:below]
    rows = _rows(part, int(asked[0]), below, lambda: part.rows_at(asked, wait=wait))
    is_gone[:below] = ~np.isin(asked, rows["queue_offset"])
    return is_gone


def entry_at(queue: ConsumeQueue, offset: int, *, wait: bool) -> np.void | None:
    """Return the entry of one message of a queue, None where it was replaced."""
    entries = entries_between(queue, offset, offset + 1, wait=wait)
    return entries[0] if len(entries) else None


def kept_records(
    queue: ConsumeQueue, offsets: NDArray[np.int64], *, wait: bool, take: Take = fresh
) -> memoryview:
    """Return kept messages end to end, by ascending offsets that are all there.

    In memory that `take` gives. Raises as `stretch`.
    """
    part = queue.kept
    assert part is not None

    def read() -> memoryview:
        return part.records(part.rows_at(offsets, wait=wait), wait=wait, take=take)

    return _rows(part, int(offsets[0]), len(offsets), read)


def kept_at_log(queue: ConsumeQueue, log_offset: int, *, wait: bool) -> memoryview | None:
    """Return the kept message that lay at a place of the log; None where there is none."""
    part = queue.kept
    if part is None:
        return None

    def read() -> memoryview | None:
        rows = part.row_at_log(log_offset, wait=wait)
        if not len(rows) or int(rows["queue_offset"][0]) < queue.min_offset:
            return None
        return part.records(rows, wait=wait)

    return _rows(part, part.first_near_log(log_offset), BLOCK_ROWS_MAX, read)


def kept_time_ms(queue: ConsumeQueue, offset: int, *, wait: bool) -> int | None:
    """Return when the first kept message from an offset on was stored; None without one."""
    part = queue.kept
    if part is None or offset >= part.stop:
        return None
    rows = _rows(part, offset, 1, lambda: part.rows_from(offset, 1, wait=wait))
    return int(rows["store_time_ms"][0]) if len(rows) else None


def named_between(
    queue: ConsumeQueue,
    stop: int,
    *,
    key: tuple[int, int] | None,
    id_hash: int | None,
    wait: bool,
) -> tuple[NDArray[np.void], int, int]:
    """Return the entries of the last block of kept messages below `stop` that may have a name.

    And the first offset of that block and how many rows were looked at. What holds several keys may
    have any. Raises as `stretch`.
    """
    part = queue.kept
    if part is None:
        return _NO_ENTRIES, 0, 0
    number = part.block_below(stop)
    if number < 0:
        return _NO_ENTRIES, 0, 0
    first = part.first_of(number)
    rows = _rows(part, first, 1, lambda: part.block(number, wait=wait))
    looked = part.count_of(number)
    if id_hash is not None:
        rows = rows[rows["id_hash"] == np.uint64(id_hash)]
    elif key is not None:
        is_it = (rows["key_high"] == np.uint64(key[0])) & (rows["key_low"] == np.uint64(key[1]))
        rows = rows[is_it | ((rows["flags"] & MANY_KEYS) != 0)]
    return entries_of(rows[rows["queue_offset"] >= queue.min_offset]), first, looked


def entries_of(rows: Rows) -> NDArray[np.void]:
    """Return the consume-queue entries of kept messages; they say where those lay in the log."""
    entries = np.empty(len(rows), dtype=QUEUE_ENTRY)
    for name in ("log_offset", "size_bytes", "tag_hash"):
        entries[name] = rows[name]
    return entries


def _rows(part: Part, first: int, count: int, read: Callable[[], _Answer]) -> _Answer:
    try:
        return read()
    except NotCached as error:
        raise ColdRead(lambda: part.warm(first, count)) from error
