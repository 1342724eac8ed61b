"""Searching by both faces and by `mq find`: what is asked, what comes back, what is said."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from mqclient import Admin, AsyncAdmin, InvalidArgument, InvalidName, UnknownTopic

from tests.sdk.fake_broker import FakeBroker

ITEM = {
    "message_id": "0A", "topic": "orders", "queue": 2, "offset": "17", "body_base64": "/w==",
    "tag": "paid", "keys": ["o-1", "钥匙"], "properties": {"a": "b"}, "sharding_key": None,
    "born_time": None, "store_time": "2023-11-14T22:13:20.123Z", "reconsume_times": 1,
}  # fmt: skip


def answer(broker: FakeBroker, **flags: bool) -> None:
    """Have the broker find a message of bytes and one of text."""
    text = {**ITEM, "body": "zwei\nZeilen", "tag": None, "keys": [], "offset": "3"}
    del text["body_base64"]
    broker.found = {"items": [ITEM, text], "truncated": False, "scan_incomplete": False, **flags}


def mq_find(broker: FakeBroker, *words: str) -> subprocess.CompletedProcess[bytes]:
    run = "import sys; from mqclient.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", run, "--server", broker.url, "find", *words]
    return subprocess.run(command, capture_output=True, timeout=30, check=False)


def test_all_that_is_wanted_is_asked_for(broker: FakeBroker) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC)
    with Admin(broker.url) as admin:
        admin.search("orders")
        admin.search("orders", key="ä b&c=", tag="t", from_time=moment, to_time=5, queue=0)
        admin.search("orders", queue=1, queue_offset=0, messages_max=7)
        admin.search("orders", offset_id="0" * 32)

    assert broker.searches == [
        ("orders", {}),
        ("orders", {"key": "ä b&c=", "tag": "t", "from": "1700000000001", "to": "5", "queue": "0"}),
        ("orders", {"queue": "1", "offset": "0", "max": "7"}),
        ("orders", {"offset_id": "0" * 32}),
    ]


async def test_what_is_found_is_told_by_the_async_face_too(broker: FakeBroker) -> None:
    answer(broker, truncated=True)

    async with AsyncAdmin(broker.url) as admin:
        result = await admin.search("orders", message_id="0A")

    first, second = result.messages
    assert (first.body, second.body) == (b"\xff", b"zwei\nZeilen")
    assert (first.queue, first.queue_offset, first.keys) == (2, 17, ("o-1", "钥匙"))
    assert (first.store_time_ms, first.born_time_ms) == (1_700_000_000_123, None)
    assert (result.truncated, result.scan_incomplete) == (True, False)


def test_what_is_refused_is_raised(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin:
        with pytest.raises(InvalidName):
            admin.search("a b")
        with pytest.raises(InvalidArgument):
            admin.search("orders", from_time=datetime(2023, 1, 1))  # noqa: DTZ001
        with pytest.raises(UnknownTopic):
            admin.search("none", key="a")
    assert broker.searches == []


def test_a_message_is_a_line(broker: FakeBroker) -> None:
    answer(broker)

    found = mq_find(broker, "--topic", "orders", "--key", "o-1", "--max", "2")

    assert found.returncode == 0
    assert found.stderr == b""
    assert found.stdout.decode() == (
        "0A\t2\t17\t1700000000123\tpaid\to-1,钥匙\t\\xff\n"
        "0A\t2\t3\t1700000000123\t-\t-\tzwei Zeilen\n"
    )
    assert broker.searches == [("orders", {"key": "o-1", "max": "2"})]


def test_a_message_may_be_a_document(broker: FakeBroker) -> None:
    answer(broker)

    found = mq_find(broker, "--topic", "orders", "--id", "0A", "--json", "--from", "1", "--to", "2")

    first, second = map(json.loads, found.stdout.splitlines())
    assert (first["offset"], first["body_base64"], first["keys"]) == ("17", "/w==", ["o-1", "钥匙"])
    assert second["body"] == "zwei\nZeilen"


@pytest.mark.parametrize(
    ("flag", "said"),
    [("truncated", b"there is more"), ("scan_incomplete", b"did not look everywhere")],
)
def test_what_is_not_all_is_said(broker: FakeBroker, flag: str, said: bytes) -> None:
    answer(broker, **{flag: True})

    found = mq_find(broker, "--topic", "orders", "--queue", "0", "--offset", "3")

    assert found.returncode == 0
    assert len(found.stdout.splitlines()) == 2
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--key", "a"], 2),
        (["--topic", "orders", "--key", "a", "--id", "b"], 2),
        (["--topic", "orders", "--from", "yesterday"], 2),
        (["--topic", "none"], 1),
    ],
)
def test_wrong_usage_and_refusals_have_their_codes(
    broker: FakeBroker, words: list[str], code: int
) -> None:
    assert mq_find(broker, *words).returncode == code
