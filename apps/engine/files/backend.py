"""The seam to the disk. Everything above sees these two protocols; tests put a simulated disk here.

Paths are relative to the store's root, with "/" between the parts.
"""

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class NotCached(Exception):
    """A read that may not wait would have had to; repeat it in a thread with `wait=True`."""


class File(Protocol):
    """One open file. May be used from several threads at once."""

    def size(self) -> int:
        """Return the length in bytes."""
        ...

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers end to end from `start`, wholly.

        Raises StoreFull when there is no room and WriteFailed for any other refusal; what is on
        disk between `start` and the end of the buffers is then unknown.
        """
        ...

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        """Fill `target` from `start` and return how many bytes the file had.

        With `wait=False` raise NotCached instead of waiting for the disk. Raises StoreDamaged
        when the disk reports an error.
        """
        ...

    def data_from(self, start: int) -> tuple[int, int] | None:
        """Return the next part of the file that may hold other bytes than zeros, None without.

        It begins at `start` or later, and what lies between reads as zeros. Where nothing is known
        it is all from `start` on.
        """
        ...

    def allocate(self, size_bytes: int) -> None:
        """Reserve blocks so that the file is `size_bytes` long, zeros where never written.

        Raises StoreFull and leaves the file as it was.
        """
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`. Only for files nobody else reads."""
        ...

    def sync(self) -> None:
        """Return when all finished writes are on the disk.

        Raises SyncFailed; never call it again then.
        """
        ...

    def close(self) -> None:
        """Release the descriptor. A second call does nothing."""
        ...


class HeldLock(Protocol):
    """An exclusive lock that the kernel gives back when the process ends."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class Disk(Protocol):
    """A directory tree that survives."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; raise FileNotFoundError when absent and not `create`."""
        ...

    def exists(self, path: str) -> bool:
        """Say whether a file or directory is there."""
        ...

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty when the directory is absent."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents, and sync each parent that got a new entry."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens when it is absent."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; nothing happens when it is absent."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file over another in one step; durable after `sync_directory` of the parent."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk. Raises SyncFailed."""
        ...

    def free_bytes(self) -> int:
        """Return how many bytes an ordinary user may still write."""
        ...

    def total_bytes(self) -> int:
        """Return how many bytes there would be if an ordinary user had the disk for himself."""
        ...

    def lock(self, path: str, *, owner: dict[str, object]) -> HeldLock:
        """Take the lock file, writing `owner` into it; raise StoreLocked naming the holder."""
        ...


def used_share(disk: Disk) -> float:
    """Return the share of a disk that is used, 0 to 1, of what an ordinary user may fill."""
    return 1 - disk.free_bytes() / max(1, disk.total_bytes())
