"""Write a client's history as it happens. Knows one file; judges nothing.

Every line is one write to a file opened to append, so a client that is killed tears its last line
at most, and what its process wrote before a request left stays written.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.histories.events import Event, Kind, Verb, to_line


class Recorder:
    """The history of one process. Any thread may use it."""

    def __init__(
        self,
        path: Path,
        process: str,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Append to the file at `path`, making it; `process` must be unique in the run."""
        self._process = process
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._numbers = itertools.count()
        # The time is taken under the lock, so that the lines of a file are in order of time.
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def invoke(self, verb: Verb, **asked: Any) -> "Running":
        """Write that an operation begins; call this before its request leaves."""
        number = next(self._numbers)
        self._write(number, Kind.INVOKE, verb, asked)
        return Running(lambda kind, told: self._write(number, kind, verb, told))

    def notice(self, verb: Verb, **values: Any) -> None:
        """Write that something happened at this moment."""
        self._write(next(self._numbers), Kind.INFO, verb, values)

    def close(self) -> None:
        """Close the file; what was written stays whatever happens to the process."""
        os.close(self._file)

    def _write(self, number: int, kind: Kind, verb: Verb, values: dict[str, Any]) -> None:
        with self._lock:
            at_ns, wall_ns = self._monotonic_ns(), self._wall_ns()
            line = to_line(Event(self._process, number, kind, verb, at_ns, wall_ns, values))
            written = os.write(self._file, line)
        assert written == len(line), "the disk of the test is full"


class Running:
    """An operation that was invoked and has no completion yet."""

    def __init__(self, complete: Callable[[Kind, dict[str, Any]], None]) -> None:
        self._complete = complete

    def ok(self, **told: Any) -> None:
        """Write that the other side did it."""
        self._complete(Kind.OK, told)

    def fail(self, code: str, **told: Any) -> None:
        """Write that the other side proved that nothing happened."""
        self._complete(Kind.FAIL, {"code": code, **told})

    def info(self, code: str, **told: Any) -> None:
        """Write that nobody knows what happened."""
        self._complete(Kind.INFO, {"code": code, **told})
