"""Read the keys of many records out of their property sections in one pass, and hash them.

Knows RocketMQ's KEYS and UNIQ_KEY, bytes and arrays. Loops over messages only where a key is no
ASCII or over 64 bytes: Java's hash goes by UTF-16 units then, at 0.1 us a character.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.tags import java_hash
from apps.engine.codec.windows import ragged_index

# One matrix row a key; longer keys are rare and would make all rows long.
_COLUMN_BYTES_MAX = 64
_PAD = bytes(_COLUMN_BYTES_MAX)
# Behind the last section there is room for the longest name and what ends it.
_END = b"\x02" * 9
_UNIQ_KEY = int.from_bytes(b"UNIQ_KEY", "big")
_KEYS = int.from_bytes(b"KEYS", "big")
_BLANK = 0x20


def _powers(count: int) -> NDArray[np.uint32]:
    powers = np.empty(count, dtype=np.uint32)
    value = 1
    for exponent in range(count):
        powers[exponent] = value
        value = value * 31 & 0xFFFFFFFF
    return powers


_POWERS = _powers(_COLUMN_BYTES_MAX + 1)
# Of the last byte of a matrix row first.
_WEIGHTS = np.ascontiguousarray(_POWERS[:_COLUMN_BYTES_MAX][::-1])


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of records in order, the unique id of a record before its other keys.

    `record` int64[n] says whose each is, and `hashes` int64[n] is RocketMQ's, without its sign.
    """

    record: NDArray[np.int64]
    hashes: NDArray[np.int64]


def has_keys(sections: bytes) -> bool:
    """Say whether property sections, end to end, may hold a key: one look, no parsing."""
    # The more frequent one first.
    return b"UNIQ_KEY\x01" in sections or b"KEYS\x01" in sections


def keys_of(sections: bytes, ends: NDArray[np.int64], seeds: NDArray[np.int64]) -> Keys:
    """Return the keys of records whose property sections lie end to end.

    `ends` int64[n] says where each section ends, `seeds` int64[n] is `topic_hash` of each record's
    topic. Every section that is not empty ends in 0x02.
    """
    # In front of a key there are as many bytes as a matrix row has, whatever key it is.
    data = np.frombuffer(_PAD + b"\x02" + sections + _END, dtype=np.uint8)
    skip = len(_PAD) + 1
    marks = np.flatnonzero(data == 2)
    starts, stops = marks[: -len(_END)] + 1, marks[1 : 1 - len(_END)]
    eights = np.ndarray((len(data) - 7,), dtype=">u8", buffer=data, strides=(1,))[starts]
    is_id = (eights == _UNIQ_KEY) & (data[starts + 8] == 1)
    is_keys = ((eights >> np.uint64(32)) == _KEYS) & (data[starts + 4] == 1)
    ids, lists = np.flatnonzero(is_id), np.flatnonzero(is_keys)
    first, last = starts[ids] + 9, stops[ids]
    if len(lists):
        list_first, list_last = _words(data, starts[lists] + 5, stops[lists])
        first, last = np.concatenate([first, list_first]), np.concatenate([last, list_last])
    kept = last > first
    first, last = first[kept], last[kept]
    record = np.searchsorted(ends, first - skip, side="right")
    if len(lists):
        # The ids come first in the sum, and stay in front of the other keys of their records.
        order = np.argsort(record, kind="stable")
        record, first, last = record[order], first[order], last[order]
    return Keys(record, _hashes(data, first, last, seeds[record]))


def _words(
    data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split texts at blanks: where each word starts and ends, empty ones too."""
    low, high = int(starts[0]), int(stops[-1])
    blanks = np.flatnonzero(data[low:high] == _BLANK) + low
    text = np.searchsorted(starts, blanks, side="right") - 1
    blanks = blanks[blanks < stops[text]]
    firsts = np.sort(np.concatenate([starts, blanks + 1]))
    return firsts, np.sort(np.concatenate([stops, blanks]))


def _hashes(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    seeds: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Hash `topic#key` of each key; its topic's part is known, so only the key is read."""
    lengths = stops - starts
    width = min(int(lengths.max(initial=0)), _COLUMN_BYTES_MAX)
    # Right-aligned, so that a column has the same power of 31 in every row.
    rows = np.ndarray((len(data) - width + 1, width), dtype=np.uint8, buffer=data, strides=(1, 1))[
        stops - width
    ]
    if len(lengths) and int(lengths.min()) < width:
        rows[np.arange(width) < (width - lengths)[:, None]] = 0
    values = rows.astype(np.uint32) @ _WEIGHTS[_COLUMN_BYTES_MAX - width :]
    values += seeds.astype(np.uint32) * _POWERS[np.minimum(lengths, _COLUMN_BYTES_MAX)]
    hashes = np.abs(values.view(np.int32).astype(np.int64))
    odd = (lengths > width) | (rows >= 0x80).any(axis=1)
    if odd.any():
        at = np.flatnonzero(odd)
        texts = data[ragged_index(starts[at], lengths[at])].tobytes()
        end = 0
        for row, length in zip(at.tolist(), lengths[at].tolist(), strict=True):
            text = texts[end : end + length].decode("utf-8", "replace")
            end += length
            hashes[row] = abs(_continued(int(seeds[row]), text))
    hashes[hashes == 1 << 31] = 0
    return hashes


def _continued(seed: int, text: str) -> int:
    """Return Java's hash of a text in front of which stands one whose hash is `seed`."""
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    value = (seed * pow(31, units, 1 << 32) + java_hash(text)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
