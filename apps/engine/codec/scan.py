"""Read whole columns out of a payload of records: queues, offsets, topics, properties, tags.

Knows bytes and arrays only. The lengths inside the records must have been checked before, by
`check.check_batch` or by a frame's CRC.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.tags import java_hash
from apps.engine.codec.windows import Buffer, ragged_index, window
from apps.engine.errors import StoreDamaged

_DUE = re.compile(rb"\x02TIMER_OUT_MS\x01([0-9]{1,18})\x02")
_TAGS = np.frombuffer(b"TAGS", dtype=np.uint8)
# Hashing by columns costs one array step per character; longer tags are rare and go one by one.
_COLUMN_TAG_BYTES_MAX = 64


Sections = tuple[bytes, list[int]]
"""Property sections end to end, and the length of each."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The property sections of n records end to end: `data` uint8[sum], `lengths` int64[n]."""

    data: NDArray[np.uint8]
    lengths: NDArray[np.int64]


def property_sections(
    payload: Buffer, starts: NDArray[np.int64], sizes: NDArray[np.int32]
) -> Properties:
    """Return the property sections of all records.

    Where all are equally long, one step gathers them. Otherwise joining slices is a loop over
    messages: 0.1 us each, a quarter of what an index array of every byte costs, since that one is
    eight times as long as what it gathers.
    """
    topic_at = _topics_at(payload, starts)
    octets = np.frombuffer(payload, dtype=np.uint8)
    return _sections_behind(payload, topic_at + octets[topic_at], starts + sizes)


