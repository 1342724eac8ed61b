"""The first message of a queue stored at or after a moment. Knows a view of a store; no bodies.

Store times never fall along the log, so a queue is searched by halves: a look is one entry and the
fixed part of its record, and behind the queue's files one frame. Whoever then reads the messages
proves them.
"""

from dataclasses import replace

import numpy as np

from apps.engine.codec.layout import RECORD_HEADER, RECORD_MAGIC
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.kept import first_kept
from apps.engine.offline.ranges import frames_behind, records_behind
from apps.engine.offline.slices import QueueExtent, QueueSlice
from apps.engine.offline.view import StoreView


def first_since(view: StoreView, extent: QueueExtent, time_ms: int) -> int:
    """Return the queue offset of the first message stored at or after a wall time.

    `max_offset` where there is none. Damaged messages right before the one that is found count as
    stored when it was: nobody knows better, and whoever reads from there on is told of them. Raises
    StoreDamaged where entries are gone.
    """
    whole = view.cut(extent.topic, extent.queue, extent.min_offset, extent.max_offset)
    kept = first_kept(view.store, whole, "store_time_ms", time_ms)
    if kept is not None:
        return kept
    whole = replace(whole, start=max(whole.start, whole.kept_stop))
    border = min(whole.tail_start, whole.stop)
    found = _first_behind(view, whole, time_ms)
    return found if found > border else _first_filed(view, whole, border, time_ms)


def _first_filed(view: StoreView, whole: QueueSlice, stop: int, time_ms: int) -> int:
    if whole.start >= stop:
        return whole.start
    files = EntryFiles(view.store.disk, whole.topic, whole.queue)

    def is_before(at: int, entry: np.void) -> bool | None:
        stored_ms = _store_time_ms(view, whole.queue, at, entry)
        return None if stored_ms is None else stored_ms < time_ms

    return files.halved(whole.start, stop, is_before)


def _store_time_ms(view: StoreView, queue: int, queue_offset: int, entry: np.void) -> int | None:
    """Return when a message was stored; None where its place in the log holds something else."""
    log_offset = int(entry["log_offset"])
    if entry["size_bytes"] < RECORD_HEADER.itemsize or log_offset < view.store.segments.start:
        return None
    found = np.empty(1, dtype=RECORD_HEADER)
    view.store.segments.read_into(log_offset, found.view(np.uint8).data)
    record = found[0]
    is_it = (
        record["magic"] == RECORD_MAGIC
        and record["queue"] == queue
        and record["queue_offset"] == queue_offset
        and record["log_offset"] == log_offset
    )
    return int(record["store_time_ms"]) if is_it else None


def _first_behind(view: StoreView, whole: QueueSlice, time_ms: int) -> int:
    """Return the same among those that have no entries in files; `tail_start` where none is before.

    The records of a frame are stored at one moment, which each of them says.
    """
    found = whole.tail_start
    low, high = 0, len(frames_behind(whole)[0])
    while low < high:
        middle = at = (low + high) // 2
        blocks = list(records_behind(view, whole, at))
        while not blocks and at + 1 < high:
            at += 1
            blocks = list(records_behind(view, whole, at))
        if blocks and int(blocks[0].fixed["store_time_ms"][0]) < time_ms:
            low = at + 1
            found = int(blocks[-1].offsets[-1]) + 1
        else:
            high = middle
    return found
