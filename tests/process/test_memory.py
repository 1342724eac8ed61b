"""Memory stays bounded: readers that do not read, and producers of the largest messages."""

import http.client
import json
import random
import resource
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.process.limited import MIB, TICKS, TOPIC, Limited, until
from tests.process.product import Unanswered

pytestmark = pytest.mark.process
LIMIT_BYTES = 48 * MIB
SETTINGS = {
    "MQWEB_REQUESTS_BYTES_MAX": str(LIMIT_BYTES),
    "MQWEB_ANSWERS_BYTES_MAX": str(LIMIT_BYTES),
    "MQWEB_ACK": "async",
}
BODY_BYTES = 4 * MIB - 1024
# Both limits, what is copied on the way out, and the largest request and answer beside them.
GROWTH_BYTES_MAX = 6 * LIMIT_BYTES
HEAD_BYTES = 200
# Of one processor, while no connection can be accepted.
CPU_SHARE_MAX = 0.2


class SlowReader:
    """Asks for a large answer, reads its head and no more until told."""

    def __init__(self, broker: Limited, *, is_binary: bool) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(("127.0.0.1", broker.port))
        self._socket.settimeout(60)
        accept = "application/vnd.mqweb.records" if is_binary else "application/json"
        path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=0&max=4&max_bytes=16000000"
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode()
        )

    def status(self) -> int:
        """Return the status of the answer, which is left unread."""
        head = self._socket.recv(HEAD_BYTES, socket.MSG_PEEK)
        return int(head.split()[1])

    def close(self) -> None:
        self._socket.close()


def send_large(broker: Limited, count: int, outcomes: Counter[str], seed: int) -> None:
    """Send large messages, again after a pause where the broker has no room for them."""
    rng = random.Random(seed)
    body = json.dumps({"messages": [{"body": "x" * BODY_BYTES, "queue": 0}]}).encode()
    pause = threading.Event()
    while count:
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/api/v1/topics/{TOPIC}/messages", body, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except OSError:
            outcomes["broken"] += 1
            continue
        finally:
            connection.close()
        if response.status == 201:
            outcomes["sent"] += 1
            count -= 1
            continue
        assert (response.status, answer["code"]) == (503, "overloaded"), answer
        outcomes["overloaded"] += 1
        pause.wait(float(response.headers["Retry-After"]) * rng.uniform(0.05, 0.2))


@pytest.mark.parametrize("is_binary", [True, pytest.param(False, marks=pytest.mark.crash)])
def test_slow_readers_and_large_messages_do_not_fill_the_memory(
    tmp_path: Path, is_binary: bool
) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(**SETTINGS)
    outcomes: Counter[str] = Counter()
    send_large(broker, 4, outcomes, 0)
    until(lambda: b"rocketmq_storage_flush_behind_bytes 0" in broker.call("GET", "/metrics")[1])
    before = broker.resident_bytes
    peak = before

    readers = [SlowReader(broker, is_binary=is_binary) for _ in range(200)]
    producers = [
        threading.Thread(target=send_large, args=(broker, 3, outcomes, seed)) for seed in range(8)
    ]
    for thread in producers:
        thread.start()
    statuses: Counter[int] = Counter()
    for reader in readers:
        statuses[reader.status()] += 1
        peak = max(peak, broker.resident_bytes)
    for thread in producers:
        thread.join()
        peak = max(peak, broker.resident_bytes)

    print(f"{before // MIB} MiB before, {peak // MIB} at the most; {statuses}, {outcomes}")
    assert statuses[200] >= 3
    assert statuses[503] >= 100, "nobody was refused: the limit was never met"
    assert statuses[200] + statuses[503] == 200
    assert outcomes["sent"] == 28
    assert peak - before <= GROWTH_BYTES_MAX
    # Small requests are served all the while, and large ones when the slow ones are gone.
    assert broker.send("small.")[0] == 201
    for reader in readers:
        reader.close()
    until(lambda: _pull(broker) == 200)
    assert broker.stop() == 0


def _pull(broker: Limited) -> int:
    path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=0&max=4&max_bytes=16000000"
    return broker.call("GET", path)[0]


@pytest.mark.crash
def test_no_descriptor_left_refuses_new_connections_alone_and_passes(tmp_path: Path) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    assert broker.send("before")[0] == 201
    kept = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=30)
    assert _send_on(kept, "first.") == 201

    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (broker.highest_descriptor + 1, hard))
    # Numbers that are free below the limit are used up first.
    extras = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(64)]
    with pytest.raises(Unanswered):
        broker.call("GET", "/healthz")
    assert broker.descriptors <= broker.highest_descriptor + 1
    assert _send_on(kept, "second") == 201
    spent = _cpu_s(broker)
    threading.Event().wait(1.0)
    share = _cpu_s(broker) - spent
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (hard, hard))
    for extra in extras:
        extra.close()
    recovered_s = until(lambda: broker.is_ready())

    print(f"{share:.0%} of a processor while saturated, back after {recovered_s:.1f} s")
    assert share < CPU_SHARE_MAX
    kept.close()
    assert broker.drain() == ["before", "first.", "second"]
    assert broker.stop() == 0


def _send_on(connection: http.client.HTTPConnection, body: str) -> int:
    data = json.dumps({"messages": [{"body": body, "queue": 0}]})
    path = f"/api/v1/topics/{TOPIC}/messages"
    connection.request("POST", path, data, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status


def _cpu_s(broker: Limited) -> float:
    """Return how much processor time the process has used."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0
