"""The bytes of a file of kept messages, and where such files lie. Knows numbers only.

docs/FORMAT.md has the tables. A file is a header, blocks, an index of the blocks and a trailer; it
is written once, from front to back.
"""

import struct

import numpy as np
from numpy.typing import NDArray

from apps.engine.derived.names import safe_name

DIRECTORY = "compacted"
MAGIC = b"MQCP"
END_MAGIC = b"MQCE"
VERSION = 1
# Magic, version, zero, store id, generation.
HEADER = struct.Struct(">4sHH16sq")
# Magic, version, zero, generation, begin, stop, oldest tombstone's time, index's start, length and
# CRC-32, and the CRC-32 of all of that.
TRAILER = struct.Struct(">4sHHqqqqqIII")
# Queue and length of the topic's name, in front of the blocks' index.
PLACE = struct.Struct(">iBI")
BLOCK_ROWS_MAX = 512
BLOCK_BYTES_MAX = 1 << 20

# What a block keeps of each message in front of the records.
ROW = np.dtype(
    [
        ("queue_offset", ">i8"),
        ("log_offset", ">i8"),
        ("store_time_ms", ">i8"),
        ("tag_hash", ">i8"),
        ("id_hash", ">u8"),
        ("key_high", ">u8"),
        ("key_low", ">u8"),
        ("size_bytes", ">i4"),
        ("crc", ">u4"),
        ("flags", ">u4"),
    ]
)
# What the index keeps of a block; the first ones of offsets.
BLOCK = np.dtype(
    [
        ("start", ">i8"),
        ("queue_offset", ">i8"),
        ("log_offset", ">i8"),
        ("records_bytes", ">u4"),
        ("count", ">u4"),
        ("crc", ">u4"),
    ]
)

TOMBSTONE = 1
"""The body is empty: the key has no value any more."""
MANY_KEYS = 2
"""KEYS holds several; together they are the key, and a search may ask for each of them."""

Rows = NDArray[np.void]
"""ROW[n], ascending by queue offset."""

assert HEADER.size == 32
assert TRAILER.size == 60
assert PLACE.size == 9
assert ROW.itemsize == 68
assert BLOCK.itemsize == 36


def directory(topic: str, queue: int) -> str:
    """Return the directory of a queue's kept messages."""
    return f"{DIRECTORY}/{safe_name(topic)}/{queue}"


def part_path(topic: str, queue: int, generation: int) -> str:
    """Return the path of a generation's file."""
    return f"{directory(topic, queue)}/{generation:020d}"
