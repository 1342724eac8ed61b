"""What the fake broker reads and writes: records, batches, answers. Uses `struct` alone."""

import json
import struct
import zlib
from typing import Any

RECORDS = "application/vnd.mqweb.records"


def make_record(topic: str, queue: int, body: bytes, properties: bytes = b"") -> bytes:
    name = topic.encode()
    size_bytes = 88 + len(body) + 1 + len(name) + 2 + len(properties)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    return (
        struct.pack(">iIiiiqqiq", size_bytes, 0xDAA320A7, crc, queue, 0, 0, 0, 0, 7)
        + bytes(8) + bytes(8) + bytes(8) + struct.pack(">iqi", 0, 0, len(body)) + body
        + bytes((len(name),)) + name + struct.pack(">h", len(properties)) + properties
    )  # fmt: skip


def body_of(record: bytes) -> bytes:
    (length,) = struct.unpack_from(">i", record, 84)
    return record[88 : 88 + length]


def properties_of(record: bytes) -> dict[str, str]:
    (length,) = struct.unpack_from(">i", record, 84)
    section = record[88 + length + 1 + record[88 + length] + 2 :].decode()
    return dict(item.split("\x01") for item in section.split("\x02") if item)


def matches(record: bytes, wanted: str) -> bool:
    """Compare tags as a broker whose hash of `AaAa` and `BBBB` is the same, as Java's is."""
    if wanted == "*":
        return True
    tag = properties_of(record).get("TAGS")
    return {"BBBB": "AaAa"}.get(tag or "", tag) in [part.strip() for part in wanted.split("||")]


def tags_in(asked: dict[str, Any]) -> str:
    """Return the tags a request wants; this broker reads no SQL, and passes everything then."""
    return "*" if asked.get("filter_type") == "SQL92" else str(asked.get("filter", "*"))


def make_batch(records: list[bytes]) -> bytes:
    payload = b"".join(records)
    rest = struct.pack(f">{len(records)}i", *map(len, records)) + payload
    return struct.pack(">4sIII", b"MQB1", len(records), len(payload), zlib.crc32(rest)) + rest


def split_batch(data: bytes) -> list[bytes]:
    magic, count, payload_bytes, checksum = struct.unpack_from(">4sIII", data)
    assert magic == b"MQB1"
    assert zlib.crc32(data[16:]) == checksum
    sizes = struct.unpack_from(f">{count}i", data, 16)
    position = 16 + 4 * count
    assert position + payload_bytes == len(data)
    records = []
    for size in sizes:
        records.append(data[position : position + size])
        position += size
    assert position == len(data)
    return records


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def answer(
    status: int, media_type: str, body: bytes, headers: dict[str, str] | None = None
) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {media_type}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def reply(status: int, document: Any) -> bytes:
    if document is None:
        return f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode()
    return answer(status, "application/json", json.dumps(document).encode())


def refusal(
    status: int, code: str, retriable: bool, headers: dict[str, str] | None = None
) -> bytes:
    document = {
        "type": f"/problems/{code}", "title": code, "status": status, "detail": f"detail of {code}",
        "code": code, "retriable": retriable, "request_id": "r-1", "errors": [],
    }  # fmt: skip
    return answer(status, "application/problem+json", json.dumps(document).encode(), headers)
