"""A store's directory without the means to change it. Knows descriptors, nothing of a store."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from apps.engine.errors import NotPermitted
from apps.engine.files.backend import Buffer, HeldLock
from apps.engine.files.refusals import open_refusal, read_refusal


class ReadOnlyFile:
    """One file, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open, closed on exec. Raises FileNotFoundError, or OutOfMeans."""
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise NotPermitted(f"cannot read {path}: {error.strerror}") from error
        except OSError as error:
            raise open_refusal(error, f"cannot open {path}") from error
        self._path = path

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        """Fill `target` from `start` and return how many bytes the file had; always waits."""
        del wait
        done = 0
        while done < len(target):
            try:
                step = os.preadv(self._descriptor, [target[done:]], start + done)
            except OSError as error:
                raise read_refusal(error, f"cannot read {self._path} at {start}") from error
            if step == 0:
                break
            done += step
        return done

    def data_from(self, start: int) -> tuple[int, int] | None:
        """Return all from `start` on; None where the file ends before."""
        size_bytes = self.size()
        return (start, size_bytes) if start < size_bytes else None

    def close(self) -> None:
        """Release the descriptor. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        """Refuse."""
        del start, buffers
        _refuse(self._path)

    def allocate(self, size_bytes: int) -> None:
        """Refuse."""
        del size_bytes
        _refuse(self._path)

    def truncate(self, size_bytes: int) -> None:
        """Refuse."""
        del size_bytes
        _refuse(self._path)

    def sync(self) -> None:
        """Refuse."""
        _refuse(self._path)


class ReadOnlyDisk:
    """A directory of the operating system; whatever would change it raises NotPermitted."""

    def __init__(self, root: Path) -> None:
        """Bind to a directory."""
        self._root = root

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        """Open for reading; raise FileNotFoundError when absent."""
        if create:
            _refuse(self._root / path)
        return ReadOnlyFile(self._root / path)

    def exists(self, path: str) -> bool:
        """Say whether a file or directory is there."""
        return (self._root / path).exists()

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty when the directory is absent."""
        try:
            return sorted(entry.name for entry in (self._root / directory).iterdir())
        except FileNotFoundError:
            return []

    def free_bytes(self) -> int:
        """Return how many bytes an ordinary user may still write."""
        figures = os.statvfs(self._root)
        return figures.f_bavail * figures.f_frsize

    def total_bytes(self) -> int:
        """Return how many bytes the disk has."""
        figures = os.statvfs(self._root)
        return figures.f_blocks * figures.f_frsize

    def make_directory(self, path: str) -> None:
        """Refuse."""
        _refuse(self._root / path)

    def remove(self, path: str) -> None:
        """Refuse."""
        _refuse(self._root / path)

    def remove_directory(self, path: str) -> None:
        """Refuse."""
        _refuse(self._root / path)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        del target
        _refuse(self._root / source)

    def sync_directory(self, path: str) -> None:
        """Refuse."""
        _refuse(self._root / path)

    def lock(self, path: str, *, owner: dict[str, object]) -> HeldLock:
        """Refuse."""
        del owner
        _refuse(self._root / path)


def _refuse(path: Path) -> NoReturn:
    raise NotPermitted(f"{path} belongs to a store that is only looked at")
