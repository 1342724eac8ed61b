"""A simulated disk of which one operation fails, or that one and all later ones.

Knows the disk seam and its errors, which are those of the real disk. Operations are counted in the
order they come, of all kinds together.
"""

import errno
from collections import Counter
from collections.abc import Sequence

from apps.engine.errors import EngineError, StoreDamaged, StoreFull, SyncFailed, WriteFailed
from apps.engine.files.backend import Buffer
from apps.engine.testing.simdisk import SimulatedDisk, SimulatedFile

_ERRORS: dict[str, type[EngineError]] = {
    "open": WriteFailed,
    "read": StoreDamaged,
    "write": WriteFailed,
    "allocate": StoreFull,
    "truncate": WriteFailed,
    "sync": SyncFailed,
    "make directory": WriteFailed,
    "rename": WriteFailed,
    "sync directory": SyncFailed,
}


class FailingDisk(SimulatedDisk):
    """Set `fail_at` to the number of an operation from now on, 1 for the next."""

    def __init__(self) -> None:
        """Count and fail nothing."""
        super().__init__()
        self.count = 0
        self.fail_at: int | None = None
        self.is_lasting = False
        self.failed: Counter[str] = Counter()

    def begin(self, fail_at: int, *, is_lasting: bool) -> None:
        """Count from here, and fail that operation; with `is_lasting` also all behind it."""
        self.count, self.fail_at, self.is_lasting = 0, fail_at, is_lasting

    def pass_by(self, what: str, path: str) -> None:
        """Count an operation, and fail it where that is ordered."""
        self.count += 1
        if self.fail_at is None or self.count < self.fail_at:
            return
        if self.count > self.fail_at and not self.is_lasting:
            return
        self.failed[what] += 1
        if what == "remove":
            raise OSError(errno.EIO, f"cannot remove {path}: simulated")
        raise _ERRORS[what](f"cannot {what} {path}: simulated")

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open a file whose operations are counted too."""
        if create or self.exists(path):
            self.pass_by("open", path)
        found = super().open(path, create=create)
        return _FailingFile(self, found._inode, path)

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        if not self.exists(path):
            self.pass_by("make directory", path)
        super().make_directory(path)

    def remove(self, path: str) -> None:
        """Remove a file."""
        if self.exists(path):
            self.pass_by("remove", path)
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        self.pass_by("rename", source)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Sync a directory."""
        self.pass_by("sync directory", path)
        super().sync_directory(path)


class _FailingFile(SimulatedFile):
    """An open file of a failing disk."""

    _disk: FailingDisk

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        self._disk.pass_by("write", self._path)
        super().write(start, buffers)

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        self._disk.pass_by("read", self._path)
        return super().read_into(start, target, wait=wait)

    def allocate(self, size_bytes: int) -> None:
        self._disk.pass_by("allocate", self._path)
        super().allocate(size_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._disk.pass_by("truncate", self._path)
        super().truncate(size_bytes)

    def sync(self) -> None:
        self._disk.pass_by("sync", self._path)
        super().sync()
