"""The parts of a slice that may have messages of some tags, told by the entries of its queue.

Knows entries and tag hashes; no records. What an entry says of a tag only spares reading: who reads
a part still has to compare the texts, as two tags may share a hash.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.limits import MIB
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import QueueSlice

_ENTRIES = 16_384
# The longest frame has 16 MiB, so none is read for more than five parts.
_GAP_BYTES = 4 * MIB


def parts_of(
    store: OpenedStore, wanted: QueueSlice, hashes: frozenset[int], *, gap_bytes: int = _GAP_BYTES
) -> Iterator[QueueSlice]:
    """Iterate over parts of a slice, in order, that have all its messages of these tag hashes.

    Messages of other tags are among them, but for those with more than `gap_bytes` of the log
    around them that hold none of these. What is damaged or gone is in a part, so that it is told;
    so is all that has no entries in files, and all of the topic whose entries hold due times.
    Raises StoreDamaged as `EntryFiles.read`.
    """
    if wanted.start < wanted.kept_stop:
        # Kept messages lie near each other, whatever their place in the log was.
        yield _filed(wanted, wanted.start, min(wanted.stop, wanted.kept_stop))
        if wanted.stop <= wanted.kept_stop:
            return
        wanted = replace(wanted, start=wanted.kept_stop)
    stop = min(wanted.stop, wanted.tail_start)
    if wanted.topic == SCHEDULE_TOPIC or wanted.start >= stop:
        yield wanted
        return
    files = EntryFiles(store.disk, wanted.topic, wanted.queue)
    begin = wanted.start
    # What retention took the entries of is a part by itself.
    at = end = max(begin, min(stop, files.first if files.first is not None else stop))
    place = -gap_bytes - 1
    while at < stop:
        entries = files.read(at, min(stop, at + _ENTRIES))
        rows = _candidates(entries, hashes, log_start=store.segments.start)
        starts = entries["log_offset"][rows].astype(np.int64)
        ends = starts + entries["size_bytes"][rows]
        for low, high in _runs(starts, ends, gap_bytes):
            if begin < end and starts[low] - place > gap_bytes:
                yield _filed(wanted, begin, end)
                begin = end
            if begin == end:
                begin = at + int(rows[low])
            end = at + int(rows[high]) + 1
            place = int(ends[high])
        at += len(entries)
    if begin < end:
        yield _filed(wanted, begin, end)
    if stop < wanted.stop:
        yield replace(wanted, start=stop)


def _candidates(
    entries: NDArray[np.void], hashes: frozenset[int], *, log_start: int
) -> NDArray[np.int64]:
    """Return the numbers of entries that have a hash, are damaged, or point to what is gone."""
    found = np.isin(entries["tag_hash"], np.array(sorted(hashes), dtype=np.int64))
    found |= (entries["size_bytes"] <= 0) | (entries["log_offset"] < log_start)
    return np.flatnonzero(found)


def _runs(
    starts: NDArray[np.int64], ends: NDArray[np.int64], gap_bytes: int
) -> Iterator[tuple[int, int]]:
    """Iterate over first and last of those that lie near each other."""
    if not len(starts):
        return
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > gap_bytes)
    yield from zip([0, *(breaks + 1).tolist()], [*breaks.tolist(), len(starts) - 1], strict=True)


def _filed(wanted: QueueSlice, start: int, stop: int) -> QueueSlice:
    return replace(wanted, start=start, stop=stop, tail_start=stop, frames=b"")
