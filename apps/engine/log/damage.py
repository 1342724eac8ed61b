"""Say what exactly is bad at a place of the log, and where the log goes on behind it.

Knows frames and what a record says of itself. Changes nothing and remembers nothing.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from apps.engine.codec import layout
from apps.engine.codec.batch import starts_of
from apps.engine.codec.blame import bad_bodies, is_all, lost_messages, records_within, runs
from apps.engine.codec.frame import BadFrame, FrameHeader, decode_frame_header
from apps.engine.files.segments import Segments
from apps.engine.log.tail import header_at
from apps.engine.types import QuarantinedRange

# Where a frame header keeps the store id: behind the record header, 32 bytes into the body.
STORE_ID_AT = layout.RECORD_HEADER_BYTES + 32
_CHUNK_BYTES = 1 << 20
# What lies in so long a stretch is not looked through for records: a segment that was lost.
_SURVEY_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What is bad from a place on, and `resume`, where the next frame starts."""

    ranges: tuple[QuarantinedRange, ...]
    resume: int


def assess(
    segments: Segments, log_offset: int, stop: int, *, store_id: bytes, reason: str
) -> Assessment:
    """Look at a place where the log cannot be followed.

    Where the frame's header is whole, the smallest part of the frame that explains its checksum is
    bad: the bodies of some records, or all of it. Otherwise everything is up to the next frame
    that is whole, or to `stop`.
    """
    header = _header_of(segments, log_offset, store_id)
    if header is not None and header.end <= segments.base(log_offset) + segments.segment_bytes:
        payload = _read(segments, log_offset + header.header_bytes, header.end)
        rows = bad_bodies(header, payload)
        if rows is not None:
            ranges = tuple(_bodies(header, payload, rows, reason))
            return Assessment(ranges=ranges, resume=header.end)
        resume = header.end
    else:
        resume = _next_frame(segments, log_offset, stop, store_id)
    return Assessment(ranges=(gap(segments, log_offset, resume, reason),), resume=resume)


def gap(segments: Segments, log_offset: int, stop: int, reason: str) -> QuarantinedRange:
    """Return a range of whole frames that cannot be read, with what can be told of its messages."""
    found = QuarantinedRange(
        log_offset=log_offset,
        length_bytes=stop - log_offset,
        reason=reason,
        is_gap=True,
        is_complete=False,
    )
    if stop - log_offset > _SURVEY_BYTES_MAX:
        return found
    view = _read(segments, log_offset, stop)
    if not any(view[layout.FILLER_BYTES :]):
        # A filler has nothing behind it.
        return replace(found, is_complete=True)
    records = list(records_within(view, log_offset))
    return replace(
        found, lost=lost_messages(records), is_complete=is_all(records, stop - log_offset)
    )


def _bodies(
    header: FrameHeader, payload: memoryview, rows: tuple[int, ...], reason: str
) -> Iterator[QuarantinedRange]:
    """Return one range for each run of records with bad bodies."""
    starts = starts_of(header.sizes).tolist()
    at = header.log_offset + header.header_bytes
    for first, last in runs(rows):
        start, stop = starts[first], starts[last] + int(header.sizes[last])
        found = list(records_within(payload[start:stop], at + start))
        yield QuarantinedRange(
            log_offset=at + start,
            length_bytes=stop - start,
            reason=f"{reason}; of its records {_numbers(first, last)} do not have theirs",
            lost=lost_messages(found),
        )


def _numbers(first: int, last: int) -> str:
    return f"number {first}" if first == last else f"{first} to {last}"


def _header_of(segments: Segments, log_offset: int, store_id: bytes) -> FrameHeader | None:
    """Return the whole header of this store that lies here, None for anything else."""
    with suppress(BadFrame):
        header = decode_frame_header(header_at(segments, log_offset), log_offset=log_offset)
        if header.store_id == store_id:
            return header
    return None


def _next_frame(segments: Segments, log_offset: int, stop: int, store_id: bytes) -> int:
    for at in _candidates(segments, log_offset + 1, stop, store_id):
        header = _header_of(segments, at, store_id)
        if header is None or header.end > segments.base(at) + segments.segment_bytes:
            continue
        payload = _read(segments, at + header.header_bytes, header.end)
        if bad_bodies(header, payload) is not None:
            return at
    return stop


def _candidates(segments: Segments, start: int, stop: int, store_id: bytes) -> Iterator[int]:
    """Find where headers of this store may start, from `start` on, ascending."""
    borders = [*range(start, stop, _CHUNK_BYTES), stop]
    for first, last in pairwise(borders):
        ahead = min(last + STORE_ID_AT + len(store_id), segments.end)
        window = bytes(_read(segments, first, ahead))
        at = window.find(store_id)
        while at >= 0:
            if 0 <= at - STORE_ID_AT < last - first:
                yield first + at - STORE_ID_AT
            at = window.find(store_id, at + 1)


def starts_before(segments: Segments, log_offset: int, *, store_id: bytes) -> Iterator[int]:
    """Find where whole frame headers start at or before a place of the log, the nearest first.

    The last is the start of the segment. A header inside of a message's body could be one of the
    others, so whoever finds damage from there on asks for the next.
    """
    base = segments.base(log_offset)
    stop = log_offset
    step_bytes = 64 * 1024
    while stop > base:
        start = max(base, stop - step_bytes)
        found = list(_candidates(segments, start, stop, store_id))
        for at in reversed(found):
            if at > base and _header_of(segments, at, store_id) is not None:
                yield at
        stop, step_bytes = start, min(4 * step_bytes, 4 * _CHUNK_BYTES)
    yield base


def _read(segments: Segments, start: int, stop: int) -> memoryview:
    view = memoryview(bytearray(stop - start))
    segments.read_into(start, view)
    return view
