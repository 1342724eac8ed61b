"""Kill -9 a real process that delivers and moves delayed messages, at every named place.

Shows half-done sequences on real files; each message is in its queue once, or waits.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.engine.broker.core import open_broker
from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.testing.manualclock import ManualClock
from tests.engine.broker.delayed import CONFIG, TINY, bodies, deliver, move, publish

# The child says a message's name before it sends it, and "done" when it is synced.
CHILD = """
import sys
from pathlib import Path
from apps.engine.broker.core import open_broker
from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.testing.manualclock import ManualClock
from tests.engine.broker.delayed import CONFIG, TINY, deliver, move, publish, send_at, sync

clock = ManualClock()
broker = open_broker(
    PosixDisk(Path(sys.argv[1])),
    config=CONFIG,
    clock=clock,
    failpoints=Failpoints(sys.argv[2]),
    tuning=TINY,
)
publish(broker, t=2)
for number in range(60):
    names = [f"m{number}-{row}" for row in range(4)]
    print(*(f"sent {name}" for name in names), sep="\\n", flush=True)
    send_at(broker, {name: clock.wall_ms() + 97 * (row + 1) for row, name in enumerate(names)})
    sync(broker)
    print(*(f"done {name}" for name in names), sep="\\n", flush=True)
    clock.advance(20)
    deliver(broker)
    if number % 3 == 2:
        move(broker)
broker.close()
print("closed -", flush=True)
"""
PLACES = [
    "timer.before_run",
    "timer.after_run",
    "journal.before_append",
    "journal.after_append",
    "log.after_write",
    "log.before_sync",
    "checkpoint.before_replace",
    "checkpoint.after_replace",
]


def run_child(store: Path, plan: str) -> tuple[int, set[str], set[str]]:
    """Run the child; return how it ended, what it began to send and what it was told is stored."""
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(store), plan],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split() for line in ended.stdout.splitlines()]
    sent = {name for what, name in lines if what == "sent"}
    return ended.returncode, sent, {name for what, name in lines if what == "done"}


def check_kill(store: Path, plan: str) -> None:
    """Kill a child as planned, start again and let all time go by."""
    ended, sent, done = run_child(store, plan)
    assert ended == -signal.SIGKILL, "the failpoint did not fire"
    clock = ManualClock()
    clock.advance(60 * 20)
    broker = open_broker(
        PosixDisk(store), config=CONFIG, clock=clock, failpoints=Failpoints(), tuning=TINY
    )
    publish(broker, t=2)
    deliver(broker)
    move(broker)
    clock.advance(1_000)
    deliver(broker)
    there = bodies(broker)
    broker.close()

    assert len(there) == len(set(there)), "delivered twice"
    assert done <= set(there) <= sent


@pytest.mark.process
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_named_place_delivers_each_message_once(tmp_path: Path, place: str) -> None:
    check_kill(tmp_path / "store", f"{place}=kill(5)")


@pytest.mark.process
@pytest.mark.crash
@pytest.mark.parametrize("occurrence", [1, 2, 3, 9, 14])
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_named_place_delivers_each_message_once_long(
    tmp_path: Path, place: str, occurrence: int
) -> None:
    check_kill(tmp_path / "store", f"{place}=kill({occurrence})")


@pytest.mark.process
def test_a_child_that_is_not_killed_delivers_and_stops(tmp_path: Path) -> None:
    ended, sent, done = run_child(tmp_path / "store", "")

    assert ended == 0
    assert len(sent) == len(done) == 240
