"""Read a stopped store's key index as docs/FORMAT.md describes it. Knows no product code.

Every key of every record has its entry, in the order of the log, and no entry is of anything else;
each chain of a file leads to all of its entries. What does not fit together is returned as text.
"""

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_SMALL_FILE = struct.Struct(">4sHHII")
_HEADER = struct.Struct(">qqqqii")
_ENTRY = struct.Struct(">iqii")
_SECONDS_MAX = (1 << 31) - 1
_HASH_MIN = -(1 << 31)


class Keyed(NamedTuple):
    """One record that has keys, its unique id before the others."""

    log_offset: int
    store_time_ms: int
    topic: str
    keys: tuple[str, ...]


class _Entry(NamedTuple):
    hash: int
    log_offset: int
    seconds: int
    before: int


class _File(NamedTuple):
    begin_ms: int
    entries: Sequence[_Entry]


def keys_of(properties: str) -> tuple[str, ...]:
    """Return the keys that the properties of a record name."""
    found = dict(part.partition("\x01")[::2] for part in properties.split("\x02") if part)
    words = [found.get("UNIQ_KEY", ""), *found.get("KEYS", "").split(" ")]
    return tuple(word for word in words if word)


def index_faults(
    store: Path, records: Sequence[Keyed], java_hash: Callable[[str], int]
) -> list[str]:
    """Return what does not fit; `records` is the whole log in its order."""
    checkpoint = store / "checkpoint" / "index"
    if not checkpoint.exists():
        return ["there is no checkpoint of the index"] if records else []
    content = json.loads(checkpoint.read_bytes()[_SMALL_FILE.size :])
    faults: list[str] = []
    files = [_file(store / "index", row, faults) for row in content["files"]]
    first = records[0].log_offset if records else content["dispatched_offset"]
    # What retention has deleted from the log may still have entries, which find nothing.
    found = [
        (file.begin_ms, entry)
        for file in files
        for entry in file.entries
        if entry.log_offset >= first
    ]
    wanted = list(_wanted(records, java_hash))
    for (begin_ms, entry), (record, key, hash_) in zip(found, wanted, strict=False):
        seconds = min(max(0, (record.store_time_ms - begin_ms) // 1_000), _SECONDS_MAX)
        if entry[:3] != (hash_, record.log_offset, seconds):
            faults.append(f"the entry of {record.topic}#{key} at {record.log_offset} is {entry}")
            return faults
    if len(found) != len(wanted):
        faults.append(f"the index has {len(found)} entries of {len(wanted)} keys")
    return faults


def _wanted(
    records: Sequence[Keyed], java_hash: Callable[[str], int]
) -> Iterator[tuple[Keyed, str, int]]:
    for record in records:
        for key in record.keys:
            value = java_hash(f"{record.topic}#{key}")
            yield record, key, 0 if value == _HASH_MIN else abs(value)


def _file(directory: Path, row: Sequence[object], faults: list[str]) -> _File:
    """Read one file, and prove its header and that its chains reach every entry once."""
    name, slots, _, count, used = (str(row[0]), *(int(str(one)) for one in row[1:5]))
    data = (directory / name).read_bytes()
    begin_ms, *_, slots_used, entry_count = _HEADER.unpack_from(data)
    if (slots_used, entry_count) != (used, count):
        faults.append(f"index {name} has a header of {slots_used} slots and {entry_count} entries")
    heads = struct.unpack_from(f">{slots}i", data, _HEADER.size)
    start = _HEADER.size + 4 * slots
    entries = [
        _Entry._make(_ENTRY.unpack_from(data, start + number * _ENTRY.size))
        for number in range(count)
    ]
    reached = 0
    for slot, head in enumerate(heads):
        number = head
        while number:
            entry = entries[number]
            if entry.hash % slots != slot or entry.before >= number:
                faults.append(f"index {name} has entry {number} in the chain of slot {slot}")
                break
            reached += 1
            number = entry.before
    if reached != count - 1:
        faults.append(f"the chains of index {name} reach {reached} of {count - 1} entries")
    return _File(begin_ms, entries[1:])
