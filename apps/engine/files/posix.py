"""The disk of the operating system. Knows descriptors and error numbers, nothing of what is stored.

Writes are `pwritev` and never `mmap`: a full disk is then an error and not a signal.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from apps.engine.errors import OutOfMeans, SyncFailed, WriteFailed
from apps.engine.files import locks
from apps.engine.files.backend import Buffer, HeldLock, NotCached
from apps.engine.files.refusals import open_refusal, read_refusal, sync_refusal, write_refusal

# Linux takes at most so many buffers in one call.
_BUFFERS_MAX = 1024


class PosixFile:
    """One open file."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open for reading and writing, closed on exec. Raises FileNotFoundError."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            self._descriptor = os.open(path, flags, 0o640)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise open_refusal(error, f"cannot open {path}") from error
        self._path = path
        self._sync_failed = False
        self._can_skip_waiting = True

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._descriptor).st_size

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers end to end from `start`, wholly. Raises StoreFull or WriteFailed."""
        if self._sync_failed:
            raise WriteFailed(f"{self._path}: a sync failed before")
        total = sum(map(len, buffers))
        try:
            written = os.pwritev(self._descriptor, buffers[:_BUFFERS_MAX], start)
            if written < total:
                self._write_rest(start, buffers, written)
        except OSError as error:
            raise write_refusal(error, f"cannot write {self._path} at {start}") from error

    def _write_rest(self, start: int, buffers: Sequence[Buffer], written: int) -> None:
        """Go on after a short write, from byte `written` of the buffers."""
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        skipped = written
        while views:
            if skipped >= len(views[0]):
                skipped -= len(views.pop(0))
                continue
            views[0], skipped = views[0][skipped:], 0
            step = os.pwritev(self._descriptor, views[:_BUFFERS_MAX], start + written)
            if step == 0:
                raise OSError(errno.EIO, "the system wrote nothing")
            written += step
            skipped = step

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        """Fill `target` from `start` and return how many bytes the file had.

        With `wait=False` raise NotCached instead of waiting for the disk; where the file system
        has no such reads it waits. Raises StoreDamaged when the disk reports an error, OutOfMeans
        when the system lacks memory.
        """
        flags = 0 if wait or not self._can_skip_waiting else os.RWF_NOWAIT
        done = 0
        while done < len(target):
            try:
                step = os.preadv(self._descriptor, [target[done:]], start + done, flags)
            except BlockingIOError as error:
                raise NotCached(f"{self._path} at {start + done}") from error
            except OSError as error:
                if flags and error.errno == errno.EOPNOTSUPP:
                    self._can_skip_waiting = False
                    flags = 0
                    continue
                raise read_refusal(error, f"cannot read {self._path} at {start}") from error
            if step == 0:
                break
            done += step
        return done

    def data_from(self, start: int) -> tuple[int, int] | None:
        """Return the next part that may hold other bytes than zeros, None where there is none.

        A hole is what reads as zeros: blocks that were never written, allocated or not, unless
        their pages are in memory. Raises StoreDamaged when the disk reports an error.
        """
        size_bytes = self.size()
        if start >= size_bytes:
            return None
        try:
            first = os.lseek(self._descriptor, start, os.SEEK_DATA)
            return first, os.lseek(self._descriptor, first, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return start, size_bytes
            raise read_refusal(error, f"cannot read {self._path} at {start}") from error

    def allocate(self, size_bytes: int) -> None:
        """Reserve blocks so that the file is `size_bytes` long.

        Raises StoreFull or WriteFailed and leaves the file as it was.
        """
        before = self.size()
        try:
            os.posix_fallocate(self._descriptor, 0, size_bytes)
        except OSError as error:
            # Some file systems keep what they had reserved before they ran out.
            os.ftruncate(self._descriptor, before)
            raise write_refusal(error, f"cannot allocate {self._path}") from error

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`. Only for files nobody else reads."""
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise write_refusal(error, f"cannot truncate {self._path}") from error

    def sync(self) -> None:
        """Return when all finished writes are on the disk.

        Raises SyncFailed. A second try could succeed without the data, so none is made: from then
        on every sync and write of this file fails.
        """
        if self._sync_failed:
            raise SyncFailed(f"{self._path}: a sync failed before")
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._sync_failed = True
            raise sync_refusal(error, f"cannot sync {self._path}") from error

    def close(self) -> None:
        """Release the descriptor. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class PosixDisk:
    """A directory of the operating system as a store's disk."""

    def __init__(self, root: Path) -> None:
        """Bind to a directory, which is made when it is absent."""
        self._root = root
        if not root.is_dir():
            root.mkdir(parents=True)
            _sync_directory(root.parent)

    def open(self, path: str, *, create: bool = False) -> PosixFile:
        """Open for reading and writing; raise FileNotFoundError when absent and not `create`."""
        return PosixFile(self._root / path, create=create)

    def exists(self, path: str) -> bool:
        """Say whether a file or directory is there."""
        return (self._root / path).exists()

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty when the directory is absent."""
        try:
            return sorted(entry.name for entry in (self._root / directory).iterdir())
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents, and sync each parent that got a new entry."""
        missing = self._root / path
        if missing.is_dir():
            return
        parts = [missing, *missing.parents]
        for part in reversed(parts[: parts.index(self._root)]):
            if not part.is_dir():
                try:
                    part.mkdir()
                except OSError as error:
                    raise write_refusal(error, f"cannot make {part}") from error
                try:
                    _sync_directory(part.parent)
                except OutOfMeans:
                    # Who finds the directory takes it for one whose name is on the disk.
                    part.rmdir()
                    raise

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens when it is absent."""
        (self._root / path).unlink(missing_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; nothing happens when it is absent."""
        if (self._root / path).exists():
            (self._root / path).rmdir()

    def rename(self, source: str, target: str) -> None:
        """Rename a file over another in one step; durable after `sync_directory` of the parent."""
        try:
            (self._root / source).replace(self._root / target)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise write_refusal(error, f"cannot rename {source}") from error

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk. Raises SyncFailed."""
        _sync_directory(self._root / path)

    def free_bytes(self) -> int:
        """Return how many bytes an ordinary user may still write."""
        figures = os.statvfs(self._root)
        return figures.f_bavail * figures.f_frsize

    def total_bytes(self) -> int:
        """Return how many bytes there would be if an ordinary user had the disk for himself."""
        figures = os.statvfs(self._root)
        return (figures.f_blocks - figures.f_bfree + figures.f_bavail) * figures.f_frsize

    def lock(self, path: str, *, owner: dict[str, object]) -> HeldLock:
        """Take the lock file, writing `owner` into it; raise StoreLocked naming the holder."""
        return locks.take(self._root / path, owner=owner)


def _sync_directory(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise open_refusal(error, f"cannot open directory {path}") from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise sync_refusal(error, f"cannot sync directory {path}") from error
    finally:
        os.close(descriptor)
