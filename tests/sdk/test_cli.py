"""The command `mq` as a process: bytes in, bytes out, exit codes."""

import hashlib
import json
import re
import signal
import subprocess
import sys

import pytest
from mqclient import PushConsumer

from tests.sdk.fake_broker import FakeBroker, properties_of


def mq(broker: FakeBroker, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*_command(broker), *words], input=data, capture_output=True, timeout=120, check=False
    )


def _command(broker: FakeBroker) -> list[str]:
    run = "import sys; from mqclient.cli import main; sys.exit(main())"
    return [sys.executable, "-c", run, "--server", broker.url]


def test_lines_come_out_as_they_went_in(broker: FakeBroker) -> None:
    data = b"first\n\nthird \xff\x00 line\r\nlast without newline"

    sent = mq(broker, "produce", "orders", "--queue", "1", "--checksum", "--lane", data=data)
    received = mq(broker, "consume", "orders", "--group", "g")

    assert sent.returncode == received.returncode == 0
    assert received.stdout == data + b"\n"
    assert hashlib.sha256(data).hexdigest().encode() in sent.stderr
    assert re.search(rb"sent 4 messages, \d+ bytes in [\d.]+ s, \d+ messages/s", sent.stderr)
    assert b"\r" not in sent.stderr


def test_a_field_of_the_line_is_its_sharding_key(broker: FakeBroker) -> None:
    data = b"".join(b"%d;user-%d\n" % (number, number % 3) for number in range(60))

    sent = mq(
        broker, "produce", "orders", "--key-field", "2", "--delimiter", ";", "--tag", "T",
        data=data,
    )  # fmt: skip

    assert sent.returncode == 0
    for queue in range(4):
        for record in broker.queues["orders", queue]:
            assert properties_of(record)["TAGS"] == "T"
            assert properties_of(record)["__SHARDINGKEY"].startswith("user-")
    for user in range(3):
        of_user = [
            [body for body in broker.bodies("orders", queue) if body.endswith(b"-%d" % user)]
            for queue in range(4)
        ]
        (bodies,) = [found for found in of_user if found]
        assert bodies == sorted(bodies, key=lambda body: int(body.split(b";")[0]))


def test_a_pattern_finds_the_sharding_key(broker: FakeBroker) -> None:
    mq(broker, "produce", "orders", "--key-regex", "id=([a-z]+)", data=b"x id=abc y\n")

    (record,) = (record for queue in range(4) for record in broker.queues["orders", queue])
    assert properties_of(record)["__SHARDINGKEY"] == "abc"


