"""The frames that hold a slice, out of entries and places: found, read and proven.

Knows entries, frames and segments; not which records of a frame are wanted. Mostly a frame is one
batch of one queue, so its entries tell where its header begins, and it is read with its neighbours
in one go. What does not fit that is looked for by walking, as the engine itself does.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.checksum import crc32
from apps.engine.codec.frame import BadFrame, decode_frame_header, frame_header_bytes
from apps.engine.errors import StoreDamaged
from apps.engine.log.damage import starts_before
from apps.engine.log.tail import Frame, header_at
from apps.engine.log.walking import walk
from apps.engine.offline.entries import EntryFiles
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.slices import QueueSlice

_ENTRIES = 16_384
# Copying so much out of the page cache costs no more than another system call.
_GAP_BYTES_MAX = 16 * 1024
_READ_BYTES_MAX = 4 << 20

Places = NDArray[np.int64]


def frames_of(store: OpenedStore, wanted: QueueSlice) -> Iterator[Frame]:
    """Iterate over the frames with records of a slice, each once, in order of the log.

    A frame that cannot be read does not come.
    """
    done = -1
    for filed in _filed(store, wanted):
        done = filed.end
        yield filed
    places = np.frombuffer(wanted.frames, dtype=np.int64).reshape(-1, 2)
    places = places[places[:, 0] >= done]
    for number, frame in enumerate(_at(store, places[:, 0], places[:, 1])):
        if frame is not None:
            yield frame
        else:
            yield from _walked(store, int(places[number, 0]), int(places[number, 1]))


def _filed(store: OpenedStore, wanted: QueueSlice) -> Iterator[Frame]:
    """Iterate over the frames of those messages that have entries in files."""
    stop = min(wanted.stop, wanted.tail_start)
    if wanted.start >= stop:
        return
    files = EntryFiles(store.disk, wanted.topic, wanted.queue)
    # Retention may have taken the first ones meanwhile; the rest is still there.
    at = max(wanted.start, min(stop, files.first if files.first is not None else stop))
    done = -1
    while at < stop:
        part = files.read(at, min(stop, at + _ENTRIES))
        at += len(part)
        part = part[(part["size_bytes"] > 0) & (part["log_offset"] >= store.segments.start)]
        starts = part["log_offset"].astype(np.int64)
        for frame in _of_entries(store, starts, starts + part["size_bytes"], done):
            done = frame.end
            yield frame


def _of_entries(store: OpenedStore, starts: Places, ends: Places, done: int) -> Iterator[Frame]:
    """Iterate over the frames of records that lie here, in log order, but those up to `done`."""
    fresh = int(np.searchsorted(starts, done))
    starts, ends = starts[fresh:], ends[fresh:]
    if not len(starts):
        return
    # Between two records that are not neighbours a frame begins, or another queue's record lies.
    borders = np.concatenate(([0], np.flatnonzero(starts[1:] != ends[:-1]) + 1, [len(starts)]))
    counts = np.diff(borders)
    run_starts, run_ends = starts[borders[:-1]], ends[borders[1:] - 1]
    headers_at = run_starts - frame_header_bytes(0) - 4 * counts
    for number, frame in enumerate(_at(store, headers_at, run_ends)):
        start, end = int(run_starts[number]), int(run_ends[number])
        if start < done:
            continue
        found = _searched(store, start, end) if frame is None else iter((frame,))
        for one in found:
            done = one.end
            yield one


def _at(store: OpenedStore, starts: Places, ends: Places) -> Iterator[Frame | None]:
    """Iterate over whole frames that begin and end here; None for each that is none."""
    first = 0
    while first < len(starts):
        last = first + 1
        while (
            last < len(starts)
            and starts[last] - ends[last - 1] <= _GAP_BYTES_MAX
            and ends[last] - starts[first] <= _READ_BYTES_MAX
        ):
            last += 1
        begin = max(int(starts[first]), store.segments.start)
        # Not a bytearray: it would be filled with zeros first.
        buffer = np.empty(max(int(ends[last - 1]) - begin, 0), dtype=np.uint8).data
        store.segments.read_into(begin, buffer)
        spans = zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True)
        for start, end in spans:
            yield (
                _whole(store, buffer[start - begin : end - begin], start)
                if start >= begin
                else None
            )
        first = last


def _whole(store: OpenedStore, data: memoryview, log_offset: int) -> Frame | None:
    try:
        header = decode_frame_header(data, log_offset=log_offset)
    except BadFrame:
        return None
    payload = data[header.header_bytes :]
    is_right = (
        header.end == log_offset + len(data)
        and header.store_id == store.identity.store_id
        and crc32(payload) == header.payload_crc
    )
    if not is_right:
        return None
    return Frame(header=header, payload=payload, chunk=data, chunk_start=log_offset)


def _searched(store: OpenedStore, start: int, end: int) -> Iterator[Frame]:
    """Iterate over the frames with a run of records from `start` to `end`, found backwards."""
    for frame in _walked(store, _frame_start(store, start), end):
        if frame.end > start:
            yield frame


def _frame_start(store: OpenedStore, record_at: int) -> int:
    """Return where the frame begins that holds the record at a log offset.

    Bytes in a body may look like a header, so one counts only if a record begins where the entry
    says.
    """
    for found in starts_before(store.segments, record_at, store_id=store.identity.store_id):
        if _holds(store, found, record_at):
            return found
    # The header itself is damaged: walking from the segment's start finds what is whole.
    return store.segments.base(record_at)


def _holds(store: OpenedStore, start: int, record_at: int) -> bool:
    """Say whether a frame of this store begins at `start` and has a record at `record_at`."""
    try:
        header = decode_frame_header(header_at(store.segments, start), log_offset=start)
    except (BadFrame, StoreDamaged):
        return False
    at = record_at - start - header.header_bytes
    if header.store_id != store.identity.store_id or not 0 <= at < header.payload_bytes:
        return False
    borders = np.cumsum(header.sizes, dtype=np.int64).tolist()
    return at == 0 or borders[bisect_left(borders, at)] == at


def _walked(store: OpenedStore, start: int, stop: int) -> Iterator[Frame]:
    """Walk frames; what is damaged has no frame, and its messages are then told as lost."""
    for frame in walk(
        store.segments,
        start=start,
        stop=stop,
        store_id=store.identity.store_id,
        quarantine=store.quarantine,
        found=lambda _range: None,
    ):
        # Many are gathered before any is looked at.
        yield frame.kept()
