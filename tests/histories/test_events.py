"""Lines are written whole, read back as they were, and a torn end costs one line only."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.histories.events import Event, Kind, MalformedEvent, Verb, of_line, to_line
from tests.histories.history import NEVER_NS, of_events, read
from tests.histories.recorder import Recorder

ROOT = Path(__file__).parents[2]
EVENT = Event("c", 3, Kind.OK, Verb.SEND, 17, 18, {"places": [[0, 1]], "text": "\n\u2028 ü"})
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.histories.events import Verb
from tests.histories.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), "killed")
recorder.invoke(Verb.SEND, number=0).ok()
recorder.invoke(Verb.SEND, number=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_line_comes_back_as_the_event_it_was() -> None:
    line = to_line(EVENT)

    assert of_line(line) == EVENT
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"7",
        b'{"process": "c"}',
        to_line(EVENT)[:-5],
        to_line(EVENT).replace(b'"ok"', b'"maybe"'),
        to_line(EVENT).replace(b'"send"', b'"shout"'),
        to_line(EVENT).replace(b'"number":3', b'"number":"3"'),
        to_line(EVENT).replace(b'"at_ns":17', b'"at_ns":null'),
        json.dumps({**EVENT._asdict(), "values": []}).encode(),
        json.dumps({**EVENT._asdict(), "more": 1}).encode(),
        b"\xff\xfe",
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedEvent):
        of_line(line)


def test_a_recorder_writes_the_invocation_first_and_then_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with Recorder(path, "c", monotonic_ns=iter(range(9)).__next__, wall_ns=lambda: 7) as recorder:
        running = recorder.invoke(Verb.SEND, topic="t")
        (before,) = path.read_bytes().splitlines()
        running.ok(places=[])
        recorder.invoke(Verb.COMMIT).fail("lock_lost")
        recorder.invoke(Verb.PULL).info("unanswered")
        recorder.notice(Verb.ASSIGN, queues=[])

    history = read(tmp_path)

    assert of_line(before) == Event("c", 0, Kind.INVOKE, Verb.SEND, 0, 7, {"topic": "t"})
    assert [(o.verb, o.kind, o.start_ns, o.end_ns) for o in history.operations] == [
        (Verb.SEND, Kind.OK, 0, 1),
        (Verb.COMMIT, Kind.FAIL, 2, 3),
        (Verb.PULL, Kind.INFO, 4, 5),
    ]
    assert [o.told.get("code") for o in history.operations] == [None, "lock_lost", "unanswered"]
    assert [notice.verb for notice in history.notices] == [Verb.ASSIGN]


def test_threads_and_recorders_share_a_file_without_tearing_lines(tmp_path: Path) -> None:
    recorders = [Recorder(tmp_path / "all.jsonl", f"c{number}") for number in range(4)]

    def write(recorder: Recorder) -> None:
        for number in range(200):
            recorder.invoke(Verb.SEND, text="x" * number).ok()

    threads = [threading.Thread(target=write, args=(r,)) for r in recorders for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for recorder in recorders:
        recorder.close()

    history = read(tmp_path)

    assert len(history.operations) == 8 * 200
    assert all(operation.is_ok for operation in history.operations)
    assert history.torn_lines == 0


def test_what_a_killed_client_wrote_before_it_died_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed.jsonl")]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode

    done, under_way = read(tmp_path).operations

    assert code == -signal.SIGKILL
    assert (done.is_ok, done.asked) == (True, {"number": 0})
    assert (under_way.kind, under_way.end_ns) == (Kind.INFO, NEVER_NS)


@pytest.mark.parametrize("kept_bytes", range(1, len(to_line(EVENT))))
def test_a_torn_last_line_is_left_out_and_counted(tmp_path: Path, kept_bytes: int) -> None:
    invoked = EVENT._replace(kind=Kind.INVOKE)
    path = tmp_path / "c.jsonl"
    path.write_bytes(to_line(invoked) + to_line(EVENT)[:kept_bytes])

    history = read(tmp_path)

    assert [operation.end_ns for operation in history.operations] == [NEVER_NS]
    assert history.torn_lines == 1


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(to_line(EVENT)[:20] + b"\n" + to_line(EVENT))

    with pytest.raises(MalformedEvent):
        read(tmp_path)


@pytest.mark.parametrize(
    "events",
    [
        [EVENT],
        [EVENT._replace(kind=Kind.INVOKE), EVENT._replace(kind=Kind.INVOKE)],
        [EVENT._replace(kind=Kind.INVOKE), EVENT, EVENT],
        [EVENT._replace(kind=Kind.INVOKE), EVENT._replace(verb=Verb.PULL)],
        [EVENT._replace(kind=Kind.INFO), EVENT._replace(kind=Kind.INFO)],
    ],
    ids=["no invocation", "two invocations", "two completions", "another verb", "notice twice"],
)
def test_events_that_do_not_pair_up_are_an_error(events: list[Event]) -> None:
    with pytest.raises(MalformedEvent):
        of_events(events)
