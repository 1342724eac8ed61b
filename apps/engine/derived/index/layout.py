"""Where what lies in an index file, and its numbers. Knows bytes and hashes only.

The layout is RocketMQ's: a header, hash slots, entries. docs/FORMAT.md draws it.
"""

from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.tags import java_hash

INDEX_HEADER = np.dtype(
    [
        ("begin_ms", ">i8"),
        ("end_ms", ">i8"),
        ("begin_offset", ">i8"),
        ("end_offset", ">i8"),
        ("used_slots", ">i4"),
        ("entry_count", ">i4"),
    ]
)
HEADER_BYTES = 40
INDEX_ENTRY = np.dtype(
    [("hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
ENTRY_BYTES = 20
SLOT = np.dtype(">i4")
SLOT_BYTES = 4
# What of the slots is written together: a page.
SLOTS_OF_PAGE = 1024

_SECONDS_MAX = 2**31 - 1
_SEPARATOR = "#"

assert INDEX_HEADER.itemsize == HEADER_BYTES
assert INDEX_ENTRY.itemsize == ENTRY_BYTES


def entry_position(slot_count: int, number: int) -> int:
    """Return the byte of entry `number`, whose counting starts with an unused entry 0."""
    return HEADER_BYTES + slot_count * SLOT_BYTES + number * ENTRY_BYTES


def slot_position(slot: int) -> int:
    """Return the byte of a slot."""
    return HEADER_BYTES + slot * SLOT_BYTES


def file_name(created_ms: int) -> str:
    """Return the name of a file made at a wall time: yyyyMMddHHmmssSSS, in UTC."""
    seconds, milliseconds = divmod(created_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y%m%d%H%M%S}{milliseconds:03d}"


@lru_cache(maxsize=4096)
def topic_hash(topic: str) -> int:
    """Return Java's hash of `topic#`, with which the hash of each of its keys begins."""
    return java_hash(topic + _SEPARATOR)


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic: `topic#key` by Java's hash, without its sign.

    Java's `abs` leaves the smallest integer negative; RocketMQ then uses 0.
    """
    value = abs(java_hash(f"{topic}{_SEPARATOR}{key}"))
    return 0 if value == 1 << 31 else value


def seconds_since(begin_ms: int, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how long after a file's first entry others were stored: whole seconds, int64[n]."""
    return np.clip((times_ms - begin_ms) // 1000, 0, _SECONDS_MAX)
