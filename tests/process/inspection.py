"""Read a stopped store's files as docs/FORMAT.md describes them. Knows no product code.

Walks the whole log, proves each record and frame, and holds the consume queues and the key index
against what it found. What does not fit together is returned as text: judging is the affair of
`tests.histories.structure`.
"""

import hashlib
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.histories.events import Verb
from tests.histories.recorder import Recorder
from tests.process.indexinspection import Keyed, index_faults, keys_of

_HEADER = struct.Struct(">iiIiiqqiq8sq8siqi")
_FRAME = struct.Struct(">HHIqqq16sIIII")
_ENTRY = struct.Struct(">qiq")
_RECORD_MAGIC, _FILLER_MAGIC = -626843481, -875286124
_FRAME_TOPIC = "rmq_sys_frame"
# Its entries hold a due time where others hold the hash of a tag.
_LEVEL_TOPIC = "SCHEDULE_TOPIC_XXXX"
_NAME_BYTES_MAX, _KEPT_BYTES = 255, 180


class Record(NamedTuple):
    """One record of the log."""

    topic: str
    queue: int
    queue_offset: int
    log_offset: int
    size_bytes: int
    store_time_ms: int
    tag: str
    keys: tuple[str, ...]
    origin: tuple[str, str, int, int] | None
    """Group, topic, queue and offset of what this is another try of."""
    body: bytes


