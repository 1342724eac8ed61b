"""Real input through the real product: a text file goes in by `mq` and comes out identical."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.product import Broker

pytestmark = pytest.mark.process
LINES = 20_000
KEYS = 50


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "data")
    broker.prepare(single=1, keyed=4)
    broker.start()
    yield broker
    assert broker.stop() == 0


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """Return lines `key<tab>number of the key's line<tab>text`, and keep them in a file."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    numbers = [0] * KEYS
    made = []
    for _ in range(LINES):
        key = rng.randrange(KEYS)
        numbers[key] += 1
        text = rng.randbytes(rng.randrange(60)).replace(b"\n", b"").replace(b"\t", b"")
        made.append(b"key%d\t%d\t%s" % (key, numbers[key], text))
    (tmp_path / "input").write_bytes(b"".join(line + b"\n" for line in made))
    return made


def mq(
    broker: Broker, *words: str, stdin: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "MQWEB_URL": f"http://127.0.0.1:{broker.port}"}
    command = [
        sys.executable,
        "-c",
        "import sys; from mqclient.cli import main; sys.exit(main())",
        *words,
    ]
    with (stdin or Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            command, stdin=source, capture_output=True, env=environment, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    return done


def test_a_file_through_one_queue_comes_out_byte_for_byte(
    broker: Broker, tmp_path: Path, lines: list[bytes]
) -> None:
    source = tmp_path / "input"
    expected = hashlib.sha256(source.read_bytes()).hexdigest()

    sent = mq(broker, "produce", "single", "--checksum", stdin=source)
    copy = mq(broker, "consume", "single", "--group", "copy").stdout
    again = mq(broker, "consume", "single", "--group", "copy").stdout

    assert expected in sent.stderr.decode()
    assert re.search(rf"\b{len(lines)} messages", sent.stderr.decode())
    assert hashlib.sha256(copy).hexdigest() == expected
    assert again == b""


def test_lines_of_a_key_keep_their_order_through_many_queues(
    broker: Broker, tmp_path: Path, lines: list[bytes]
) -> None:
    mq(broker, "produce", "keyed", "--key-field", "1", stdin=tmp_path / "input")

    found = mq(broker, "consume", "keyed", "--group", "copy").stdout.split(b"\n")[:-1]

    assert sorted(found) == sorted(lines)
    by_key: dict[bytes, list[int]] = {}
    for line in found:
        key, number, _ = line.split(b"\t", 2)
        by_key.setdefault(key, []).append(int(number))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    ranges = broker.call("GET", "/metrics")[1].decode()
    assert "rocketmq_messages_in_total 20000" in ranges


def test_a_message_is_found_by_its_id_its_tag_and_its_place(broker: Broker, tmp_path: Path) -> None:
    source = tmp_path / "three"
    source.write_bytes(b"one\ntwo\nthree\n")
    mq(broker, "produce", "single", "--tag", "counted", stdin=source)

    listed = [
        json.loads(line)
        for line in mq(broker, "find", "--topic", "single", "--json").stdout.splitlines()
    ]
    by_id = mq(broker, "find", "--topic", "single", "--id", listed[1]["message_id"]).stdout
    by_place = mq(broker, "find", "--topic", "single", "--queue", "0", "--offset", "0").stdout
    newest = mq(broker, "find", "--topic", "single", "--tag", "counted", "--max", "1")

    assert [line["body"] for line in listed] == ["three", "two", "one"]
    assert by_id.decode().split("\t")[-1] == "two\n"
    assert by_place.decode().split("\t")[-1] == "one\n"
    assert newest.stdout.decode().split("\t")[-1] == "three\n"
    assert b"there is more" in newest.stderr
    assert mq(broker, "find", "--topic", "single", "--key", "none").stdout == b""
