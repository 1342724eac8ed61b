"""A file system that is frozen under the broker: the truth is told meanwhile, and nothing is lost.

Needs root, a loop device and fsfreeze; says so where they are missing.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.limited import TICKS, TOPIC, WAIT_S, Limited, until
from tests.process.product import Unanswered
from tests.process.test_failing_disk import Sender

pytestmark = [pytest.mark.process, pytest.mark.crash]
DISK_MIB = 256


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """Mount a file system of its own; skip where that cannot be done."""
    image = path / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    target = path / "mounted"
    target.mkdir()
    steps = (
        ["mkfs.ext4", "-q", "-F", str(image)],
        ["mount", "-o", "loop", str(image), str(target)],
    )
    for step in steps:
        if subprocess.run(step, capture_output=True, check=False).returncode:
            pytest.skip(f"{step[0]} cannot be done here")
    try:
        yield target
    finally:
        subprocess.run(["fsfreeze", "-u", str(target)], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", str(target)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() or not all(map(shutil.which, ("fsfreeze", "mkfs.ext4", "mount"))):
        pytest.skip("freezing a file system needs root, mkfs.ext4, mount and fsfreeze")
    with small_disk(tmp_path) as mounted:
        yield mounted


def freeze(disk: Path) -> None:
    subprocess.run(["fsfreeze", "-f", str(disk)], check=True)


def thaw(disk: Path) -> None:
    subprocess.run(["fsfreeze", "-u", str(disk)], check=True)


class Doubtful(Sender):
    """A send that may get no answer."""

    def run(self) -> None:
        try:
            super().run()
        except Unanswered:
            self.status = 0


def is_held(broker: Limited) -> bool:
    """Say whether the process waits in the kernel for the file system."""
    status = Path(f"/proc/{broker.pid}/task/{broker.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "D"


def test_a_frozen_disk_is_told_within_3_s_and_nothing_is_lost_after_the_thaw(
    tmp_path: Path, disk: Path
) -> None:
    broker = Limited(disk / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(MQWEB_SEGMENT_BYTES=str(34 << 20), MQWEB_RESERVE_BYTES=str(1 << 20))
    taken = []
    for number in range(20):
        name = f"{number:06d}"
        assert broker.send(name)[0] == 201
        taken.append(name)

    freeze(disk)
    numbered = {"body": "unsure", "queue": 0, "producer_id": "p", "producer_seq": 1}
    first = Doubtful(broker, numbered)
    first.start()
    until(lambda: is_held(broker))
    noticed_s = until(lambda: _ready(broker)[0] == 503, within_s=WAIT_S)
    assert _ready(broker) == (503, "sync_stuck")
    assert broker.call("GET", "/healthz")[0] == 200
    status, problem = broker.send("never.")
    assert (status, problem["code"], problem["retriable"]) == (503, "sync_stuck", True)
    threading.Event().wait(8.0)
    assert _ready(broker) == (503, "sync_stuck")

    thaw(disk)
    thawed_s = until(lambda: _ready(broker)[0] == 200)
    first.join()
    assert first.status in (0, 201, 503)
    print(f"noticed after {noticed_s:.1f} s, ready {thawed_s:.1f} s after the thaw")

    again = Sender(broker, numbered)
    again.run()
    assert (again.status, again.answer["results"][0]["repeat"]) == (201, True)
    assert broker.send("after.")[0] == 201
    assert broker.drain() == [*taken, "unsure", "after."]
    (still,) = broker.events("loop_stands_still")
    assert still["at"].startswith("apps.engine.files.")
    assert len(broker.events("loop_goes_on")) == 1
    assert broker.stop() == 0


def test_a_broker_that_is_killed_on_a_frozen_disk_ends_at_the_thaw_and_loses_nothing(
    tmp_path: Path, disk: Path
) -> None:
    broker = Limited(disk / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(MQWEB_SEGMENT_BYTES=str(34 << 20), MQWEB_RESERVE_BYTES=str(1 << 20))
    taken = [f"{number:06d}" for number in range(20)]
    for name in taken:
        assert broker.send(name)[0] == 201

    freeze(disk)
    first = Doubtful(broker, {"body": "unsure", "queue": 0})
    first.start()
    until(lambda: is_held(broker))
    # As the supervisor does with who does not stop: it takes hold when the disk goes on.
    os.kill(broker.pid, signal.SIGKILL)
    threading.Event().wait(1.0)
    with pytest.raises(subprocess.TimeoutExpired):
        broker.exit_code(within_s=0.1)
    thaw(disk)
    assert broker.exit_code(within_s=WAIT_S) == -signal.SIGKILL
    first.join()

    broker.start(MQWEB_SEGMENT_BYTES=str(34 << 20), MQWEB_RESERVE_BYTES=str(1 << 20))
    found = broker.drain()
    assert found[: len(taken)] == taken
    assert set(found[len(taken) :]) <= {"unsure"}
    assert broker.stop() == 0


def _ready(broker: Limited) -> tuple[int, str | None]:
    """Return what readiness says; nothing within a moment is an answer of its own."""
    try:
        status, answer = broker.call("GET", "/readyz")
    except Unanswered:
        return 0, None
    return status, answer.get("code")