def test_messages_are_acknowledged_after_they_were_written(broker: FakeBroker) -> None:
    broker.topics["rmq_sys_trace"] = 1
    broker.put("orders", 0, b"0", b"1", b"2")

    received = mq(broker, "consume", "orders", "--group", "g", "--max", "2", "--trace")

    assert received.stdout == b"0\n1\n"
    assert broker.bodies("rmq_sys_trace", 0)[0].count(b'"result":"ok"') == 2
    assert [item for item in broker.settled if item[0] == "ack"] == [
        ("ack", "orders", 0, 0), ("ack", "orders", 0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["--push", "--ordered"])
def test_a_member_writes_what_it_hears_and_leaves_the_rest(broker: FakeBroker, kind: str) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    heard = mq(broker, "consume", "orders", "--group", "g", kind, "--max", "2")

    assert (heard.returncode, heard.stdout) == (0, b"0\n1\n")
    assert broker.committed["g", "orders", 0] == 2
    assert broker.groups["g"].members == {}


def test_a_member_whose_output_nobody_reads_commits_nothing(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    command = [*_command(broker), "consume", "orders", "--group", "g", "--push"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(120) == 141
    assert broker.committed["g", "orders", 0] == 0


def test_a_member_ends_by_a_signal_and_leaves(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    command = [*_command(broker), "consume", "orders", "--group", "g", "--ordered"]
    # As a shell does it: a run started in the background may be told to ignore the signal.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)

    assert (line, process.returncode) == (b"x\n", 130)
    assert broker.committed["g", "orders", 0] == 1
    assert broker.groups["g"].members == {}


def test_an_sql_filter_is_sent_as_such(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")

    mq(broker, "consume", "orders", "--group", "g", "--sql", "size > 3")

    (document, *_) = [said for name, said in broker.documents if name == "messages:receive"]
    assert (document["filter"], document["filter_type"]) == ("size > 3", "SQL92")


def test_groups_are_listed_and_described(broker: FakeBroker) -> None:
    with PushConsumer(
        broker.url, group="g", topics="orders", listener=lambda *_: None, client_id="me"
    ):
        names = mq(broker, "group", "list")
        described = mq(broker, "group", "describe", "g")
        unknown = mq(broker, "group", "describe", "nobody")

    assert names.stdout == b"g\n"
    assert described.stdout.decode().splitlines()[1:] == [
        "member\tsubscriptions\tqueues",
        "me\torders *, %RETRY%g *\t%RETRY%g:0, orders:0, orders:1, orders:2, orders:3",
    ]
    assert unknown.returncode == 1


def test_a_reader_that_goes_away_leaves_the_messages_to_others(broker: FakeBroker) -> None:
    broker.put("orders", 0, *(b"x" * 1000 for _ in range(1000)))
    process = subprocess.Popen(
        [*_command(broker), "consume", "orders", "--group", "g"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    said = process.stderr.read()
    process.stderr.close()
    code = process.wait(120)

    assert code == 141
    assert said == b""
    assert {verb for verb, *_ in broker.settled} == {"nack"}


def test_a_message_in_json_has_all_its_fields(broker: FakeBroker) -> None:
    broker.put("orders", 2, b"\xff", tag="A")
    broker.put("orders", 2, "grün".encode())

    received = mq(broker, "consume", "orders", "--group", "g", "--format", "json")

    first, second = map(json.loads, received.stdout.splitlines())
    assert (first["queue"], first["offset"], first["tag"]) == (2, "0", "A")
    assert first["body_base64"] == "/w=="
    assert second["body"] == "grün"


def test_ordered_consumption_is_asked_of_the_broker(broker: FakeBroker) -> None:
    mq(broker, "consume", "orders", "--group", "g", "--order", "key")

    assert [document["ordered"] for _, document in broker.documents] == [True]


def test_a_tail_from_the_beginning_leaves_no_trace(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1")
    broker.put("orders", 1, b"other")

    seen = mq(broker, "tail", "orders", "--from", "begin", "--queue", "0", "--max", "2")

    assert (seen.returncode, seen.stdout) == (0, b"0\n1\n")
    assert broker.settled == []
    assert broker.committed == {}


def test_an_interrupt_ends_a_tail_without_a_traceback(broker: FakeBroker) -> None:
    held = broker.fault("/queues/3/messages", "hold")
    process = subprocess.Popen(
        [*_command(broker), "tail", "orders", "--queue", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A run in the background of a shell ignores the signal, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert held.fired.wait(60)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)

    assert process.returncode == 130
    assert said == b"mq: interrupted\n"


def test_how_a_topic_keeps_its_messages_is_set_and_shown(broker: FakeBroker) -> None:
    mq(broker, "topic", "create", "c", "--queues", "1", "--cleanup", "compact")
    mq(broker, "topic", "create", "r", "--queues", "1")
    changed = mq(broker, "topic", "set", "r", "--retention-ms", "60000")
    unknown = mq(broker, "topic", "set", "nothing", "--retention-ms", "60000")

    assert (changed.returncode, unknown.returncode) == (0, 1)
    assert mq(broker, "topic", "describe", "r").stdout.splitlines()[1] == b"retention_ms\t60000"
    assert mq(broker, "topic", "describe", "c").stdout.decode().splitlines() == [
        "c\tMIXED\t1", "cleanup\tcompact", "queue\tmin_offset\tmax_offset\tkept\tcompacted_at",
        "0\t0\t0\t?\tnever",
    ]  # fmt: skip


def test_topics_are_managed(broker: FakeBroker) -> None:
    created = mq(broker, "topic", "create", "a", "--queues", "2")
    listed = mq(broker, "topic", "list")
    described = mq(broker, "topic", "describe", "a")
    deleted = mq(broker, "topic", "delete", "a")

    assert [created.returncode, deleted.returncode] == [0, 0]
    assert listed.stdout == b"orders\tMIXED\t4\na\tMIXED\t2\n"
    assert described.stdout == b"a\tMIXED\t2\nqueue\tmin_offset\tmax_offset\n0\t0\t0\n1\t0\t0\n"
    assert "a" not in broker.topics


@pytest.mark.parametrize("mode", ["produce", "consume", "ping"])
def test_a_bench_prints_figures(broker: FakeBroker, mode: str) -> None:
    broker.put("orders", 0, *(b"x" for _ in range(20)))

    measured = mq(broker, "bench", "orders", "--mode", mode, "--messages", "20", "--size", "10")

    assert measured.returncode == 0
    assert re.search(rb" 20 messages of \d+ bytes in [\d.]+ s: \d+ messages/s", measured.stdout)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["topic", "describe", "nothing"], 1, b"mq: detail of unknown_topic [unknown_topic]\n"),
        (["topic", "describe", "a b"], 1, b"invalid_name"),
        (["topic"], 2, b"usage"),
        (["produce", "orders", "--key-regex", "("], 2, b"regular expression"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    broker: FakeBroker, words: list[str], code: int, said: bytes
) -> None:
    ended = mq(broker, *words)

    assert ended.returncode == code
    assert said in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_broker_that_stays_busy_is_told_by_the_exit_code(broker: FakeBroker) -> None:
    fault = broker.fault("messages?queue=", "status", times=10_000)

    ended = mq(broker, "produce", "orders", data=b"x\n")

    assert fault.fired_count > 1
    assert ended.returncode == 3
    assert b"sent 0 messages" in ended.stderr


def test_lines_have_a_priority(broker: FakeBroker) -> None:
    sent = mq(broker, "produce", "orders", "--priority", "9", data=b"fire\n")
    both = mq(broker, "produce", "orders", "--priority", "9", "--queue", "1", data=b"x\n")

    assert (sent.returncode, both.returncode) == (0, 2)
    assert broker.bodies("orders", 3) == [b"fire"]
    assert properties_of(broker.queues["orders", 3][0])["_SYS_MSG_PRIORITY_"] == "9"


def test_a_delayed_line_can_be_taken_back_or_sent_at_once(broker: FakeBroker) -> None:
    sent = mq(broker, "produce", "orders", "--delay-ms", "60000", data=b"a\nb\n")
    first, second = [line.split(b"\t")[0].decode() for line in sent.stdout.splitlines()]

    recalled = mq(broker, "recall", first)
    again = mq(broker, "recall", first)
    delivered = mq(broker, "recall", "--now", second)
    too_late = mq(broker, "recall", second)
    unknown = mq(broker, "recall", "nothing")

    assert (recalled.returncode, recalled.stdout) == (0, b"cancelled\n")
    assert again.returncode == 0
    assert (delivered.returncode, delivered.stdout) == (0, b"delivered\n")
    assert (too_late.returncode, unknown.returncode) == (1, 1)
    assert b"[already_delivered]" in too_late.stderr
    assert b"[unknown_handle]" in unknown.stderr
    assert sum(len(broker.bodies("orders", queue)) for queue in range(4)) == 1


def test_lines_wait_for_a_level_or_a_time(broker: FakeBroker) -> None:
    mq(broker, "produce", "orders", "--level", "3", data=b"a\n")
    mq(broker, "produce", "orders", "--deliver-at", "2030-01-01T00:00:00Z", data=b"b\n")
    wrong = [
        mq(broker, "produce", "orders", "--deliver-at", "2030-01-01T00:00:00").returncode,
        mq(broker, "produce", "orders", "--level", "3", "--delay-ms", "1").returncode,
    ]

    assert [item.due_ms for item in broker.later.levels] == [4_000]
    assert [item.due_ms for item in broker.later.delayed.values()] == [1_893_456_000_000]
    assert wrong == [2, 2]


def test_dead_letters_are_listed_and_sent_again(broker: FakeBroker) -> None:
    broker.dead_letters = [
        {
            "id": str(number), "state": "dead", "origin_topic": "orders", "message_id": "M",
            "attempt_count": 17, "reason": "no\nstock\there",
        }
        for number in range(3)
    ]  # fmt: skip

    listed = mq(broker, "dlq", "list", "g")
    some = mq(broker, "dlq", "resend", "g", "1", "2", "--topic", "orders", "--dry-run")
    every = mq(broker, "dlq", "resend", "g")

    assert listed.stdout.splitlines()[2] == b"2\tdead\torders\tM\t17\tno stock here"
    assert (some.stdout, every.stdout) == (b"job-1\n", b"job-1\n")
    assert [document for name, document in broker.documents if name.endswith(":resend")] == [
        {"dry_run": True, "ids": ["1", "2"], "topic": "orders"},
        {"dry_run": False, "all": True},
    ]
