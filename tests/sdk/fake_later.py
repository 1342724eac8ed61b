"""The fake broker's delayed messages, repeats and transactions. Knows no sockets.

Its wall clock stands at 1,000 ms; nothing is due before a test says so.
"""

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.sdk.fake_bytes import body_of, make_record, properties_of, refusal, reply

NOW_MS = 1_000
_DELAYS = ("DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
_ENDED = {"commit": "committed", "rollback": "rolled_back"}

Append = Callable[[str, int, bytes], None]


def rfc3339(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Waiting:
    """A delayed message; `state` is waiting, delivered or cancelled."""

    topic: str
    queue: int
    record: bytes
    due_ms: int
    state: str = "waiting"


@dataclass
class Half:
    """A transaction; `state` is pending, committed or rolled_back."""

    topic: str
    message: dict[str, Any]
    producer_group: str
    state: str = "pending"
    checks: int = 0
    immunity_ms: int | None = None


@dataclass
class Later:
    """What is not in its queue yet."""

    append: Append
    delayed: dict[str, Waiting] = field(default_factory=dict)
    levels: list[Waiting] = field(default_factory=list)
    halves: dict[str, Half] = field(default_factory=dict)
    due_checks: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    stored: dict[tuple[str, str], dict[int, tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    repeat_count: int = 0

    def repeat_of(self, topic: str, records: list[bytes]) -> tuple[int, int] | bytes | None:
        """Return where a numbered batch lies already, a refusal, or None for a new one."""
        known = [self._place(topic, record) for record in records]
        if all(place is None for place in known):
            return None
        if any(place is None for place in known):
            return refusal(422, "malformed_batch", False)
        self.repeat_count += 1
        assert known[0] is not None
        return known[0]

    def remember(self, topic: str, queue: int, first: int, records: list[bytes]) -> None:
        for index, record in enumerate(records):
            found = properties_of(record)
            if "PRODUCER_ID" in found:
                numbers = self.stored[topic, found["PRODUCER_ID"]]
                numbers[int(found["PRODUCER_SEQ"])] = queue, first + index

    def accept(self, topic: str, queue: int, records: list[bytes]) -> bytes | None:
        """Keep a batch for later and answer it; None for one that is not delayed."""
        kinds = {
            next((kind for kind in _DELAYS if kind in properties_of(r)), None) for r in records
        }
        if kinds == {None}:
            return None
        if None in kinds:
            return refusal(422, "malformed_batch", False)
        handles, moments = [], []
        for record in records:
            found = properties_of(record)
            if "DELAY" in found:
                due_ms = NOW_MS + 1_000 * int(found["DELAY"])
                self.levels.append(Waiting(topic, queue, record, due_ms))
            else:
                due_ms = int(found.get("TIMER_DELIVER_MS", 0))
                due_ms = due_ms or NOW_MS + int(found["TIMER_DELAY_MS"])
                handles.append(f"h{len(self.delayed)}.1-abc=")
                self.delayed[handles[-1]] = Waiting(topic, queue, record, due_ms)
            moments.append(rfc3339(due_ms))
        document = {
            "queue": queue, "offset": None, "count": len(records), "store_time": rfc3339(NOW_MS),
            "deliver_at": moments, "recall_handles": handles,
        }  # fmt: skip
        if not handles:
            del document["recall_handles"]
        return reply(201, document)

    def deliver(self, handle: str) -> None:
        """Have a delayed message be due."""
        item = self.delayed[handle]
        item.state = "delivered"
        self.append(item.topic, item.queue, item.record)

    def recall(self, handle: str) -> bytes:
        item = self.delayed.get(handle)
        if item is None:
            return refusal(404, "unknown_handle", False)
        if item.state == "delivered":
            return refusal(409, "already_delivered", False)
        item.state = "cancelled"
        return reply(200, {"outcome": "cancelled"})

    def deliver_now(self, handle: str) -> bytes:
        item = self.delayed.get(handle)
        if item is None:
            return refusal(404, "unknown_handle", False)
        if item.state == "cancelled":
            return refusal(409, "already_cancelled", False)
        if item.state == "waiting":
            self.deliver(handle)
        return reply(200, {"outcome": "delivered"})

    def begin(self, topic: str, document: dict[str, Any]) -> bytes:
        transaction = f"{len(self.halves)}.1-abc"
        half = Half(topic, document["message"], document["producer_group"])
        half.immunity_ms = document.get("check_immunity_ms")
        self.halves[transaction] = half
        answer = {
            "transaction_id": transaction, "message_id": f"M{len(self.halves)}",
            "store_time": rfc3339(NOW_MS),
        }  # fmt: skip
        return reply(201, answer)

    def end(self, transaction: str, verb: str) -> bytes:
        half = self.halves.get(transaction)
        if half is None:
            return refusal(404, "unknown_transaction", False)
        outcome = _ENDED[verb]
        is_repeat = half.state == outcome
        if half.state not in ("pending", outcome):
            return refusal(409, "transaction_decided", False)
        half.state = outcome
        if outcome == "committed" and not is_repeat:
            body = b64decode(half.message["body_base64"])
            self.append(
                half.topic, half.message.get("queue") or 0, make_record(half.topic, 0, body)
            )
        answer = {
            "transaction_id": transaction, "outcome": outcome, "topic": half.topic,
            "queue": 0, "offset": "0" if outcome == "committed" else None, "repeat": is_repeat,
        }  # fmt: skip
        return reply(200, answer)

    def take_checks(self, group: str) -> list[dict[str, Any]]:
        due, self.due_checks[group] = self.due_checks[group], []
        checks = []
        for transaction in due:
            half = self.halves[transaction]
            half.checks += 1
            message = {
                **half.message, "topic": half.topic, "message_id": transaction,
                "keys": half.message.get("keys", []),
            }  # fmt: skip
            checks.append(
                {
                    "transaction_id": transaction, "number": half.checks, "checks_max": 15,
                    "message": message,
                }
            )  # fmt: skip
        return checks

    def _place(self, topic: str, record: bytes) -> tuple[int, int] | None:
        found = properties_of(record)
        if "PRODUCER_SEQ" not in found:
            return None
        return self.stored[topic, found["PRODUCER_ID"]].get(int(found["PRODUCER_SEQ"]))


def half_message(body: bytes) -> dict[str, Any]:
    return {"body_base64": b64encode(body).decode()}


def bodies_of(records: list[bytes]) -> list[bytes]:
    return [body_of(record) for record in records]
