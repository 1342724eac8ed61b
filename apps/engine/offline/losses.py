"""What became of messages that do not come: damaged where they lie, or gone. Knows entries.

Gone is what retention took, before the read or meanwhile. Of the rest the log has the place, and
what is there is not what was written.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apps.engine.errors import StoreDamaged
from apps.engine.log.retained import load_retained
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import QueueSlice

_ENTRIES = 16_384


def fates(
    store: OpenedStore, wanted: QueueSlice, first: int, last: int
) -> Iterator[tuple[int, int, bool]]:
    """Iterate over runs, first and last offset, of the messages of a slice that did not come.

    Each with whether they are gone; else they are damaged.
    """
    log_start = max(store.segments.start, load_retained(store.disk).log_start)
    border = max(first, min(last + 1, wanted.tail_start))
    parts: list[NDArray[np.bool_]] = []
    if first < border:
        parts += _filed(store, wanted, first, border, log_start)
    if border <= last:
        frames = np.frombuffer(wanted.frames, dtype=np.int64)
        is_gone = bool(len(frames)) and int(frames[0]) < log_start
        parts.append(np.full(last + 1 - border, is_gone))
    gone = np.concatenate(parts)
    borders = [0, *(np.flatnonzero(gone[1:] != gone[:-1]) + 1).tolist(), len(gone)]
    for begin, end in pairwise(borders):
        yield first + begin, first + end - 1, bool(gone[begin])


def _filed(
    store: OpenedStore, wanted: QueueSlice, start: int, stop: int, log_start: int
) -> Iterator[NDArray[np.bool_]]:
    """Iterate over whether messages are gone of which files have, or had, entries."""
    files = EntryFiles(store.disk, wanted.topic, wanted.queue)
    at = max(start, min(stop, files.first if files.first is not None else stop))
    yield np.ones(at - start, dtype=np.bool_)
    while at < stop:
        try:
            entries = files.read(at, min(stop, at + _ENTRIES))
        except StoreDamaged:
            # Removed since they were listed.
            yield np.ones(stop - at, dtype=np.bool_)
            return
        yield entries["log_offset"].astype(np.int64) < log_start
        at += len(entries)
