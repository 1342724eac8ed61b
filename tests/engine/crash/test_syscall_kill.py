"""Kill -9 a real process at its Nth call of the system, whatever the engine names its places.

Row P3 of the fault table. Where failpoints stand somebody thought of; here the kernel's own calls
are counted by strace. Cannot show lost pages: the kernel keeps them. Without strace there are the
failpoints of `test_kill.py`.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.engine.files.posix import PosixDisk
from apps.engine.log.commitlog import CommitLog
from apps.engine.testing.contracts.log import SMALL, bodies_of, run_of
from apps.engine.testing.manualclock import ManualClock
from tests.engine.crash.test_kill import CHILD
from tests.rounds import report, rounds

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
# What a run without a kill makes of each is more.
CALLS = {"fdatasync": 50, "fsync": 36, "rename": 30, "pwritev2": 50, "fallocate": 8}
# The same, and the front of the log goes as it goes by retention: first said, then stored, then
# unlinked. By number which frames are left, for what is in them does not tell.
CLEANING = """
from apps.engine.log.retained import Retained

def clean(log):
    bases = log.front.bases(log.synced_offset)
    if len(bases) > 2:
        print(f"start:{bases[-2]}", flush=True)
        log.front.store_start(Retained(log_start=bases[-2]))
        for file in log.front.give_up(bases[-2]):
            file.close()
        log.front.sweep(lambda: None)
"""
CLEANING_CHILD = CLEANING + CHILD.replace(
    "        log.checkpoint()", "        log.checkpoint(); clean(log)"
)
UNLINK = "unlink,unlinkat"
UNLINKS = 5
SLICE = {
    "fdatasync": (2, 31),
    "fsync": (9, 20),
    "rename": (3, 11),
    "pwritev2": (7,),
    "fallocate": (2,),
}
# `make crash` takes every so many of them; more rounds take more.
STEP = max(1, 5 // rounds(1))


@functools.cache
def strace() -> str:
    """Return the program; skip, and say why, where it is not there or may not trace."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed: the failpoints of test_kill.py stand for this row")
    may_trace = subprocess.run([found, "-o", os.devnull, "true"], capture_output=True, check=False)
    if may_trace.returncode:
        pytest.skip(f"strace may not trace here: {may_trace.stderr[:200]!r}")
    return found


def killed_at(store: Path, call: str, number: int, child: str = CHILD) -> list[str]:
    """Run a child until its Nth call of the system; return what it had said."""
    # Not with --seccomp-bpf: with it a signal at the Nth call may never come.
    command = [strace(), "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}"]
    command += ["-e", f"inject={call}:signal=SIGKILL:when={number}"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", child, str(store), ""],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk/src'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert ended.returncode == -signal.SIGKILL, f"the kill did not come: {ended.stderr[-2_000:]}"
    assert "closed" not in ended.stdout
    return ended.stdout.split()


def check_kill(store: Path, call: str, number: int) -> int:
    """Kill a child and hold the log to what it was told; return how much it was told."""
    said = killed_at(store, call, number)
    expected = [b"%d:" % row + bytes(5000) for row in range(100)]

    log = CommitLog.open(PosixDisk(store), config=SMALL, clock=ManualClock())

    found = bodies_of(log)
    assert said.count("acked") <= len(found) <= said.count("sent")
    assert found == expected[: len(found)]
    log.append([run_of([b"goes on"])])
    log.close(clean=True)
    again = CommitLog.open(PosixDisk(store), config=SMALL, clock=ManualClock())
    assert bodies_of(again) == [*found, b"goes on"]
    again.close(clean=True)
    return said.count("acked")


def check_kill_while_cleaning(store: Path, call: str, number: int) -> int:
    """Kill a child whose log loses its front; return from which log offset on it is kept."""
    said = killed_at(store, call, number, CLEANING_CHILD)
    starts = [0, *(int(word.partition(":")[2]) for word in said if word.startswith("start:"))]
    acked, sent = said.count("acked"), said.count("sent")

    log = CommitLog.open(PosixDisk(store), config=SMALL, clock=ManualClock())

    # What was never told to go is there, whichever names of segments the kill has left.
    assert log.log_start in starts[-2:]
    numbers = [int(body.partition(b":")[0]) for body in bodies_of(log)]
    first, end = (numbers[0], numbers[-1] + 1) if numbers else (0, 0)
    assert numbers == list(range(first, end))
    assert acked <= end <= sent
    assert (first == 0) == (log.log_start == 0)
    log.append([run_of([b"100:goes on"])])
    log.close(clean=True)
    again = CommitLog.open(PosixDisk(store), config=SMALL, clock=ManualClock())
    assert len(bodies_of(again)) == len(numbers) + 1
    assert again.log_start == log.log_start
    again.close(clean=True)
    return log.log_start


def test_a_kill_at_an_unlink_loses_only_what_was_to_go(tmp_path: Path) -> None:
    assert check_kill_while_cleaning(tmp_path / "store", UNLINK, 2) > 0


@pytest.mark.crash
def test_a_kill_at_any_unlink_loses_only_what_was_to_go(tmp_path: Path) -> None:
    starts = [
        check_kill_while_cleaning(tmp_path / f"store-{number}", UNLINK, number)
        for number in range(1, UNLINKS + 1)
    ]
    # And around it, where the start is stored.
    starts += [
        check_kill_while_cleaning(tmp_path / f"{call}-{number}", call, number)
        for call in ("rename", "fsync")
        for number in range(3, CALLS[call], 3 * STEP)
    ]

    assert starts == sorted(starts[:UNLINKS]) + starts[UNLINKS:]
    report("P3 unlink", kills=len(starts), lost=0)


@pytest.mark.parametrize(
    ("call", "number"), [(call, number) for call, some in SLICE.items() for number in some]
)
def test_a_kill_at_a_call_of_the_system_loses_nothing(
    tmp_path: Path, call: str, number: int
) -> None:
    check_kill(tmp_path / "store", call, number)


@pytest.mark.crash
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_a_call_of_the_system_loses_nothing_long(tmp_path: Path, call: str) -> None:
    numbers = range(1, CALLS[call] + 1, STEP)
    acked = [check_kill(tmp_path / f"store-{number}", call, number) for number in numbers]

    assert max(acked) > 0
    report(f"P3 {call}", kills=len(acked), acked=sum(acked), lost=0)
