"""One owner a store, by the kernel's word, whatever happens to processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.engine.errors import StoreLocked
from apps.engine.files import locks

OWNER: dict[str, object] = {"pid": 4711, "started_at": "2026-01-02T03:04:05+00:00", "host": "h"}

HOLD = """
import os, sys
from pathlib import Path
from apps.engine.files import locks
lock = locks.take(Path(sys.argv[1]), owner={"pid": os.getpid(), "started_at": "then"})
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def hold(path: Path) -> "subprocess.Popen[str]":
    """Start a process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_lock_file_names_its_owner(path: Path) -> None:
    lock = locks.take(path, owner=OWNER)

    assert json.loads(path.read_text()) == OWNER
    lock.release()
    assert path.read_text() == ""


def test_another_process_is_named_in_the_refusal_and_its_death_frees_the_store(
    path: Path,
) -> None:
    with hold(path) as process:
        with pytest.raises(StoreLocked, match=f"process {process.pid} .* started at then"):
            locks.take(path, owner=OWNER)
        process.send_signal(signal.SIGKILL)
        process.wait()

    locks.take(path, owner=OWNER).release()


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_a_holder_that_has_not_named_itself_yet_is_refused_all_the_same(
    path: Path, content: str
) -> None:
    lock = locks.take(path, owner=OWNER)
    path.write_text(content)

    with pytest.raises(StoreLocked, match="process unknown") as refused:
        locks.take(path, owner=OWNER)

    assert refused.value.owner == {}
    lock.release()


def test_opening_and_closing_the_file_elsewhere_does_not_lose_the_lock(path: Path) -> None:
    lock = locks.take(path, owner=OWNER)

    path.read_bytes()

    with pytest.raises(StoreLocked):
        locks.take(path, owner=OWNER)
    lock.release()


def test_a_forked_child_does_not_keep_the_lock(path: Path) -> None:
    lock = locks.take(path, owner=OWNER)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)  # Lives until the parent is done.
        os._exit(0)

    lock.release()
    deadline = time.monotonic() + 10
    while True:
        # The child closes its copy as its first act; until then the lock is still shared.
        try:
            again = locks.take(path, owner=OWNER)
            break
        except StoreLocked:
            assert time.monotonic() < deadline

    again.release()
    os.close(write_end)
    os.close(read_end)
    assert os.waitpid(child, 0)[1] == 0


def test_the_descriptor_is_closed_in_programs_that_are_started(path: Path) -> None:
    lock = locks.take(path, owner=OWNER)

    assert not os.get_inheritable(lock._descriptor)
    lock.release()
