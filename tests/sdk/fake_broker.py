"""A broker for the client's tests: the contract's answers from memory.

It reads and writes bytes by `struct` alone, so that a mistake of the client's codec is not
answered by the same mistake here. Knows nothing of the product.
"""

import asyncio
import json
import struct
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.sdk.fake_bytes import (
    RECORDS,
    answer,
    body_of,
    make_batch,
    make_record,
    matches,
    properties_of,
    refusal,
    reply,
    split_batch,
    tags_in,
    text,
)
from tests.sdk.fake_failures import Failures
from tests.sdk.fake_faults import Fault
from tests.sdk.fake_groups import Delivery, new_groups
from tests.sdk.fake_later import Later
from tests.sdk.fake_serving import Serving

__all__ = [
    "FakeBroker", "Fault", "body_of", "make_batch", "make_record", "properties_of", "split_batch",
    "text",
]  # fmt: skip


class FakeBroker(Serving):
    """Topics, queues and groups in memory, served on a free port of this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, int] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.searches: list[tuple[str, dict[str, str]]] = []
        self.found: dict[str, object] = {"items": [], "truncated": False, "scan_incomplete": False}
        self.groups = new_groups()
        self.write_queue_counts: dict[str, int] = {}
        self.queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.minimum: dict[tuple[str, int], int] = defaultdict(int)
        self.later = Later(self._append)
        self.failures = Failures(self.queues, self._append)
        self.group_settings: dict[str, dict[str, Any]] = {}
        self.dead_letters: list[dict[str, Any]] = []
        self.lites: list[dict[str, Any]] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self.cursor: dict[tuple[str, str, int], int] = defaultdict(int)
        self.returned: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.deliveries: dict[str, Delivery] = {}
        self.handed_out: Counter[tuple[str, str, int, int]] = Counter()
        self.settled: list[tuple[str, str, int, int]] = []
        self.expired_tokens: set[str] = set()
        self.documents: list[tuple[str, Any]] = []

    @property
    def progress(self) -> dict[tuple[str, str, int], int]:
        """Return how far groups are in topics of their own choice."""
        return {key: at for key, at in self.committed.items() if not key[1].startswith("%")}

    def bodies(self, topic: str, queue: int) -> list[bytes]:
        return [body_of(record) for record in self.queues[topic, queue]]

    def put(self, topic: str, queue: int, *bodies: bytes, tag: str = "") -> None:
        """Store messages as if a producer had sent them."""
        for body in bodies:
            properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
            self._append(topic, queue, make_record(topic, queue, body, properties))
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    async def answered(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        parts = [unquote(part) for part in split.path.removeprefix("/api/v1/").split("/")]
        document = {}
        if headers.get("content-type") == "application/json":
            document = json.loads(body)
            self.documents.append((parts[-1], document))
        match (method, *parts):
            case ("GET", "", "readyz"):
                return reply(200, {"status": "ready"})
            case ("PUT", "topics", topic):
                self.topics[topic] = document.get("queue_count", self.topics.get(topic, 4))
                self.settings.setdefault(topic, {}).update(document)
                return reply(201, self._describe(topic))
            case ("GET", "topics"):
                names = [name for name in self.topics if not name.startswith("%")]
                return reply(200, self._page([self._describe(name) for name in names], query))
            case ("GET", "topics", topic, "lite-topics") if topic in self.topics:
                return reply(200, self._page(self._lites(topic), query))
            case ("GET", "topics", topic) if topic in self.topics:
                return reply(200, self._describe(topic))
            case ("DELETE", "topics", topic) if topic in self.topics:
                del self.topics[topic]
                return reply(204, None)
            case ("POST", "topics", topic, "messages") if topic in self.topics:
                return self._send(topic, query, body, headers["accept"])
            case ("GET", "topics", topic, "messages") if topic in self.topics:
                self.searches.append((topic, query))
                return reply(200, self.found)
            case ("POST", "topics", topic, "transactions") if topic in self.topics:
                return self.later.begin(topic, document)
            case ("POST", "transactions", what):
                answer_bytes = self.later.end(*what.split(":"))
                self._wake()
                return answer_bytes
            case ("POST", "producer-groups", group, "checks:receive"):
                return await self._receive_checks(group, document)
            case ("DELETE", "delayed", handle):
                return self.later.recall(handle)
            case ("POST", "delayed", what):
                return self.later.deliver_now(what.removesuffix(":deliver-now"))
            case ("POST", "groups", group, "messages:send-back"):
                answer_bytes = self.failures.send_back(group, document)
                self._wake()
                return answer_bytes
            case ("PUT", "groups", group):
                self.group_settings.setdefault(group, {}).update(document)
                return reply(200, document)
            case ("GET", "groups", _, "dead-letters"):
                return reply(200, self._page(self.dead_letters, query))
            case ("POST", "groups", _, "dead-letters:resend"):
                return reply(202, {"id": "job-1", **document})
            case ("GET", "topics", topic, "queues", queue, "messages") if topic in self.topics:
                return await self._pull(topic, int(queue), query)
            case ("POST", "groups", group, "messages:receive"):
                if all(topic in self.topics for topic in document["topics"]):
                    return await self._receive(group, document)
            case ("POST", "groups", group, verb) if verb.startswith("messages:"):
                return self._settle(group, verb.removeprefix("messages:"), document)
            case ("POST", "groups", _, *rest) if self.failures.care and rest:
                return reply(*self.failures.care.pop(0))
            case ("POST", "groups", group, "offsets:commit"):
                return self._commit(group, document)
            case ("POST", "groups", group, "offsets:begin"):
                return reply(
                    200,
                    {
                        "offsets": [
                            self._begin(group, document, item) for item in document["queues"]
                        ]
                    },
                )
            case ("POST", "groups", group, "members", verb):
                client, _, what = verb.rpartition(":")
                if what == "heartbeat":
                    return await self._heartbeat(group, client, document)
                self.groups[group].leave(client)
                self.share_out(group)
                return reply(204, None)
            case ("POST", "groups", group, "locks:acquire"):
                answer_ = self.groups[group].acquire(document["client_id"], document["queues"])
                return reply(200, answer_)
            case ("POST", "groups", group, "locks:release"):
                answer_ = self.groups[group].release(document["client_id"], document["queues"])
                return reply(200, answer_)
            case ("GET", "topics", topic, "queues", queue, "offset") if topic in self.topics:
                offset = self._offset_at(topic, int(queue), int(query["time"]))
                return reply(200, {"topic": topic, "queue": int(queue), "offset": str(offset)})
            case ("GET", "groups"):
                return reply(200, self._page([{"group": name} for name in self.groups], query))
            case ("GET", "groups", group) if group in self.groups:
                return reply(200, self._describe_group(group))
            case ("GET", "groups", group, "lag"):
                items = [
                    self._lag(*key)
                    for key in {*self.cursor, *self.committed}
                    if key[0] == group and key[1] in self.topics
                ]
                return reply(200, self._backlog(items))
            case ("GET", "groups", group, "offsets"):
                items = [
                    {"topic": topic, "queue": queue, "committed": str(offset), "delivered": None}
                    for (owner, topic, queue), offset in self.committed.items()
                    if owner == group
                ]
                return reply(200, self._page(items, query))
        return refusal(404, "unknown_topic", False)

    def share_out(self, group: str) -> None:
        """Assign the group's queues again, and answer parked heartbeats where that changes it."""
        if self.groups[group].share_out(self.topics):
            self._wake()

    def assign(self, group: str, assignment: dict[str, dict[str, list[int]]]) -> None:
        """Assign by hand from here on: queues by topic by client."""
        self.groups[group].fixed = assignment
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.share_out, group)

    def wake(self) -> None:
        """Have everything that waits look again."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._wake)

    async def _heartbeat(self, group: str, client: str, document: dict[str, Any]) -> bytes:
        wanted = [item["topic"] for item in document["subscriptions"]]
        for topic in wanted:
            # Every group has its retry topic.
            if topic == f"%RETRY%{group}":
                self.topics.setdefault(topic, 1)
        if not all(topic in self.topics for topic in wanted):
            return refusal(404, "unknown_topic", False)
        mine = self.groups[group]
        if mine.is_late(client, document):
            answered = {"generation": mine.generation, "assignment": {}, "heartbeat_ms": 10_000}
            return reply(200, answered)
        mine.join(client, document)
        self.share_out(group)
        wait_s = document["wait_ms"] / 1000
        while document["generation"] == mine.generation and wait_s and await self._wait(wait_s):
            pass
        answered = {
            "generation": mine.generation, "assignment": mine.assignment.get(client, {}),
            "heartbeat_ms": 10_000,
        }  # fmt: skip
        return reply(200, answered)

    async def _receive_checks(self, group: str, document: dict[str, Any]) -> bytes:
        checks = self.later.take_checks(group)
        wait_s = document["wait_ms"] / 1000
        while not checks and wait_s and await self._wait(wait_s):
            checks = self.later.take_checks(group)
        return reply(200, {"checks": checks})

    def check(self, group: str, *transactions: str) -> None:
        """Have the producers of a group asked about transactions."""
        self.later.due_checks[group] += transactions
        self.wake()

    def _commit(self, group: str, document: dict[str, Any]) -> bytes:
        client = document.get("client_id", "")
        for item in document["offsets"]:
            code = self.groups[group].refusal_of(
                item["topic"], item["queue"], client=client, epoch=item.get("epoch"),
                generation=document.get("generation"), is_read=False,
            )  # fmt: skip
            if code is not None:
                return refusal(409, code, False)
        for item in document["offsets"]:
            key = group, item["topic"], item["queue"]
            if not client or int(item["offset"]) > self.committed.get(key, 0):
                self.committed[key] = int(item["offset"])
        return reply(204, None)

    def _begin(self, group: str, document: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
        key = group, item["topic"], item["queue"]
        is_new = key not in self.committed
        if is_new:
            place = key[1], key[2]
            self.committed[key] = {
                "last": len(self.queues[place]), "first": self.minimum[place],
                "timestamp": self._offset_at(*place, document.get("consume_from_time", 0)),
            }[document.get("consume_from", "first")]  # fmt: skip
        return {**item, "offset": str(self.committed[key]), "is_new": is_new}

    def _offset_at(self, topic: str, queue: int, time_ms: int) -> int:
        # Every message of this broker was stored at 1,000 ms.
        return self.minimum[topic, queue] if time_ms <= 1_000 else len(self.queues[topic, queue])

    def _describe_group(self, group: str) -> dict[str, Any]:
        mine = self.groups[group]
        members = [
            {"client_id": client, "subscriptions": member.document["subscriptions"]}
            for client, member in sorted(mine.members.items())
        ]
        return {
            "group": group, "generation": mine.generation, "members": members,
            "assignment": mine.assignment,
        }  # fmt: skip

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
            "write_queue_count": self._write_queue_count(topic), "queues": queues,
            "sampled_at": None, **self.settings.get(topic, {}),
        }  # fmt: skip

    def _lites(self, parent: str) -> list[dict[str, Any]]:
        """Describe what is named as lite topics of the parent are, and holds something."""
        prefix = f"%LITE%{parent}|"
        return [
            {
                "name": topic.removeprefix(prefix), "topic": topic, "subscribers": 0,
                "min_offset": str(self.minimum[topic, 0]),
                "max_offset": str(len(self.queues[topic, 0])), "newest_at": None,
            }
            for topic in sorted(self.topics)
            if topic.startswith(prefix) and self.queues[topic, 0]
        ]  # fmt: skip

    def _write_queue_count(self, topic: str) -> int:
        return self.write_queue_counts.get(topic, self.topics[topic])

    def _backlog(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a group's backlog, with what a test says of lite topics."""
        in_lites = [row["lag"] for row in self.lites]
        lite_lag = None if None in in_lites else sum(map(int, in_lites))
        lag = sum(int(row["lag"]) for row in items)
        total = {
            "lag": None if lite_lag is None else str(lag + lite_lag), "retry_lag": "0",
            "lite_lag": None if lite_lag is None else str(lite_lag), "oldest_age_ms": None,
        }  # fmt: skip
        return {"items": items, "lites": self.lites, "total": total}

    def _lag(self, group: str, topic: str, queue: int) -> dict[str, Any]:
        key = group, topic, queue
        acked = {item[3] for item in self.settled if item[:3] == ("ack", topic, queue)}
        returned, cursor = len(self.returned[key]), self.cursor[key]
        ready = len(self.queues[topic, queue]) - cursor + returned
        out = cursor - returned - len(acked)
        return {
            "topic": topic, "queue": queue, "lag": str(ready + out), "in_flight": out,
            "ready": str(ready), "oldest_age_ms": None,
        }  # fmt: skip

    def _send(self, topic: str, query: dict[str, str], body: bytes, accept: str) -> bytes:
        queue = int(query["queue"])
        if queue >= self._write_queue_count(topic):
            return refusal(404, "unknown_queue", False)
        records = split_batch(body)
        first = len(self.queues[topic, queue])
        for record in records:
            if b"poison" in body_of(record):
                return refusal(413, "message_too_large", False)
        repeat = self.later.repeat_of(topic, records)
        if isinstance(repeat, bytes):
            return repeat
        if repeat is not None:
            place, offset = repeat
            assert place == queue
            return answer(200, RECORDS, struct.pack(">4sIqq", b"MQA1", len(records), offset, 1_000))
        if (delayed := self.later.accept(topic, queue, records)) is not None:
            assert accept == "application/json"
            self.later.remember(topic, queue, -1, records)
            return reply(202, None) if query.get("ack") == "oneway" else delayed
        self.later.remember(topic, queue, first, records)
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
        deadline_s = time.monotonic() + int(query["wait_ms"]) / 1000
        while (code := self._pull_refusal(topic, queue, query)) is None:
            left_s = deadline_s - time.monotonic()
            if start != len(stored) or left_s <= 0 or not await self._wait(left_s):
                break
        if code is not None:
            return refusal(409, code, False)
        maximum = len(stored)
        status, chosen, following = 1, [], start
        if not minimum <= start <= maximum:
            status, following = 3, minimum if start < minimum else maximum
        elif start < maximum:
            wanted = tags_in(query)
            part = stored[start : start + limit]
            group = query.get("group", "")
            chosen = [
                record
                for offset, record in enumerate(part, start)
                if matches(record, wanted) and not self.failures.skips(group, topic, queue, offset)
            ]
            status, following = 0 if chosen else 2, start + len(part)
        head = struct.pack(">4sIqqq", b"MQP1", status, following, minimum, maximum)
        return answer(200, RECORDS, head + make_batch(chosen))

    def _pull_refusal(self, topic: str, queue: int, query: dict[str, str]) -> str | None:
        if "group" not in query:
            return None
        epoch, generation = query.get("epoch"), query.get("generation")
        return self.groups[query["group"]].refusal_of(
            topic, queue, client=query["client_id"], epoch=None if epoch is None else int(epoch),
            generation=None if generation is None else int(generation), is_read=True,
        )  # fmt: skip

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
                fresh = range(self.cursor[key], min(self.cursor[key] + left, len(stored)))
                offsets = back or [
                    offset for offset in fresh if matches(stored[offset], tags_in(document))
                ]
                self.returned[key] -= set(back)
                if not back:
                    self.cursor[key] = max(self.cursor[key], fresh.stop)
                if offsets:
                    left -= len(offsets)
                    self.handed_out.update((*key, offset) for offset in offsets)
                    attempt = max(self.handed_out[*key, offset] for offset in offsets)
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
                    again = self._token(delivery.topic, delivery.queue, chosen)
                    item["receipt_handle"] = f"{again}:{run}"
                for offset in sorted(chosen):
                    self.settled.append((verb, delivery.topic, delivery.queue, offset))
            results.append(item)
        is_all_ok = all(item["status"] == "ok" for item in results)
        return reply(200 if is_all_ok else 207, {"results": results})
