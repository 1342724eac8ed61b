"""What a message's key is, and the row of a message that is kept for it. Knows records and hashes.

The key is the whole text of KEYS. Two keys are one where 128 bits of BLAKE2b are, keyed with the
store's id: nobody has two keys with one hash, and nobody can make them. A message without a key is
one of its own: it is kept for ever.
"""

import hashlib
import struct

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.checksum import crc32
from apps.engine.codec.ids import offset_id
from apps.engine.codec.layout import STAMP_OFFSETS, STAMP_STORE
from apps.engine.codec.properties import KEYS, UNIQ_KEY, decode_properties
from apps.engine.codec.record import decode_record
from apps.engine.codec.scan import property_sections, tag_hashes
from apps.engine.codec.windows import window
from apps.engine.derived.compacted.layout import MANY_KEYS, ROW, TOMBSTONE, Rows
from apps.engine.types import MessageBlock

_WORDS = struct.Struct(">QQ")
_QUEUE_OFFSET_AT = STAMP_OFFSETS.start
_STORE_TIME_AT = STAMP_STORE.start
# Where a record keeps the length of its body.
_BODY_BYTES_AT = 84


class Hasher:
    """Hashes of keys and ids in one store."""

    def __init__(self, store_id: str) -> None:
        """Bind to a store's id, hex."""
        self._secret = bytes.fromhex(store_id)

    def key(self, text: str) -> tuple[int, int]:
        """Return the two words of a key's hash."""
        return _WORDS.unpack(self._digest(text.encode("utf-8", "surrogatepass"), b"key"))

    def keyless(self, queue_offset: int) -> tuple[int, int]:
        """Return the two words of a message that has no key: no other message has them."""
        return _WORDS.unpack(self._digest(b"%d" % queue_offset, b"keyless"))

    def message_id(self, text: str) -> int:
        """Return the hash of a message's id."""
        words: tuple[int, int] = _WORDS.unpack(
            self._digest(text.encode("utf-8", "surrogatepass"), b"id")
        )
        return words[0]

    def _digest(self, data: bytes, person: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=16, key=self._secret, person=person).digest()


def rows_of(block: MessageBlock, hasher: Hasher) -> Rows:
    """Return the rows of messages as they were read from the log.

    A loop over messages: hashes and checksums have no array form. 20 us each for 1 KiB.
    """
    payload, sizes = block.payload, block.sizes
    starts = starts_of(sizes)
    ints, longs = window(payload, ">i4"), window(payload, ">i8")
    rows = np.zeros(len(starts), dtype=ROW)
    rows["queue_offset"] = offsets = longs[starts + _QUEUE_OFFSET_AT]
    rows["log_offset"] = longs[starts + _QUEUE_OFFSET_AT + 8]
    rows["store_time_ms"] = longs[starts + _STORE_TIME_AT]
    rows["size_bytes"] = sizes
    sections = property_sections(payload, starts, sizes)
    rows["tag_hash"] = tag_hashes(sections)
    data, at = sections.data.tobytes(), 0
    keys, ids, crcs, flags = [], [], [], []
    view = memoryview(payload)
    columns = zip(
        starts.tolist(), sizes.tolist(), sections.lengths.tolist(), offsets.tolist(), strict=True
    )
    for start, size, length, queue_offset in columns:
        properties = decode_properties(data[at : at + length])
        at += length
        text = properties.get(KEYS, "")
        keys.append(hasher.key(text) if text.strip() else hasher.keyless(queue_offset))
        ids.append(hasher.message_id(properties.get(UNIQ_KEY) or _offset_id(view, start)))
        crcs.append(crc32(view[start : start + size]))
        flags.append(MANY_KEYS if " " in text else 0)
    rows["key_high"], rows["key_low"] = np.array(keys, dtype=np.uint64).reshape(-1, 2).T
    rows["id_hash"] = np.array(ids, dtype=np.uint64)
    rows["crc"] = crcs
    rows["flags"] = np.array(flags) | np.where(ints[starts + _BODY_BYTES_AT] == 0, TOMBSTONE, 0)
    return rows


def _offset_id(view: memoryview, start: int) -> str:
    """Return the id of a message that was given none."""
    record = decode_record(view, start)
    return offset_id(record.store_host, record.log_offset)


def newest(rows: Rows) -> Rows:
    """Return the last of each key, ascending by queue offset."""
    order = np.lexsort((rows["key_low"].astype(np.uint64), rows["key_high"].astype(np.uint64)))
    high, low = rows["key_high"][order], rows["key_low"][order]
    # The sort is stable: of one key the newest is the last.
    is_last = np.ones(len(rows), dtype=bool)
    is_last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return rows[np.sort(order[is_last])]


class Keys:
    """A set of keys to be looked up by the thousand: 16 bytes each."""

    def __init__(self, rows: Rows) -> None:
        """Take the keys of rows."""
        high = rows["key_high"].astype(np.uint64)
        low = rows["key_low"].astype(np.uint64)
        order = np.lexsort((low, high))
        self._high, self._low = high[order], low[order]

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """Say of each row whether its key is in the set."""
        high = rows["key_high"].astype(np.uint64)
        low = rows["key_low"].astype(np.uint64)
        first = np.searchsorted(self._high, high, side="left")
        stop = np.searchsorted(self._high, high, side="right")
        found = np.zeros(len(rows), dtype=bool)
        at = np.minimum(first, max(len(self._high) - 1, 0))
        is_one = stop - first == 1
        if is_one.any():
            found[is_one] = self._low[at[is_one]] == low[is_one]
        for number in np.flatnonzero(stop - first > 1).tolist():  # One word alike, by chance.
            found[number] = low[number] in self._low[first[number] : stop[number]]
        return found
