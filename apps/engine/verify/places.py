"""Where a store lies, for who looks at it from outside. Knows the disk of the system."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apps.engine.clock import Clock
from apps.engine.config import EngineConfig
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.locks import is_held
from apps.engine.files.posix import PosixDisk
from apps.engine.types import RecoveryReport
from apps.engine.verify import rebuild as rebuilding
from apps.engine.verify.store import Store, open_store


def is_running(path: Path) -> bool:
    """Say whether a broker has the store."""
    return is_held(path / "lock")


@contextmanager
def looked_at(path: Path) -> Iterator[Store]:
    """Look at the store in a directory, up to its last checkpoint where a broker has it.

    Raises StoreDamaged, ForeignSegment or UnknownFormat where nothing can be looked at.
    """
    if not path.is_dir():
        raise StoreDamaged(f"{path} is no directory")
    store = open_store(PosixDisk(path), is_running=is_running(path))
    try:
        yield store
    finally:
        store.close()


def rebuild(
    path: Path,
    parts: set[rebuilding.Part],
    *,
    accept_loss: bool,
    config: EngineConfig,
    clock: Clock,
    failpoints: Failpoints,
) -> tuple[int, RecoveryReport | None]:
    """Accept what is lost, where that is asked for, and make parts of a stopped store anew.

    Returns how many places were accepted, and what opening the store found. Raises StoreLocked
    where a broker has the store, and StoreDamaged.
    """
    if not path.is_dir():
        raise StoreDamaged(f"{path} is no directory")
    disk = PosixDisk(path)
    lock = disk.lock("lock", owner={"command": "rebuild"})
    try:
        accepted = rebuilding.accept_loss(disk) if accept_loss else 0
        if not parts:
            return accepted, None
        report = rebuilding.rebuild(disk, parts, config=config, clock=clock, failpoints=failpoints)
        return accepted, report
    finally:
        lock.release()
