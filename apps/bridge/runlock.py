"""One start at a time on a data directory, and no start before the last one's children are gone.

run.lock        held by the supervisor; JSON that names it
children.lock   held by every child through an inherited descriptor
"""

import fcntl
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from apps.bridge.secretfiles import PRIVATE_DIRECTORY, PRIVATE_FILE
from apps.engine.clock import Clock
from apps.engine.processes import identity

_PROBE_S = 0.1
# Longer than a broker and a PostgreSQL take to end after their supervisor was killed.
_ORPHANS_MS_MAX = 20_000


class AlreadyRuns(Exception):
    """Another start holds the data directory; the text says which."""


class RunLock:
    """Both locks. The kernel gives them back when the processes that hold them end."""

    def __init__(self, data: Path, *, clock: Clock, sleep: Callable[[float], None]) -> None:
        """Take the locks, waiting for children that a killed supervisor left behind.

        Raises AlreadyRuns.
        """
        data.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        self._own = _opened(data / "run.lock")
        if not _is_taken(self._own):
            refusal = AlreadyRuns(_sentence_about_holder(self._own))
            os.close(self._own)
            raise refusal
        _write_owner(self._own, clock)
        self.for_children = _opened(data / "children.lock")
        deadline_ms = clock.monotonic_ms() + _ORPHANS_MS_MAX
        while not _is_taken(self.for_children):
            if clock.monotonic_ms() >= deadline_ms:
                self.release()
                raise AlreadyRuns("processes of an earlier start on this store have not ended")
            sleep(_PROBE_S)

    def release(self) -> None:
        """Close our descriptors; a child that still lives keeps its lock."""
        os.close(self._own)
        os.close(self.for_children)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_owner(descriptor: int, clock: Clock) -> None:
    started_at = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).isoformat(timespec="seconds")
    pid = os.getpid()
    text = json.dumps({"pid": pid, "identity": identity(pid), "started_at": started_at})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _sentence_about_holder(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        return (
            f"mqweb already runs on this store: pid {owner['pid']}, "
            f"started at {owner['started_at']}"
        )
    except (ValueError, KeyError, TypeError):
        # The holder has locked the file and not yet written its name.
        return "mqweb already runs on this store: it has only just been started"
