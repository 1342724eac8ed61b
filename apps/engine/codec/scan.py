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


@dataclass(frozen=True, slots=True)
class Properties:
    """The property sections of n records end to end: `data` uint8[sum], `lengths` int64[n]."""

    data: NDArray[np.uint8]
    lengths: NDArray[np.int64]


def property_sections(
    payload: Buffer, starts: NDArray[np.int64], sizes: NDArray[np.int32]
) -> Properties:
    """Return the property sections of all records.

    Joining slices is a loop over messages: 0.1 us each, a quarter of what an index array of every
    byte costs, since that one is eight times as long as what it gathers.
    """
    body_bytes = window(payload, ">i4")[starts + 84].astype(np.int64)
    topic_at = starts + layout.RECORD_HEADER_BYTES + body_bytes
    octets = np.frombuffer(payload, dtype=np.uint8)
    at = topic_at + 1 + octets[topic_at] + 2
    stops = starts + sizes
    view = memoryview(payload)
    spans = zip(at.tolist(), stops.tolist(), strict=True)
    data = b"".join([view[start:stop] for start, stop in spans])
    return Properties(np.frombuffer(data, dtype=np.uint8), stops - at)


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
    """The records of one queue inside a payload: `rows` int64[k] numbers them, ascending."""

    topic: str
    queue: int
    rows: NDArray[np.int64]
    first_queue_offset: int


def queue_runs(payload: Buffer, starts: NDArray[np.int64]) -> list[QueueRun]:
    """Split a payload by topic and queue, in the order of first appearance."""
    ints = window(payload, ">i4")
    queues = ints[starts + 12].astype(np.int64)
    body_bytes = ints[starts + 84].astype(np.int64)
    octets = np.frombuffer(payload, dtype=np.uint8)
    topic_at = starts + layout.RECORD_HEADER_BYTES + body_bytes
    lengths = octets[topic_at].astype(np.int64)
    # One matrix row a record: queue, topic length, topic padded with zeros.
    width = int(lengths.max(initial=0))
    columns = np.arange(width)
    inside = columns < lengths[:, None]
    topics = np.where(
        inside, octets[np.minimum(topic_at[:, None] + 1 + columns, len(octets) - 1)], 0
    ).astype(np.uint8)
    keys = np.concatenate([queues.astype(">i4").view(np.uint8).reshape(-1, 4), topics], axis=1)
    keys = np.ascontiguousarray(keys)
    packed = keys.view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.cumsum(np.bincount(inverse, minlength=len(first)))
    offsets = window(payload, ">i8")[starts + 20]
    runs = []
    for group, rows in enumerate(np.split(order, bounds[:-1])):
        row = int(first[group])
        topic = topics[row, : int(lengths[row])].tobytes().decode()
        runs.append(QueueRun(topic, int(queues[row]), rows, int(offsets[rows[0]])))
    runs.sort(key=lambda run: int(run.rows[0]))
    return runs
