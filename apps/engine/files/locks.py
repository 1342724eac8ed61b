"""The lock on a store: one owner, named in the file, gone with the process.

Knows one file; not what it guards. It is `flock` and not `fcntl`: a record lock is lost as soon as
any descriptor of the file is closed anywhere in the process.
"""

import fcntl
import json
import os
import weakref
from pathlib import Path

from apps.engine.errors import StoreLocked

_OWNER_BYTES_MAX = 65_536


class FileLock:
    """A held lock. The kernel gives it back when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor that holds the lock."""
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Clear the owner and give the lock back. A second call does nothing."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
        self.abandon()

    def abandon(self) -> None:
        """Close this process's copy of the descriptor; a copy elsewhere keeps the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _abandon_all() -> None:
    for lock in list(_held):
        lock.abandon()


# A forked child shares the lock and would keep it after its parent's death.
os.register_at_fork(after_in_child=_abandon_all)


def is_held(path: Path) -> bool:
    """Say whether a process holds the lock at this moment, without taking it for longer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def take(path: Path, *, owner: dict[str, object]) -> FileLock:
    """Lock the file and write `owner` into it as JSON.

    Raises StoreLocked with the present owner; it is empty when the file does not tell.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _read_owner(descriptor)
        os.close(descriptor)
        raise refusal(holder) from error
    content = json.dumps(owner, ensure_ascii=False).encode()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)
    return FileLock(descriptor)


def refusal(owner: dict[str, object]) -> StoreLocked:
    """Return the error that names who holds a store."""
    who = f"process {owner.get('pid', 'unknown')} on {owner.get('host', 'this host')}"
    since = owner.get("started_at", "an unknown time")
    return StoreLocked(f"the store is in use by {who}, started at {since}", owner=owner)


def _read_owner(descriptor: int) -> dict[str, object]:
    try:
        owner = json.loads(os.pread(descriptor, _OWNER_BYTES_MAX, 0))
    except ValueError:
        # The holder is between taking the lock and writing its name.
        return {}
    return owner if isinstance(owner, dict) else {}
