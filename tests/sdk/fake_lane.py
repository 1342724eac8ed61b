"""The lane as the fake broker speaks it: frames to requests of HTTP, and answers back.

Uses `struct` alone, as the rest of it.
"""

import asyncio
import struct
from typing import Protocol
from urllib.parse import quote

PROTOCOL = "mqweb-lane/1"
GRANTED = f"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()
_ACKS = ("", "&ack=sync", "&ack=async", "&ack=oneway")
_KINDS = {
    b"application/vnd.mqweb.records": 1, b"application/json": 2, b"application/problem+json": 3,
}  # fmt: skip


class Broker(Protocol):
    """What the lane needs of the broker."""

    answers_per_connection_max: int
    lane_requests: list[str]

    async def served(self, head: str, headers: dict[str, str], body: bytes) -> bytes | None: ...


async def carry(
    broker: Broker, asked: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Grant the lane and serve its frames; `asked` is the head that asked for it."""
    writer.write(GRANTED)
    _, _, more = asked.partition("\r\n")
    for _ in range(broker.answers_per_connection_max):
        start = await reader.readexactly(16)
        rest = await reader.readexactly(int.from_bytes(start[:4]) - 12)
        number, line, headers, body = request_of(start, rest)
        broker.lane_requests.append(line)
        answer = await broker.served(f"{line}\r\n{more}", headers, body)
        if answer is None:
            writer.transport.abort()
            return
        writer.write(frame_of(number, answer))
        await writer.drain()


def request_of(head: bytes, rest: bytes) -> tuple[int, str, dict[str, str], bytes]:
    """Return number, request line, headers and body of a frame, its head of 16 bytes apart."""
    _, number, verb, flags, name_bytes, queue = struct.unpack(">IIBBHI", head)
    assert verb == 1
    assert flags < 8
    topic = quote(rest[:name_bytes].decode(), safe="")
    line = f"POST /api/v1/topics/{topic}/messages?queue={queue}{_ACKS[flags & 3]} HTTP/1.1"
    accept = "application/json" if flags & 4 else "application/vnd.mqweb.records"
    return number, line, {"accept": accept}, rest[name_bytes:]


def frame_of(number: int, answer: bytes) -> bytes:
    """Return the frame of an HTTP answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines)}
    kind = _KINDS[headers[b"content-type"]] if body else 0
    wait_s = int(float(headers.get(b"retry-after", b"0")))
    return struct.pack(">IIHBB", 8 + len(body), number, int(first.split()[1]), kind, wait_s) + body
