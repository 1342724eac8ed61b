"""Kill -9 a real process at every named place of the log; what it acknowledged is there.

Shows half-done sequences on real files. Cannot show lost pages: the kernel keeps them.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.engine.files.posix import PosixDisk
from apps.engine.log.commitlog import CommitLog
from apps.engine.testing.contracts.log import SMALL, bodies_of, run_of
from apps.engine.testing.manualclock import ManualClock

# The child says "sent" before a write and "acked" after its sync, each before it goes on.
CHILD = """
import sys
from pathlib import Path
from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.log.commitlog import CommitLog
from apps.engine.testing.contracts.log import SMALL, run_of
from apps.engine.testing.manualclock import ManualClock

log = CommitLog.open(
    PosixDisk(Path(sys.argv[1])),
    config=SMALL,
    clock=ManualClock(),
    failpoints=Failpoints(sys.argv[2]),
)
for number in range(100):
    print("sent", flush=True)
    log.append([run_of([b"%d:" % number + bytes(5000)])])
    log.sync()
    print("acked", flush=True)
    if number % 5 == 4:
        log.checkpoint()
log.close(clean=True)
print("closed", flush=True)
"""

PLACES = [
    "log.before_write",
    "log.after_write",
    "log.before_sync",
    "log.after_sync",
    "log.before_roll",
    "log.after_roll",
    "checkpoint.before_replace",
    "checkpoint.after_replace",
    "files.allocate",
]


def run_child(store: Path, plan: str) -> tuple[int, list[str]]:
    """Run the child on a store; return how it ended and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(store), plan],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.split()


def check_kill(store: Path, plan: str) -> None:
    """Kill a child as planned and hold the log to what the child was told."""
    ended, said = run_child(store, plan)
    assert ended == -signal.SIGKILL, "the failpoint did not fire"
    expected = [b"%d:" % number + bytes(5000) for number in range(100)]

    log = CommitLog.open(PosixDisk(store), config=SMALL, clock=ManualClock())

    found = bodies_of(log)
    assert said.count("acked") <= len(found) <= said.count("sent")
    assert found == expected[: len(found)]
    log.append([run_of([b"goes on"])])
    log.close(clean=True)


@pytest.mark.process
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_named_place_loses_nothing(tmp_path: Path, place: str) -> None:
    check_kill(tmp_path / "store", f"{place}=kill(3)")


@pytest.mark.process
@pytest.mark.crash
@pytest.mark.parametrize("occurrence", [1, 2, 4, 5, 6])
@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_named_place_loses_nothing_long(
    tmp_path: Path, place: str, occurrence: int
) -> None:
    check_kill(tmp_path / "store", f"{place}=kill({occurrence})")


@pytest.mark.process
def test_a_child_that_is_not_killed_stops_cleanly(tmp_path: Path) -> None:
    ended, said = run_child(tmp_path / "store", "")

    assert (ended, said.count("acked"), said[-1]) == (0, 100, "closed")
    log = CommitLog.open(PosixDisk(tmp_path / "store"), config=SMALL, clock=ManualClock())
    assert log.recovery.clean
    log.close(clean=True)
