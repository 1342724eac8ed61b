"""What the kernel lends a test where it may: a disk in a file, a limit of memory, a freezer.

Knows mounts and control groups, and no product. Each says in a sentence why a machine has it not.
"""

import array
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_SHUTDOWN = 0x8004587D
"""_IOR('X', 125, u32), which ext4 and xfs know; 2 is: do not even flush the journal."""
_NO_FLUSH = 2
_GROUPS = Path("/sys/fs/cgroup")
_COPIES_MAX = 200
_FREEZE_S_MAX = 60.0


class LoopDisk:
    """An ext4 file system in a file: a copy of the file is what a power cut leaves of it."""

    def __init__(self, image: Path, mounted: Path) -> None:
        """Name the file and where it is mounted; nothing is made yet."""
        self.image = image
        self.mounted = mounted

    def make(self, size_mib: int = 512) -> None:
        """Make the file, all holes, and the file system in it."""
        with self.image.open("wb") as file:
            file.truncate(size_mib * 1024 * 1024)
        _run("mkfs.ext4", "-q", "-F", str(self.image))

    def mount(self) -> None:
        """Mount it; ext4 replays its journal on the way."""
        self.mounted.mkdir(exist_ok=True)
        _run("mount", "-o", "loop", str(self.image), str(self.mounted))

    def unmount(self) -> None:
        """Unmount it, whoever has files of it open."""
        _run("umount", str(self.mounted))

    def copy(self, image: Path, *, standing_still: int) -> int:
        """Copy the file while a process stands still; return how often that was tried.

        The kernel still writes on its own account, and a copy that mixes two moments is one that
        no power cut leaves: it is taken again.
        """
        os.kill(standing_still, signal.SIGSTOP)
        try:
            for tried in range(1, _COPIES_MAX):
                before = self._requests()
                _run("cp", "--sparse=always", str(self.image), str(image))
                if self._requests() == before:
                    return tried
        finally:
            os.kill(standing_still, signal.SIGCONT)
        raise AssertionError("the disk was never quiet for as long as a copy takes")

    def shut_down(self) -> None:
        """Let every later call on the mounted disk fail, and lose what is not on it."""
        descriptor = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, array.array("I", [_NO_FLUSH]))
        finally:
            os.close(descriptor)

    def _requests(self) -> str:
        """Return the device's counts of requests, those under way included."""
        device = self.mounted.stat().st_dev
        return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()


@contextmanager
def loop_disk(directory: Path, name: str = "disk") -> Iterator[LoopDisk]:
    """Mount a new disk; skip, and say why, where that may not be done."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed: the volatile disk of test_kill.py stands for this")
    disk = LoopDisk(directory / f"{name}.img", directory / name)
    disk.make()
    with mounted(disk):
        yield disk


@contextmanager
def mounted(disk: LoopDisk) -> Iterator[None]:
    """Keep a disk mounted for a while; skip, and say why, where that may not be done."""
    try:
        disk.mount()
    except OSError as error:
        pytest.skip(f"no image can be mounted: {error}; test_kill.py has a volatile disk instead")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            disk.unmount()


@contextmanager
def memory_limit(limit_bytes: int) -> Iterator["MemoryLimit"]:
    """Make a control group that kills who needs more; skip, and say why, where there is none."""
    root = _GROUPS / "memory"
    if not os.access(root / "cgroup.procs", os.W_OK):
        pytest.skip(f"{root} is no control group to write to: kills of P1 stand for this row")
    box = MemoryLimit(root / f"mqweb-{uuid.uuid4().hex[:8]}", limit_bytes)
    try:
        yield box
    finally:
        _remove(box.path)


class MemoryLimit:
    """A control group with little memory. What its members had before they came is not counted."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Make it."""
        self.path = path
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(limit_bytes))

    def take(self, pid: int) -> None:
        """Put a process with all its threads into the group; its children will be there too."""
        (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def kills(self) -> int:
        """Return how many processes the kernel has killed for want of memory."""
        lines = (self.path / "memory.oom_control").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("oom_kill ")))


@contextmanager
def all_frozen(pids: Collection[int]) -> Iterator[str]:
    """Let processes stand still at one moment; yield how: by a control group, or by signals."""
    root = _GROUPS / "freezer"
    if not os.access(root / "cgroup.procs", os.W_OK):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield "signals"
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        return
    box = root / f"mqweb-{uuid.uuid4().hex[:8]}"
    box.mkdir()
    try:
        for pid in pids:
            # A child of a pool may have ended meanwhile.
            with suppress(ProcessLookupError):
                (box / "cgroup.procs").write_text(str(pid))
        (box / "freezer.state").write_text("FROZEN")
        deadline = time.monotonic() + _FREEZE_S_MAX
        while (box / "freezer.state").read_text().strip() != "FROZEN":
            assert time.monotonic() < deadline, "the processes were never all frozen"
            time.sleep(0.01)
        yield "freezer"
    finally:
        (box / "freezer.state").write_text("THAWED")
        for pid in (box / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (root / "cgroup.procs").write_text(pid)
        _remove(box)


def _remove(group: Path) -> None:
    """Remove a control group once the kernel has let go of who was in it."""
    deadline = time.monotonic() + _FREEZE_S_MAX
    while True:
        try:
            group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} has members"
            time.sleep(0.02)
        else:
            return


def _run(*command: str) -> None:
    """Run a program; OSError with what it said where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
