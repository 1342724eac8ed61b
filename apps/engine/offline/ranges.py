"""Ranges of the log's bytes, and which messages of a queue lie in them. Knows a view of a store.

In one queue log offsets rise with queue offsets, so a range of bytes is a range of messages, found
by halving in the entries. No frame is walked but those behind the queue's files.
"""

import numpy as np

from apps.engine.codec.checksum import crc32
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.reading import read
from apps.engine.offline.view import QueueExtent, QueueSlice, StoreView

_READ_BYTES = 4 << 20


def within(view: StoreView, extent: QueueExtent, low: int, high: int) -> tuple[int, int]:
    """Return the queue offsets, the end not included, of the messages in a range of bytes.

    Those are in it whose record begins at log offset `low` or behind it, and below `high`. Raises
    StoreDamaged where entries are gone.
    """
    return _first_from(view, extent, low), _first_from(view, extent, high)


def whole_segments(view: StoreView) -> list[tuple[int, int]]:
    """Return where each segment begins and ends that is full and synced, in order."""
    segments = view.store.segments
    newest = segments.base(max(view.synced_offset - 1, segments.start))
    size_bytes = segments.segment_bytes
    return [(base, base + size_bytes) for base in range(segments.start, newest, size_bytes)]


def crc32_of(view: StoreView, low: int, high: int) -> int:
    """Return the CRC-32 of bytes of the log. Raises StoreDamaged."""
    value = 0
    buffer = bytearray(min(_READ_BYTES, high - low))
    for start in range(low, high, _READ_BYTES):
        part = memoryview(buffer)[: min(_READ_BYTES, high - start)]
        view.store.segments.read_into(start, part)
        value = crc32(part, value)
    return value


def _first_from(view: StoreView, extent: QueueExtent, log_offset: int) -> int:
    """Return the first queue offset whose record does not begin below a log offset."""
    whole = view.cut(extent.topic, extent.queue, extent.min_offset, extent.max_offset)
    found = _first_filed(view, whole, log_offset)
    return found if found < whole.tail_start else _first_behind(view, whole, log_offset)


def _first_filed(view: StoreView, whole: QueueSlice, log_offset: int) -> int:
    """Return the first one among those that have entries in files; `tail_start` for none."""
    low, high = whole.start, min(whole.tail_start, whole.stop)
    if low >= high:
        return whole.tail_start
    files = EntryFiles(view.store.disk, whole.topic, whole.queue)
    while low < high:
        middle = at = (low + high) // 2
        entry = files.read(at, at + 1)[0]
        while not entry["size_bytes"] and at + 1 < high:
            # Of a damaged record nobody knows where it lay: its neighbour says enough.
            at += 1
            entry = files.read(at, at + 1)[0]
        if entry["size_bytes"] and int(entry["log_offset"]) < log_offset:
            low = at + 1
        else:
            high = middle
    return low


def _first_behind(view: StoreView, whole: QueueSlice, log_offset: int) -> int:
    """Return the first one behind the files."""
    frames = np.frombuffer(whole.frames, dtype=np.int64).reshape(-1, 2)
    for number in range(int(np.searchsorted(frames[:, 1], log_offset, side="right")), len(frames)):
        frame = QueueSlice(
            topic=whole.topic,
            queue=whole.queue,
            start=whole.tail_start,
            stop=whole.stop,
            tail_start=whole.tail_start,
            frames=frames[number : number + 1].tobytes(),
        )
        for block in read(view.store, frame, on_loss=_not_asked_for):
            places = block.fixed["log_offset"].astype(np.int64)
            found = int(np.searchsorted(places, log_offset))
            if found < len(places):
                return int(block.offsets[found])
    return whole.stop


def _not_asked_for(first: int, last: int, reason: str) -> None:
    """Pass over the other messages of the queue: one frame was to be read."""
    del first, last, reason
