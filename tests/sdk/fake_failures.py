"""The fake broker's retry topics and dead letters. Knows no sockets.

What is sent back comes again at once, unless a test holds it back.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sdk.fake_bytes import make_record, properties_of, reply

Append = Callable[[str, int, bytes], None]


@dataclass
class Failures:
    """What groups failed at."""

    queues: dict[tuple[str, int], list[bytes]]
    append: Append
    sent_back: list[dict[str, Any]] = field(default_factory=list)
    has: set[tuple[str, str, int, int]] = field(default_factory=set)
    failures_max: int = 16
    refuses: bool = False
    care: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Statuses and documents that acts of operators are answered, in order."""

    def skips(self, group: str, topic: str, queue: int, queue_offset: int) -> bool:
        return (group, topic, queue, queue_offset) in self.has

    def send_back(self, group: str, document: dict[str, Any]) -> bytes:
        results = []
        for index, item in enumerate(document["messages"]):
            self.sent_back.append({**document, **item})
            outcome = None if self.refuses else self._take(group, document, item)
            found: dict[str, Any] = {"index": index, "status": 200, "outcome": outcome}
            if outcome is None:
                found = {"index": index, "status": 403}
            elif outcome == "gone":
                found["status"] = 410
            results.append(found)
        is_all_ok = all(item["status"] == 200 for item in results)
        return reply(200 if is_all_ok else 207, {"results": results})

    def _take(self, group: str, document: dict[str, Any], item: dict[str, Any]) -> str:
        topic, queue, offset = item["topic"], item["queue"], int(item["offset"])
        if (group, topic, queue, offset) in self.has:
            return "already"
        stored = self.queues[topic, queue]
        if offset >= len(stored):
            return "gone"
        self.has.add((group, topic, queue, offset))
        record = stored[offset]
        (times,) = struct.unpack_from(">i", record, 72)
        is_dead = document.get("delay_level") == -1 or times >= self.failures_max
        prefix = "%DLQ%" if is_dead else "%RETRY%"
        self.append(prefix + group, 0, _again(record, prefix + group, times + 1, document, item))
        return "dead_letter" if is_dead else "retry"


def _again(
    record: bytes, topic: str, times: int, document: dict[str, Any], item: dict[str, Any]
) -> bytes:
    (length,) = struct.unpack_from(">i", record, 84)
    found = properties_of(record)
    found.setdefault("RETRY_TOPIC", item["topic"])
    found.setdefault("ORIGIN_QUEUE", str(item["queue"]))
    found.setdefault("ORIGIN_MESSAGE_ID", found.get("UNIQ_KEY", f"at{item['offset']}"))
    history = json.loads(found.get("RETRY_HISTORY", "[]"))
    history.append([times, 1_000, document.get("reason", ""), document["client_id"]])
    found["RETRY_HISTORY"] = json.dumps(history, separators=(",", ":"))
    section = "".join(f"{name}\x01{value}\x02" for name, value in found.items()).encode()
    made = bytearray(make_record(topic, 0, record[88 : 88 + length], section))
    made[72:76] = struct.pack(">i", times)
    return bytes(made)
