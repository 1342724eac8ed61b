"""Ranges of the log's bytes, and which messages of a queue lie in them. Knows a view of a store.

In one queue log offsets rise with queue offsets, so a range of bytes is a range of messages, found
by halving in the entries. No frame is walked but those behind the queue's files.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.checksum import crc32
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.kept import first_kept
from apps.engine.offline.reading import read
from apps.engine.offline.slices import QueueExtent, QueueSlice, RecordBlock
from apps.engine.offline.view import StoreView

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
    kept = first_kept(view.store, whole, "log_offset", log_offset)
    if kept is not None:
        return kept
    whole = replace(whole, start=max(whole.start, whole.kept_stop))
    # Behind first: the last entries in files may be damaged, and then cannot say that they are
    # before; a message behind them that is says it for them.
    behind = _first_behind(view, whole, log_offset)
    return behind if behind > whole.tail_start else _first_filed(view, whole, log_offset)


def _first_filed(view: StoreView, whole: QueueSlice, log_offset: int) -> int:
    """Return the first one among those that have entries in files; `tail_start` for none."""
    low, high = whole.start, min(whole.tail_start, whole.stop)
    if low >= high:
        return whole.tail_start
    files = EntryFiles(view.store.disk, whole.topic, whole.queue)

    def is_before(_at: int, entry: np.void) -> bool | None:
        return int(entry["log_offset"]) < log_offset if entry["size_bytes"] else None

    return files.halved(low, high, is_before)


def _first_behind(view: StoreView, whole: QueueSlice, log_offset: int) -> int:
    """Return the first one behind the files."""
    _, ends = frames_behind(whole)
    for number in range(int(np.searchsorted(ends, log_offset, side="right")), len(ends)):
        for block in records_behind(view, whole, number):
            places = block.fixed["log_offset"].astype(np.int64)
            found = int(np.searchsorted(places, log_offset))
            if found < len(places):
                return int(block.offsets[found])
    return whole.stop


def frames_behind(whole: QueueSlice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the frames behind a queue's files begin, and where they end: int64[n] each."""
    frames = np.frombuffer(whole.frames, dtype=np.int64).reshape(-1, 2)
    return frames[:, 0], frames[:, 1]


def records_behind(view: StoreView, whole: QueueSlice, number: int) -> Iterator[RecordBlock]:
    """Iterate over what one frame behind the files has of a queue; nothing where it is damaged."""
    frame = np.frombuffer(whole.frames, dtype=np.int64).reshape(-1, 2)[number]
    wanted = replace(whole, start=whole.tail_start, frames=frame.tobytes())
    return read(view.store, wanted, on_loss=_not_asked_for)


def _not_asked_for(first: int, last: int, reason: str) -> None:
    """Pass over the other messages of the queue: one frame was to be read."""
    del first, last, reason
