"""A real broker whose consume queue is damaged under it: it refuses, makes it again, goes on."""

import json
from pathlib import Path

import pytest

from tests.process.limited import until
from tests.process.product import START_S_MAX, Broker

pytestmark = [pytest.mark.process, pytest.mark.crash]

COUNT = 100
BODIES = [str(number) for number in range(COUNT)]
SEND = "/api/v1/topics/t/messages"
PULL = "/api/v1/topics/t/queues/0/messages?max=1000&filter=A&offset=0"


def rotten(path: Path) -> None:
    """Let the tag's hash in the fourth entry rot: nothing in a record would notice."""
    data = bytearray(path.read_bytes())
    data[3 * 20 + 15] ^= 1
    with path.open("r+b") as file:
        file.write(data)


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(50)


def test_a_queue_damaged_under_a_broker_is_made_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data")
    broker.prepare(t=1)
    broker.start()
    try:
        messages = [{"body": body, "queue": 0, "tag": "A"} for body in BODIES]
        assert broker.call("POST", SEND, {"messages": messages})[0] == 201
        broker.stop()  # Its entries are in the file then.
        broker.start()
        (path,) = (broker.data / "store" / "consumequeue" / "t" / "0").iterdir()
        before = path.read_bytes()
        for how in (rotten, cut):
            how(path)
            assert path.read_bytes() != before, "the fault did not fire"

            status, answer = broker.call("GET", PULL)
            assert (status, answer["code"], answer["retriable"]) == (503, "queue_damaged", True)
            until(lambda: broker.call("GET", PULL)[0] != 503, within_s=START_S_MAX)

            status, answer = broker.call("GET", PULL)
            assert status == 200
            assert [message["body"] for message in answer["messages"]] == BODIES
            assert path.read_bytes() == before
            metrics = broker.call("GET", "/metrics")[1].decode().splitlines()
            assert "mqweb_damaged_queue_files 0" in metrics
    finally:
        broker.stop()
    lines = [json.loads(line) for line in broker.log.read_text().splitlines() if line[:1] == "{"]
    told = [line["event"] for line in lines if "consume_queue" in line["event"]]
    assert told == ["consume_queue_damaged", "consume_queue_remade"] * 2
