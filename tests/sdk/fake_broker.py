"""A broker for the client's tests: real sockets, the contract's answers, scripted faults.

It reads and writes bytes by `struct` alone, so that a mistake of the client's codec is not
answered by the same mistake here. Knows nothing of the product.
"""

import asyncio
import json
import struct
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

RECORDS = "application/vnd.mqweb.records"


@dataclass
class Fault:
    """What happens to the requests whose line holds `match`, `times` times.

    reset_before: the connection breaks, nothing was done; reset_after: it was done;
    status: refused with that status; hold: nothing happens until `release`, then it is served;
    hold_reset: nothing happens until `release`, then the connection breaks, nothing was done.
    """

    match: str
    action: str
    times: int = 1
    status: int = 503
    code: str = "overloaded"
    retriable: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    fired_count: int = 0
    fired: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let held requests go on."""
        self.gate.set()


@dataclass
class Delivery:
    """Messages handed out under one token."""

    topic: str
    queue: int
    offsets: set[int]


class FakeBroker:
    """Topics, queues and groups in memory, served on a free port of this machine."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.minimum: dict[tuple[str, int], int] = defaultdict(int)
        self.committed: dict[tuple[str, str, int], int] = {}
        self.cursor: dict[tuple[str, str, int], int] = defaultdict(int)
        self.returned: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.deliveries: dict[str, Delivery] = {}
        self.settled: list[tuple[str, str, int, int]] = []
        self.expired_tokens: set[str] = set()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.heads: list[str] = []
        self.documents: list[tuple[str, Any]] = []
        self.under_way: Counter[str] = Counter()
        self.under_way_max: Counter[str] = Counter()
        self.answers_per_connection_max = 1_000_000_000
        self.port = 0
        self._changed: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fault(self, match: str, action: str, **more: Any) -> Fault:
        fault = Fault(match, action, **more)
        self.faults.append(fault)
        return fault

    def bodies(self, topic: str, queue: int) -> list[bytes]:
        return [body_of(record) for record in self.queues[topic, queue]]

    def put(self, topic: str, queue: int, *bodies: bytes, tag: str = "") -> None:
        """Store messages as if a producer had sent them."""
        for body in bodies:
            properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
            self._append(topic, queue, make_record(topic, queue, body, properties))
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    @contextmanager
    def running(self) -> Iterator["FakeBroker"]:
        is_up = threading.Event()
        stop: list[Any] = []
        thread = threading.Thread(target=lambda: asyncio.run(self._main(is_up, stop)))
        thread.start()
        assert is_up.wait(10)
        try:
            yield self
        finally:
            for fault in self.faults:
                fault.release()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(stop[0].set)
            thread.join(10)
            assert not thread.is_alive()

    async def _main(self, is_up: threading.Event, stop: list[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        stop.append(asyncio.Event())
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        is_up.set()
        await stop[0].wait()
        # A connection of the last moment takes some turns of the loop to be accepted, and one that
        # is accepted after the server closed is left open by asyncio.
        for _ in range(10):
            await asyncio.sleep(0)
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task that is cancelled before its first step closes nothing, so this is not one.
        self._writers.add(writer)
        task = asyncio.ensure_future(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer_count = 0
        try:
            while answer_count < self.answers_per_connection_max:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line
                )
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                answer = await self._served(head, headers, body)
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(answer)
                await writer.drain()
                answer_count += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _served(self, head: str, headers: dict[str, str], body: bytes) -> bytes | None:
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        line = f"{method} {target}"
        self.requests.append(line)
        self.heads.append(head)
        self.under_way[target] += 1
        self.under_way_max[target] = max(self.under_way_max[target], self.under_way[target])
        try:
            fault = self._fault_for(line)
            if fault is not None:
                fault.fired_count += 1
                fault.fired.set()
                if fault.action.startswith("hold"):
                    await asyncio.get_running_loop().run_in_executor(None, fault.gate.wait, 10)
                if fault.action in ("reset_before", "hold_reset"):
                    return None
                if fault.action == "status":
                    return refusal(fault.status, fault.code, fault.retriable, fault.headers)
            answer = await self._answer(method, target, headers, body)
            return None if fault is not None and fault.action == "reset_after" else answer
        finally:
            self.under_way[target] -= 1

    def _fault_for(self, line: str) -> Fault | None:
        for fault in self.faults:
            if fault.match in line and fault.fired_count < fault.times:
                return fault
        return None

    async def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        parts = [unquote(part) for part in split.path.removeprefix("/api/v1/").split("/")]
        if headers.get("content-type") == "application/json":
            document = json.loads(body)
            self.documents.append((parts[-1], document))
        else:
            document = {}
        match (method, *parts):
            case ("GET", "", "readyz"):
                return reply(200, {"status": "ready"})
            case ("PUT", "topics", topic):
                self.topics[topic] = document["queue_count"]
                return reply(201, self._describe(topic))
            case ("GET", "topics"):
                return reply(200, self._page([self._describe(name) for name in self.topics], query))
            case ("GET", "topics", topic) if topic in self.topics:
                return reply(200, self._describe(topic))
            case ("DELETE", "topics", topic) if topic in self.topics:
                del self.topics[topic]
                return reply(204, None)
            case ("POST", "topics", topic, "messages") if topic in self.topics:
                return self._send(topic, query, body)
            case ("GET", "topics", topic, "queues", queue, "messages") if topic in self.topics:
                return await self._pull(topic, int(queue), query)
            case ("POST", "groups", group, "messages:receive"):
                if all(topic in self.topics for topic in document["topics"]):
                    return await self._receive(group, document)
            case ("POST", "groups", group, verb) if verb.startswith("messages:"):
                return self._settle(group, verb.removeprefix("messages:"), document)
            case ("POST", "groups", group, "offsets:commit"):
                for item in document["offsets"]:
                    self.committed[group, item["topic"], item["queue"]] = int(item["offset"])
                return reply(204, None)
            case ("GET", "groups", group, "lag"):
                items = [
                    self._lag(*key)
                    for key in {*self.cursor, *self.committed}
                    if key[0] == group and key[1] in self.topics
                ]
                return reply(200, {"items": items})
            case ("GET", "groups", group, "offsets"):
                items = [
                    {"topic": topic, "queue": queue, "committed": str(offset), "delivered": None}
                    for (owner, topic, queue), offset in self.committed.items()
                    if owner == group
                ]
                return reply(200, self._page(items, query))
        return refusal(404, "unknown_topic", False)

    def _page(self, items: list[Any], query: dict[str, str]) -> dict[str, Any]:
        """Two items a page, so that every test of a list crosses a page's end."""
        start = int(query.get("cursor", "0"))
        more = str(start + 2) if start + 2 < len(items) else None
        return {"items": items[start : start + 2], "next_cursor": more, "sampled_at": None}

    def _describe(self, topic: str) -> dict[str, Any]:
        queues = [
            {
                "queue": queue,
                "min_offset": str(self.minimum[topic, queue]),
                "max_offset": str(len(self.queues[topic, queue])),
            }
            for queue in range(self.topics[topic])
        ]
        return {
            "topic": topic, "type": "MIXED", "queue_count": self.topics[topic], "perm": "RW",
            "queues": queues, "sampled_at": None,
        }  # fmt: skip

    def _lag(self, group: str, topic: str, queue: int) -> dict[str, Any]:
        key = group, topic, queue
        acked = {item[3] for item in self.settled if item[:3] == ("ack", topic, queue)}
        returned, cursor = len(self.returned[key]), self.cursor[key]
        ready = len(self.queues[topic, queue]) - cursor + returned
        out = cursor - returned - len(acked)
        return {
            "topic": topic, "queue": queue, "lag": str(ready + out), "in_flight": out,
            "ready": str(ready),
        }  # fmt: skip

    def _send(self, topic: str, query: dict[str, str], body: bytes) -> bytes:
        queue = int(query["queue"])
        if queue >= self.topics[topic]:
            return refusal(404, "unknown_queue", False)
        records = split_batch(body)
        first = len(self.queues[topic, queue])
        for record in records:
            if b"poison" in body_of(record):
                return refusal(413, "message_too_large", False)
        for record in records:
            assert struct.unpack_from(">i", record, 12)[0] == queue
            self._append(topic, queue, record)
        self._wake()
        if query.get("ack") == "oneway":
            return reply(202, None)
        return answer(201, RECORDS, struct.pack(">4sIqq", b"MQA1", len(records), first, 1_000))

    def _append(self, topic: str, queue: int, record: bytes) -> None:
        stored = self.queues[topic, queue]
        stamped = bytearray(record)
        stamped[20:28] = struct.pack(">q", len(stored))
        stamped[28:36] = struct.pack(">q", 4096 + len(stored))
        stamped[56:64] = struct.pack(">q", 1_000)
        stored.append(bytes(stamped))

    def _wake(self) -> None:
        assert self._changed is not None
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, seconds: float) -> bool:
        assert self._changed is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
            return True
        return False

    async def _pull(self, topic: str, queue: int, query: dict[str, str]) -> bytes:
        if queue >= self.topics[topic]:
            return refusal(404, "unknown_queue", False)
        stored, minimum = self.queues[topic, queue], self.minimum[topic, queue]
        start, limit = int(query["offset"]), int(query["max"])
        if start == len(stored) and int(query["wait_ms"]):
            await self._wait(int(query["wait_ms"]) / 1000)
        maximum = len(stored)
        status, chosen, following = 1, [], start
        if not minimum <= start <= maximum:
            status, following = 3, minimum if start < minimum else maximum
        elif start < maximum:
            wanted = query.get("filter", "*")
            part = stored[start : start + limit]
            chosen = [record for record in part if matches(record, wanted)]
            status, following = 0 if chosen else 2, start + len(part)
        head = struct.pack(">4sIqqq", b"MQP1", status, following, minimum, maximum)
        return answer(200, RECORDS, head + make_batch(chosen))

    async def _receive(self, group: str, document: dict[str, Any]) -> bytes:
        leases = self._hand_out(group, document)
        wait_s = document["wait_ms"] / 1000
        while not leases and wait_s and await self._wait(wait_s):
            leases = self._hand_out(group, document)
        return answer(
            200, RECORDS, struct.pack(">4sII", b"MQR1", len(leases), 0) + b"".join(leases)
        )

    def _hand_out(self, group: str, document: dict[str, Any]) -> list[bytes]:
        leases, left = [], document["max"]
        for topic in document["topics"]:
            queues = range(self.topics.get(topic, 0))
            for queue in reversed(queues) if document["high_queue_first"] else queues:
                key = group, topic, queue
                stored = self.queues[topic, queue]
                back = sorted(self.returned[key])[:left]
                attempt = 2 if back else 1
                fresh = range(self.cursor[key], min(self.cursor[key] + left, len(stored)))
                offsets = back or [
                    offset for offset in fresh if matches(stored[offset], document["filter"])
                ]
                self.returned[key] -= set(back)
                if not back:
                    self.cursor[key] = max(self.cursor[key], fresh.stop)
                if offsets:
                    left -= len(offsets)
                    token = self._token(topic, queue, set(offsets))
                    leases.append(
                        text(token) + text(topic) + struct.pack(">IIq", queue, attempt, 99_000)
                        + make_batch([stored[offset] for offset in offsets])
                    )  # fmt: skip
                if not left:
                    return leases
        return leases

    def _token(self, topic: str, queue: int, offsets: set[int]) -> str:
        token = f"{len(self.deliveries):x}-00000000"
        self.deliveries[token] = Delivery(topic, queue, offsets)
        return token

    def _settle(self, group: str, verb: str, document: dict[str, Any]) -> bytes:
        results = []
        for index, handle in enumerate(document["receipt_handles"]):
            token, _, run = handle.rpartition(":")
            first, _, last = run.partition("-")
            delivery = self.deliveries.get(token)
            named = set(range(int(first), int(last or first) + 1))
            item: dict[str, Any] = {"index": index, "status": "ok"}
            if delivery is None or not named & delivery.offsets:
                item["status"] = "invalid"
            elif token in self.expired_tokens:
                item["status"] = "expired"
            else:
                chosen = named & delivery.offsets
                if verb == "nack":
                    self.returned[group, delivery.topic, delivery.queue] |= chosen
                    self._wake()
                elif verb == "extend":
                    delivery.offsets -= chosen
                    item["receipt_handle"] = (
                        f"{self._token(delivery.topic, delivery.queue, chosen)}:{run}"
                    )
                for offset in sorted(chosen):
                    self.settled.append((verb, delivery.topic, delivery.queue, offset))
            results.append(item)
        is_all_ok = all(item["status"] == "ok" for item in results)
        return reply(200 if is_all_ok else 207, {"results": results})


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
