"""What a run's driver has written on standard error, kept in a file a run. Knows files alone.

A file that has grown to half of its room becomes the older one, so that the end of a log is there
whatever its length.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO

HALF_BYTES_MAX = 2 * 1024 * 1024
RUNS_KEPT = 500


def path_of(directory: Path, run_id: int) -> Path:
    """Return where the log of a run lies."""
    return directory / "logs" / f"run-{run_id}.log"


def tail(directory: Path, run_id: int, *, tail_bytes: int) -> str:
    """Return the end of a run's log as text; empty where there is none on this machine."""
    path = path_of(directory, run_id)
    found = b""
    for file in (path, _older(path)):
        if len(found) < tail_bytes:
            found = _end_of(file, tail_bytes - len(found)) + found
    return found.decode("utf-8", "replace")


def size_bytes(directory: Path, run_id: int) -> int:
    """Return how long the newer file of a run's log is by now; 0 where there is none here."""
    try:
        return path_of(directory, run_id).stat().st_size
    except FileNotFoundError:
        return 0


class RunLog:
    """Takes bytes, and keeps them while a run has it."""

    def __init__(self, directory: Path) -> None:
        """Keep nothing yet."""
        self._directory = directory
        self._lock = Lock()
        self._path: Path | None = None
        self._file: IO[bytes] | None = None

    @contextmanager
    def of_run(self, run_id: int) -> Iterator[None]:
        """Keep what comes during the block; delete the logs of runs long ago."""
        path = path_of(self._directory, run_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget(path.parent)
        with self._lock:
            self._path, self._file = path, path.open("ab", buffering=0)
        try:
            yield
        finally:
            with self._lock:
                self._file.close()
                self._path = self._file = None

    def write(self, data: bytes) -> None:
        """Keep bytes, where a run has the log. Raises OSError, as when the disk is full."""
        with self._lock:
            if self._file is None or self._path is None:
                return
            if self._file.tell() + len(data) > HALF_BYTES_MAX:
                self._file.close()
                self._path.replace(_older(self._path))
                self._file = self._path.open("ab", buffering=0)
            self._file.write(data[-HALF_BYTES_MAX:])


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")


def _end_of(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read(count)
    except FileNotFoundError:
        return b""


def _forget(directory: Path) -> None:
    numbers = sorted(int(path.stem[4:]) for path in directory.glob("run-*.log"))
    for number in numbers[:-RUNS_KEPT]:
        path = directory / f"run-{number}.log"
        path.unlink(missing_ok=True)
        _older(path).unlink(missing_ok=True)
