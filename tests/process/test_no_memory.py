"""A broker whose memory ends: requests are refused or the process ends as told, nothing is lost."""

import http.client
import json
import resource
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apps.bridge.exits import Exit
from tests.process.limited import MIB, TICKS, TOPIC, Limited, until

pytestmark = [pytest.mark.process, pytest.mark.crash]
# What a broker may have beyond what it has: less than its own limits would let it take.
MARGIN_BYTES = 96 * MIB
BODY_BYTES = 3 * MIB
ENDS = {Exit.FATAL, Exit.FAILED}


def address_space(broker: Limited) -> int:
    """Return how much address space the process has."""
    fields = Path(f"/proc/{broker.pid}/statm").read_text().split()
    return int(fields[0]) * resource.getpagesize()


class Producer(threading.Thread):
    """Sends large messages, and keeps what it was told of each."""

    def __init__(self, broker: Limited, number: int, count: int) -> None:
        super().__init__()
        self._broker, self._number, self._count = broker, number, count
        self.taken: list[str] = []
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        for index in range(self._count):
            name = f"{self._number:02d}{index:04d}"
            try:
                status, answer = self._send(name)
            except (OSError, http.client.HTTPException):
                self.outcomes["unanswered"] += 1
                continue
            self.outcomes[str(answer.get("code", status))] += 1
            if status == 201:
                self.taken.append(name)

    def _send(self, name: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._broker.port, timeout=60)
        try:
            body = json.dumps({"messages": [{"body": name + "." * BODY_BYTES, "queue": 0}]})
            path = f"/api/v1/topics/{TOPIC}/messages"
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


def drained(broker: Limited) -> list[str]:
    """Return all that is there, by pulls of one message."""
    found: list[str] = []
    while True:
        path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset={len(found)}&max=1"
        status, answer = broker.call("GET", path)
        assert status == 200, answer
        if not answer["messages"]:
            return found
        found += [message["body"][:6] for message in answer["messages"]]


def test_a_limit_on_address_space_refuses_or_ends_and_loses_nothing(tmp_path: Path) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    assert broker.send("before")[0] == 201
    limit_bytes = address_space(broker) + MARGIN_BYTES
    resident_bytes = broker.resident_bytes
    broker.limit(resource.RLIMIT_AS, limit_bytes)

    producers = [Producer(broker, number, 6) for number in range(40)]
    for producer in producers:
        producer.start()
    peak = 0
    while any(producer.is_alive() for producer in producers):
        producers[0].join(0.05)
        if Path(f"/proc/{broker.pid}/statm").read_text().split()[0] != "0":
            peak = max(peak, broker.resident_bytes)
    outcomes = sum((producer.outcomes for producer in producers), Counter[str]())
    taken = {name for producer in producers for name in producer.taken}
    print(f"{outcomes}, {resident_bytes // MIB} MiB before, {peak // MIB} at the most")

    assert outcomes["out_of_means"] + outcomes["unanswered"], "the limit was never met"
    assert set(outcomes) <= {"201", "out_of_means", "overloaded", "unanswered", "stopping"}
    assert peak <= 1.1 * (resident_bytes + MARGIN_BYTES)
    try:
        code = broker.exit_code(within_s=0.5)
        assert code in ENDS
        broker.start()
    except subprocess.TimeoutExpired:
        # It lives; with memory again it takes what it refused.
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_AS)
        broker.limit(resource.RLIMIT_AS, hard)
        until(lambda: broker.send("after.")[0] == 201)
    found = drained(broker)
    assert found[0] == "before"
    assert taken <= set(found)
    assert len(found) == len(set(found))
    assert broker.stop() == 0