@dataclass
class Inspection:
    """What lies in a store, by topic and queue, and what is wrong with it."""

    records: dict[tuple[str, int], list[Record]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def inspect(store: Path) -> Inspection:
    """Read a store that was stopped in order, so that its derived files are complete."""
    found = Inspection()
    latest_ms = 0
    keyed = []
    for record in _records(store / "commitlog", found):
        if record.topic == _FRAME_TOPIC:
            continue
        keyed.append(Keyed(record.log_offset, record.store_time_ms, record.topic, record.keys))
        known = found.records[record.topic, record.queue]
        expected = known[-1].queue_offset + 1 if known else record.queue_offset
        if record.queue_offset != expected:
            found.faults.append(f"{record.topic}/{record.queue} goes on at {record.queue_offset}")
        if record.store_time_ms < latest_ms:
            found.faults.append(f"the store time falls at {record.log_offset}")
        latest_ms = record.store_time_ms
        known.append(record)
    for (topic, queue), records in found.records.items():
        _hold_queue(store / "consumequeue" / _safe(topic) / str(queue), records, found)
    found.faults += index_faults(store, keyed, _java_hash)
    return found


def note(
    recorder: Recorder,
    store: Path,
    topics: Collection[str],
    id_of: Callable[[bytes], str],
    digest_of: Callable[[bytes], str],
) -> None:
    """Inspect a stopped store and write down what was found of some topics."""
    inspecting = recorder.invoke(Verb.INSPECT, topics=sorted(topics))
    found = inspect(store)
    records = [
        [
            record.topic,
            record.queue,
            record.queue_offset,
            id_of(record.body),
            digest_of(record.body),
        ]
        for (topic, _), known in found.records.items()
        for record in known
        if topic in topics
    ]
    queues = [
        [topic, queue, found.records[topic, queue][0].queue_offset, end]
        for (topic, queue), end in found.ends.items()
        if topic in topics
    ]
    sent_back = sorted(
        {record.origin for known in found.records.values() for record in known if record.origin}
    )
    inspecting.ok(
        records=records,
        queues=queues,
        epochs=found.epochs,
        faults=found.faults,
        sent_back=sent_back,
    )


def _records(directory: Path, found: Inspection) -> Iterator[Record]:
    """Yield every record of every frame, the frames' headers included."""
    expected = None
    for path in sorted(directory.glob("[0-9]*")):
        base, data = int(path.name), path.read_bytes()
        if expected is not None and base != expected:
            found.faults.append(f"segment {path.name} does not follow the one before it")
        expected = base + len(data)
        position = 0
        while position + 8 <= len(data):
            size_bytes, magic = struct.unpack_from(">ii", data, position)
            if size_bytes == 0 or magic == _FILLER_MAGIC:
                break
            if magic != _RECORD_MAGIC:
                found.faults.append(f"no record at {base + position}")
                break
            record = _record(data, position, base, found)
            if record.topic == _FRAME_TOPIC:
                _prove_frame(data, position, record, found)
            yield record
            position += size_bytes


def _record(data: bytes, position: int, base: int, found: Inspection) -> Record:
    values = _HEADER.unpack_from(data, position)
    size_bytes, crc, queue, queue_offset, log_offset = *values[0:1], *values[2:4], *values[5:7]
    body_start = position + _HEADER.size
    body = data[body_start : body_start + values[14]]
    rest = body_start + len(body)
    topic = data[rest + 1 : rest + 1 + data[rest]].decode()
    properties = data[rest + 3 + data[rest] : position + size_bytes].decode()
    if log_offset != base + position:
        found.faults.append(f"the record at {base + position} says that it lies at {log_offset}")
    if zlib.crc32(body) & 0x7FFFFFFF != crc:
        found.faults.append(f"the body at {log_offset} does not have its checksum")
    tag = re.search("(?:^|\x02)TAGS\x01([^\x02]*)", properties)
    return Record(
        topic,
        queue,
        queue_offset,
        log_offset,
        size_bytes,
        values[10],
        tag[1] if tag else "",
        keys_of(properties),
        _origin(properties),
        body,
    )


def _origin(properties: str) -> tuple[str, str, int, int] | None:
    """Return what a copy that was sent back says of its first place, wherever it waits by now."""
    pairs = (pair.partition("\x01") for pair in properties.split("\x02"))
    values = {name: value for name, _, value in pairs}
    group = values.get("REAL_TOPIC", "").removeprefix("%RETRY%")
    if "ORIGIN_OFFSET" not in values or not group:
        return None
    return group, values["RETRY_TOPIC"], int(values["ORIGIN_QUEUE"]), int(values["ORIGIN_OFFSET"])


def _prove_frame(data: bytes, position: int, header: Record, found: Inspection) -> None:
    _, _, epoch, log_offset, _, _, _, count, payload_bytes, crc, _ = _FRAME.unpack_from(header.body)
    sizes = struct.unpack_from(f">{count}i", header.body, _FRAME.size)
    start = position + header.size_bytes
    payload = data[start : start + payload_bytes]
    if log_offset != header.log_offset or sum(sizes) != payload_bytes:
        found.faults.append(f"the frame at {header.log_offset} is not of this place")
    if zlib.crc32(payload) != crc:
        found.faults.append(f"the frame at {header.log_offset} does not have its checksum")
    if not found.epochs or found.epochs[-1] != epoch:
        found.epochs.append(epoch)


def _hold_queue(directory: Path, records: list[Record], found: Inspection) -> None:
    """Hold a queue's entries against its records: each has its own, at its place.

    What lies behind them in a file counts as unwritten: a power cut may have taken back the records
    of entries that were flushed.
    """
    topic, queue = records[0].topic, records[0].queue
    entries: dict[int, tuple[int, int, int]] = {}
    for path in sorted(directory.glob("[0-9]*")):
        first = int(path.name) // _ENTRY.size
        data = path.read_bytes()
        whole = data[: len(data) - len(data) % _ENTRY.size]
        entries |= dict(enumerate(_ENTRY.iter_unpack(whole), first))
    for record in records:
        entry = entries.pop(record.queue_offset, None)
        if entry is None:
            found.faults.append(f"{topic}/{queue}@{record.queue_offset} has no entry")
            continue
        is_tagged = topic == _LEVEL_TOPIC or entry[2] == _java_hash(record.tag)
        if entry[:2] != (record.log_offset, record.size_bytes) or not is_tagged:
            found.faults.append(f"{topic}/{queue}@{record.queue_offset} has a wrong entry")
    found.ends[topic, queue] = records[-1].queue_offset + 1


def _safe(topic: str) -> str:
    escaped = re.sub(
        rb"[^A-Za-z0-9_-]", lambda match: b"%%%02X" % match[0][0], topic.encode()
    ).decode()
    if len(escaped) <= _NAME_BYTES_MAX:
        return escaped
    return f"{escaped[:_KEPT_BYTES]}~{hashlib.sha256(topic.encode()).hexdigest()}"


def _java_hash(tag: str) -> int:
    value = 0
    units = tag.encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
