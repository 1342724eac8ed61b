"""A real disk whose page cache lies in this process: kill -9 loses what was not synced.

With it a whole product can be put through a power cut by killing it. Knows the disk seam only;
directory operations go straight through, bytes wait for `sync`.
"""

import threading
from collections.abc import Sequence

from apps.engine.files.backend import Buffer, Disk, File, HeldLock


class _Cache:
    """Unsynced writes of one file, shared by all who opened it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pending: list[tuple[int, bytes]] = []

    def end(self) -> int:
        return max((start + len(data) for start, data in self.pending), default=0)


class _VolatileFile:
    """A file that keeps writes back until they are synced."""

    def __init__(self, base: File, cache: _Cache) -> None:
        self._base = base
        self._cache = cache

    def size(self) -> int:
        with self._cache.lock:
            return max(self._base.size(), self._cache.end())

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        with self._cache.lock:
            self._cache.pending.append((start, data))

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        del wait  # The disk behind is only read in tests, where waiting does no harm.
        with self._cache.lock:
            found = self._base.read_into(start, target)
            for at, data in self._cache.pending:
                first, stop = max(at, start), min(at + len(data), start + len(target))
                if first < stop:
                    target[first - start : stop - start] = data[first - at : stop - at]
                    found = max(found, stop - start)
            return found

    def data_from(self, start: int) -> tuple[int, int] | None:
        with self._cache.lock:
            if not self._cache.pending:
                return self._base.data_from(start)
        return (start, self.size()) if start < self.size() else None

    def allocate(self, size_bytes: int) -> None:
        self._base.allocate(size_bytes)

    def truncate(self, size_bytes: int) -> None:
        with self._cache.lock:
            self._cache.pending.clear()
            self._base.truncate(size_bytes)

    def sync(self) -> None:
        with self._cache.lock:
            pending, self._cache.pending = self._cache.pending, []
            for start, data in pending:
                self._base.write(start, [data])
        self._base.sync()

    def close(self) -> None:
        self._base.close()


class VolatileDisk:
    """A disk in front of another one that loses unsynced bytes with the process."""

    def __init__(self, base: Disk) -> None:
        """Put the cache in front of `base`."""
        self._base = base
        self._caches: dict[str, _Cache] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file behind the cache."""
        base = self._base.open(path, create=create)
        return _VolatileFile(base, self._caches.setdefault(path, _Cache()))

    def exists(self, path: str) -> bool:
        """Say whether the path is there."""
        return self._base.exists(path)

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory."""
        return self._base.names(directory)

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        self._base.make_directory(path)

    def remove(self, path: str) -> None:
        """Remove a file and what was cached of it."""
        self._caches.pop(path, None)
        self._base.remove(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        self._base.remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file with what is cached of it."""
        self._base.rename(source, target)
        self._caches[target] = self._caches.pop(source, _Cache())

    def sync_directory(self, path: str) -> None:
        """Sync a directory."""
        self._base.sync_directory(path)

    def free_bytes(self) -> int:
        """Return the room of the disk behind."""
        return self._base.free_bytes()

    def total_bytes(self) -> int:
        """Return the size of the disk behind."""
        return self._base.total_bytes()

    def lock(self, path: str, *, owner: dict[str, object]) -> HeldLock:
        """Take a lock file of the disk behind."""
        return self._base.lock(path, owner=owner)
