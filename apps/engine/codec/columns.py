"""Columns of many records for readers who want arrays: fixed fields, bodies, values of properties.

Knows bytes and arrays only. The lengths inside the records must have been checked before, as by a
frame's checksum. A text is told by where it lies: whoever makes values of it copies it once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.scan import Properties, separators
from apps.engine.codec.windows import Buffer, window

_SEPARATES_NAME = 1
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """A text of each of n records inside a buffer: int64[n] each, starts ascending.

    Where a record has none its length is -1.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """All properties of n records: `counts` int64[n], and name and value of each, end to end."""

    counts: NDArray[np.int64]
    names: Spans
    values: Spans


def fixed_fields(payload: Buffer, starts: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the fixed part of each record, a copy end to end: RECORD_HEADER[n].

    One gather of plain bytes costs as much as that of one field, 20 ns a record; of a structured
    type it would cost ten times as much.
    """
    width = layout.RECORD_HEADER_BYTES
    length = max(len(payload) - width + 1, 0)
    if not length:
        return np.empty(0, dtype=layout.RECORD_HEADER)
    raw = np.ndarray((length,), dtype=f"V{width}", buffer=payload, strides=(1,))
    return raw[starts].view(layout.RECORD_HEADER)


def native(field: NDArray[Any]) -> NDArray[np.int64]:
    """Return a field of a fixed part in the machine's own order: int64[n].

    A host is its eight bytes as one number.
    """
    if field.ndim == 2:
        field = np.ascontiguousarray(field).view(">i8").ravel()
    return field.astype(np.int64)


def body_spans(fixed: NDArray[np.void], starts: NDArray[np.int64]) -> Spans:
    """Return where the bodies lie in the payload; `fixed` is what `fixed_fields` returned."""
    return Spans(starts + layout.RECORD_HEADER_BYTES, native(fixed["body_bytes"]))


def property_spans(
    payload: Buffer,
    fixed: NDArray[np.void],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int32],
) -> Spans:
    """Return where the property sections lie in the payload."""
    octets = np.frombuffer(payload, dtype=np.uint8)
    topic_at = starts + layout.RECORD_HEADER_BYTES + fixed["body_bytes"]
    at = topic_at + 1 + octets[topic_at] + 2
    return Spans(at, starts + sizes - at)


def is_of(
    payload: Buffer, fixed: NDArray[np.void], starts: NDArray[np.int64], *, topic: str, queue: int
) -> NDArray[np.bool_]:
    """Say of each record whether it is one of a queue: bool[n]."""
    name = np.frombuffer(topic.encode(), dtype=np.uint8)
    octets = np.frombuffer(payload, dtype=np.uint8)
    topic_at = starts + layout.RECORD_HEADER_BYTES + fixed["body_bytes"]
    found: NDArray[np.bool_] = fixed["queue"] == queue
    found &= octets[topic_at] == len(name)
    for place, octet in enumerate(name.tolist(), start=1):
        # A record ends no sooner than two bytes behind its topic; a shorter one is out already.
        found &= octets[np.minimum(topic_at + place, len(octets) - 1)] == octet
    return found


class PropertyColumns:
    """The properties of many records, found once in their sections end to end."""

    def __init__(self, sections: Properties) -> None:
        """Find every separator; the cost is an array operation over the bytes of the sections."""
        self._sections = sections
        marks = self._marks = separators(sections)
        self._ends = np.cumsum(sections.lengths)
        self._names = np.flatnonzero(marks.value == _SEPARATES_NAME)
        self._names_at = marks.item_start[self._names]
        self._lengths = marks.at[self._names] - self._names_at
        # The first eight bytes of each name as one number: most names differ in them.
        padded = np.concatenate((sections.data, np.zeros(_HEAD_BYTES, dtype=np.uint8)))
        self._heads = window(padded.data, ">u8")[self._names_at].astype(np.uint64)

    @property
    def data(self) -> NDArray[np.uint8]:
        """Return what spans count into."""
        return self._sections.data

    def values(self, name: str) -> Spans:
        """Return the value of one property in each record; the last where there are several."""
        chosen = self._named(name.encode())
        # Where a record has none, its start is its section's: starts then ascend all the same.
        starts = self._ends - self._sections.lengths
        lengths = np.full(len(starts), -1, dtype=np.int64)
        if len(chosen):
            rows = self._marks.record[chosen]
            starts[rows] = self._marks.at[chosen] + 1
            lengths[rows] = self._stops(chosen) - starts[rows]
        return Spans(starts, lengths)

    def _named(self, name: bytes) -> NDArray[np.int64]:
        """Return which separators end a name that is this one."""
        head = name[:_HEAD_BYTES]
        unused_bits = np.uint64(8 * (_HEAD_BYTES - len(head)))
        wanted = np.uint64(int.from_bytes(head, "big"))
        found = np.flatnonzero(
            (self._lengths == len(name)) & (self._heads >> unused_bits == wanted)
        )
        if len(name) > _HEAD_BYTES and len(found):
            rest = np.frombuffer(name[_HEAD_BYTES:], dtype=np.uint8)
            at = self._names_at[found, None] + np.arange(_HEAD_BYTES, len(name))
            found = found[(self.data[at] == rest).all(axis=1)]
        return self._names[found]

    def pairs(self) -> Pairs:
        """Return all properties of each record, in their order."""
        marks, chosen = self._marks, self._names
        values_at = marks.at[chosen] + 1
        return Pairs(
            np.bincount(marks.record[chosen], minlength=len(self._ends)),
            Spans(self._names_at, self._lengths),
            Spans(values_at, self._stops(chosen) - values_at),
        )

    def _stops(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where values end: at the next separator, or with the section without a last."""
        marks = self._marks
        stops = np.append(marks.at, len(self.data))[chosen + 1]
        found: NDArray[np.int64] = np.minimum(stops, self._ends[marks.record[chosen]])
        return found
