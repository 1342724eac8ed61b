"""Real processes: children that die with their parent, and locks the kernel gives back."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from apps.bridge.children import Child, Program
from apps.bridge.runlock import AlreadyRuns, RunLock
from apps.engine.clock import SystemClock
from tests.web.product import lives, wait_for

pytestmark = pytest.mark.process

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
PARENT = """
import os, sys, time
from pathlib import Path
from apps.bridge.children import Child, Program
from apps.bridge.runlock import RunLock
from apps.engine.clock import SystemClock

lock = RunLock(Path(sys.argv[1]), clock=SystemClock(), sleep=time.sleep)
child = Child(Program(name="c", command=[sys.executable, "-c", sys.argv[2]],
                      inherited=(lock.for_children,)))
print(child.pid, flush=True)
time.sleep(600)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@pytest.fixture
def parents() -> Iterator[list[subprocess.Popen[str]]]:
    """Hold the parents a test starts, and leave none behind."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for parent in started:
        parent.kill()
        parent.communicate()


def a_parent(data: Path, program: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    command = [sys.executable, "-c", PARENT, str(data), program]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, psutil.Process(int(parent.stdout.readline()))


def lock_on(data: Path) -> RunLock:
    return RunLock(data, clock=SystemClock(), sleep=time.sleep)


def test_a_child_dies_when_its_parent_is_killed(
    tmp_path: Path, parents: list[subprocess.Popen[str]]
) -> None:
    parent, child = a_parent(tmp_path, "import time; time.sleep(600)")
    parents.append(parent)
    assert child.is_running()

    parent.kill()

    wait_for(lambda: not lives(child))


def test_ctrl_c_in_a_terminal_does_not_reach_a_child() -> None:
    child = Child(Program(name="sleeper", command=SLEEPER))

    try:
        assert os.getpgid(child.pid) != os.getpgid(0)
    finally:
        child.send(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_a_second_start_is_told_who_runs(
    tmp_path: Path, parents: list[subprocess.Popen[str]]
) -> None:
    parent, _ = a_parent(tmp_path, "import time; time.sleep(600)")
    parents.append(parent)

    with pytest.raises(AlreadyRuns, match=rf"pid {parent.pid}, started at 2\d\d\d-.*\+00:00"):
        lock_on(tmp_path)


def test_a_killed_holder_leaves_no_lock(
    tmp_path: Path, parents: list[subprocess.Popen[str]]
) -> None:
    parent, _ = a_parent(tmp_path, "import time; time.sleep(600)")
    parents.append(parent)
    parent.kill()
    parent.wait()

    lock = lock_on(tmp_path)

    assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()
    lock.release()


def test_a_start_waits_for_children_that_outlive_a_killed_supervisor(
    tmp_path: Path, parents: list[subprocess.Popen[str]]
) -> None:
    parent, child = a_parent(tmp_path, STUBBORN)
    parents.append(parent)
    # The child must be deaf to SIGTERM before its parent dies.
    while not _ignores_sigterm(child.pid):
        os.sched_yield()
    parent.kill()
    parent.wait()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            child.kill()
        time.sleep(0.01)

    lock = RunLock(tmp_path, clock=SystemClock(), sleep=sleep)

    assert len(waits) >= 3
    lock.release()


def test_a_child_that_never_ends_makes_the_start_give_up(
    tmp_path: Path, parents: list[subprocess.Popen[str]]
) -> None:
    parent, child = a_parent(tmp_path, STUBBORN)
    parents.append(parent)
    while not _ignores_sigterm(child.pid):
        os.sched_yield()
    parent.kill()
    parent.wait()

    class Hasty:
        now_ms = 0

        def wall_ms(self) -> int:
            return 0

        def monotonic_ms(self) -> int:
            self.now_ms += 10_000
            return self.now_ms

    with pytest.raises(AlreadyRuns, match="have not ended"):
        RunLock(tmp_path, clock=Hasty(), sleep=lambda _: None)

    child.kill()


def test_a_log_file_of_a_child_is_private(tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    command = [sys.executable, "-c", "print('said')"]

    code = Child(Program(name="speaker", command=command, log_file=log_file)).wait()

    assert code == 0
    assert log_file.read_text() == "said\n"
    assert log_file.stat().st_mode & 0o777 == 0o600


def _ignores_sigterm(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) & (1 << (signal.SIGTERM - 1)))
    return False
