"""What became of a message, by both faces and by `mq trace`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from mqclient import Admin, AsyncAdmin, InvalidArgument, InvalidName, NotFound

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.fake_bytes import refusal, reply

STORED = {
    "kind": "stored", "source": "log", "at": "2023-11-14T22:13:20.123Z", "ended_at": None,
    "group": None, "client_id": None, "attempt": None, "topic": "orders", "queue": 2,
    "offset": "17", "result": None, "detail": None,
}  # fmt: skip
WORKED = {
    **STORED, "kind": "worked", "source": "traces", "ended_at": "2023-11-14T22:13:21.000Z",
    "group": "billing", "client_id": "c", "attempt": 1, "result": "error",
    "detail": "a\x1b[31m\tb\r\nc\u202e",
}  # fmt: skip
SETTLED = {**STORED, "kind": "settled", "at": None, "queue": None, "offset": None}
LIFE = {
    "message_id": "a/b", "topic": "orders", "queue": 2, "offset": "17",
    "events": [STORED, WORKED, SETTLED],
    "unknown": [{"code": "no_traces", "detail": "nobody told"}],
    "scan_incomplete": False, "sampled_at": "2023-11-14T22:13:20.123Z",
}  # fmt: skip


class TracingBroker(FakeBroker):
    """Tells one life, whatever message it is asked about."""

    def __init__(self) -> None:
        self.life: dict[str, object] | None = None
        self.traced: list[tuple[str, dict[str, str]]] = []
        super().__init__()

    async def answered(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        split = urlsplit(target)
        found = re.fullmatch("/api/v1/messages/([^/]+)/trace", split.path)
        if method != "GET" or found is None:
            return await super().answered(method, target, headers, body)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.traced.append((unquote(found[1]), query))
        return refusal(404, "not_found", False) if self.life is None else reply(200, self.life)


@pytest.fixture
def broker() -> Iterator[TracingBroker]:
    asked = TracingBroker()
    with asked.running():
        yield asked


def mq_trace(broker: TracingBroker, *words: str) -> subprocess.CompletedProcess[bytes]:
    run = "import sys; from mqclient.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", run, "--server", broker.url, "trace", *words]
    return subprocess.run(command, capture_output=True, timeout=30, check=False)


def test_it_is_asked_for_by_id_and_topic(broker: TracingBroker) -> None:
    broker.life = LIFE
    with Admin(broker.url) as admin:
        admin.trace("a b")
        life = admin.trace("x?y", topic="orders")

    assert broker.traced == [("a b", {}), ("x?y", {"topic": "orders"})]
    assert (life.topic, life.queue, life.queue_offset) == ("orders", 2, 17)
    first, second, last = life.events
    assert (first.kind, first.at_ms, first.queue_offset) == ("stored", 1_700_000_000_123, 17)
    assert (second.ended_ms, second.group, second.result) == (1_700_000_001_000, "billing", "error")
    assert (last.at_ms, last.queue_offset) == (None, None)
    assert life.unknown == (("no_traces", "nobody told"),)


async def test_the_async_face_tells_the_same(broker: TracingBroker) -> None:
    broker.life = LIFE
    async with AsyncAdmin(broker.url) as admin:
        life = await admin.trace("m")

    assert len(life.events) == 3


def test_what_is_not_known_is_raised(broker: TracingBroker) -> None:
    with Admin(broker.url) as admin:
        with pytest.raises(NotFound):
            admin.trace("m")
        with pytest.raises(InvalidArgument):
            admin.trace("")
        with pytest.raises(InvalidName):
            admin.trace("m", topic="a b")
    assert len(broker.traced) == 1


def test_an_event_is_a_line_that_no_terminal_obeys(broker: TracingBroker) -> None:
    broker.life = LIFE

    done = mq_trace(broker, "m")

    assert done.returncode == 0, done.stderr
    stored, worked, settled = done.stdout.decode().splitlines()
    assert stored == "2023-11-14T22:13:20.123Z\tstored\t-\t-\t-\torders/2:17\t-\t-"
    assert worked.split("\t")[2:5] == ["billing", "c", "877 ms"]
    assert worked.endswith("a\ufffd[31m b c\ufffd")
    assert settled.startswith("-\tsettled")
    assert done.stderr == b"mq: nobody told\n"


def test_all_of_it_is_one_document(broker: TracingBroker) -> None:
    broker.life = LIFE

    done = mq_trace(broker, "m", "--json", "--topic", "orders")

    document = json.loads(done.stdout)
    assert document["events"][0]["kind"] == "stored"
    assert document["unknown"] == [["no_traces", "nobody told"]]