def _topics_at(payload: Buffer, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the length of each record's topic stands, right behind its body."""
    body_bytes = window(payload, ">i4")[starts + 84].astype(np.int64)
    found: NDArray[np.int64] = starts + body_bytes + layout.RECORD_HEADER_BYTES
    return found


def _sections_behind(
    payload: Buffer, topic_ends: NDArray[np.int64], stops: NDArray[np.int64]
) -> Properties:
    """Return the property sections of records of which the topic's last bytes are known."""
    at = topic_ends + 3
    lengths = stops - at
    width = int(lengths[0]) if len(lengths) else 0
    if (lengths == width).all():
        return Properties(_gathered(payload, at, width), lengths)
    view = memoryview(payload)
    spans = zip(at.tolist(), stops.tolist(), strict=True)
    data = b"".join([view[start:stop] for start, stop in spans])
    return Properties(np.frombuffer(data, dtype=np.uint8), lengths)


def _gathered(payload: Buffer, at: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return `width` bytes from each place, end to end."""
    if not width or not len(at):
        return np.empty(0, dtype=np.uint8)
    return window(payload, f"V{width}")[at].view(np.uint8)


def due_times(properties: Properties, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when records of the schedule topic are due, wall ms: int64[len(rows)].

    A loop over messages, where queues are built again: finding one number costs 0.5 us. Raises
    StoreDamaged for a record without one, which the engine never writes.
    """
    # Each section ends in 0x02, so the one before a name that comes first belongs to another.
    data = b"\x02" + properties.data.tobytes()
    ends = np.cumsum(properties.lengths)[rows] + 1
    spans = zip((ends - properties.lengths[rows] - 1).tolist(), ends.tolist(), strict=True)
    found = [_DUE.search(data, start, end) for start, end in spans]
    if not all(found):
        raise StoreDamaged("a record of the schedule topic does not say when it is due")
    return np.array([int(match[1]) for match in found if match is not None], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Separators:
    """Where 0x01 and 0x02 stand in the property sections, and to which record each belongs."""

    at: NDArray[np.int64]
    value: NDArray[np.uint8]
    record: NDArray[np.int64]
    item_start: NDArray[np.int64]
    """Where the text before each separator starts."""


def separators(properties: Properties) -> Separators:
    """Find every separator of the sections."""
    at = np.flatnonzero((properties.data == 1) | (properties.data == 2))
    ends = np.cumsum(properties.lengths)
    record = np.searchsorted(ends, at, side="right")
    section_start = (ends - properties.lengths)[record]
    previous = np.empty_like(at)
    previous[:1] = -1
    previous[1:] = at[:-1]
    return Separators(at, properties.data[at], record, np.maximum(previous + 1, section_start))


def tag_hashes(properties: Properties, found: Separators | None = None) -> NDArray[np.int64]:
    """Return the tag hash of each record: int64[n], 0 where there is no tag."""
    hashes = np.zeros(len(properties.lengths), dtype=np.int64)
    if b"TAGS\x01" not in properties.data.tobytes():
        return hashes
    marks = found or separators(properties)
    names = np.flatnonzero((marks.value == 1) & (marks.at - marks.item_start == 4))
    is_tags = (properties.data[marks.at[names][:, None] - np.arange(4, 0, -1)] == _TAGS).all(axis=1)
    names = names[is_tags]
    values_at = marks.at[names] + 1
    # A value ends at the next separator, or with the data where the last 0x02 is missing.
    stops = np.append(marks.at, len(properties.data))[names + 1]
    hashes[marks.record[names]] = _hash_texts(properties.data, values_at, stops - values_at)
    return hashes


def _hash_texts(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    longest = int(lengths.max(initial=0))
    texts = data[ragged_index(starts, lengths)]
    if longest > _COLUMN_TAG_BYTES_MAX or (texts >= 0x80).any():
        # Text outside ASCII is hashed by UTF-16 units; each different tag is hashed once.
        known: dict[bytes, int] = {}
        raw = data.tobytes()
        spans = zip(starts.tolist(), lengths.tolist(), strict=True)
        keys = [raw[start : start + length] for start, length in spans]
        for key in set(keys):
            known[key] = java_hash(key.decode("utf-8", "replace"))
        return np.array([known[key] for key in keys], dtype=np.int64)
    hashes = np.zeros(len(starts), dtype=np.uint32)
    last = len(data) - 1
    for column in range(longest):
        is_inside = lengths > column
        octets = data[np.minimum(starts + column, last)]
        hashes = np.where(is_inside, hashes * np.uint32(31) + octets, hashes)
    return hashes.view(np.int32).astype(np.int64)


@dataclass(frozen=True, slots=True)
class QueueRun:
    """The records of one queue inside a payload: `rows` int64[k] numbers them, ascending.

    `has_holes` says that their queue offsets do not count up one by one.
    """

    topic: str
    queue: int
    rows: NDArray[np.int64]
    first_queue_offset: int
    has_holes: bool


def queue_runs(payload: Buffer, starts: NDArray[np.int64]) -> list[QueueRun]:
    """Split a payload by topic and queue, in the order of first appearance."""
    topic_at = _topics_at(payload, starts)
    return _runs_of(payload, starts, topic_at)


def columns(
    payload: Buffer, starts: NDArray[np.int64], sizes: NDArray[np.int32]
) -> tuple[list[QueueRun], Properties]:
    """Return what `queue_runs` and `property_sections` return, looking at each record once."""
    topic_at = _topics_at(payload, starts)
    octets = np.frombuffer(payload, dtype=np.uint8)
    properties = _sections_behind(payload, topic_at + octets[topic_at], starts + sizes)
    return _runs_of(payload, starts, topic_at), properties


def _runs_of(
    payload: Buffer, starts: NDArray[np.int64], topic_at: NDArray[np.int64]
) -> list[QueueRun]:
    if not len(starts):
        return []
    queues = window(payload, ">i4")[starts + 12].astype(np.int64)
    offsets = window(payload, ">i8")[starts + 20]
    names, numbers = _topics(payload, topic_at)
    keys = queues if numbers is None else (numbers << 32) + queues
    if (keys == keys[0]).all():
        rows = np.arange(len(keys))
        return [_run(names[0], int(queues[0]), rows, offsets)]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.cumsum(np.bincount(inverse, minlength=len(first)))
    runs = []
    for row, rows in zip(first.tolist(), np.split(order, bounds[:-1]), strict=True):
        topic = names[0 if numbers is None else int(numbers[row])]
        runs.append(_run(topic, int(queues[row]), rows, offsets[rows]))
    runs.sort(key=lambda run: int(run.rows[0]))
    return runs


def _run(topic: str, queue: int, rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> QueueRun:
    first = int(offsets[0])
    has_holes = bool((offsets != np.arange(first, first + len(rows))).any())
    return QueueRun(topic, queue, rows, first, has_holes)


def _topics(
    payload: Buffer, topic_at: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64] | None]:
    """Return the topics, and of each record the number of its own; None where there is but one."""
    octets = np.frombuffer(payload, dtype=np.uint8)
    lengths = octets[topic_at]
    width = int(lengths[0])
    if (lengths == width).all():
        texts = _gathered(payload, topic_at + 1, width).reshape(len(topic_at), width)
        if (texts == texts[0]).all():
            return [texts[0].tobytes().decode()], None
    # A loop over messages, where topics alternate: 0.15 us each.
    known: dict[bytes, int] = {}
    view = memoryview(payload)
    spans = zip((topic_at + 1).tolist(), (topic_at + 1 + lengths).tolist(), strict=True)
    numbers = [known.setdefault(bytes(view[start:stop]), len(known)) for start, stop in spans]
    return [name.decode() for name in known], np.array(numbers, dtype=np.int64)
