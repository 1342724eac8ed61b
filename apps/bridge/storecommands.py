"""What the commands about a store share: where it is, how they end, how they tell of progress."""

import sys
from pathlib import Path

from django.core.management.base import CommandError

from apps.bridge import conf
from apps.bridge.exits import Exit
from apps.engine.errors import CannotOpen, Damaged, EngineError, StoreLocked
from apps.engine.verify.findings import Kind

EXITS = {
    Kind.FILES: Exit.DAMAGED_FILES,
    Kind.LOG: Exit.DAMAGED_LOG,
    Kind.QUEUES: Exit.DAMAGED_QUEUES,
    Kind.INDEX: Exit.DAMAGED_INDEX,
    Kind.TIMERS: Exit.DAMAGED_TIMERS,
    Kind.COMPACTED: Exit.DAMAGED_COMPACTED,
    Kind.STATE: Exit.DAMAGED_STATE,
    Kind.CATALOG: Exit.DAMAGED_CATALOG,
}
_STEP_BYTES = 256 * 1024 * 1024


def path_of(text: str | None) -> Path:
    """Return the directory that was named, else that of this installation's store."""
    return Path(text) if text else conf.store_path()


def refused(error: EngineError) -> CommandError:
    """Return how a command ends that cannot begin."""
    if isinstance(error, StoreLocked):
        return CommandError(str(error), returncode=Exit.HELD)
    is_final = isinstance(error, CannotOpen | Damaged)
    return CommandError(str(error), returncode=Exit.UNOPENABLE if is_final else Exit.FAILED)


class Progress:
    """Says on standard error how far a walk is, now and then."""

    def __init__(self, end: int, *, is_quiet: bool) -> None:
        """Tell of offsets up to `end`, or of nothing."""
        self._end = end
        self._is_quiet = is_quiet
        self._name = ""
        self._said = 0

    def started(self, name: str) -> None:
        """Begin a walk."""
        self._name, self._said = name, 0
        self._say(name)

    def at(self, log_offset: int) -> None:
        """Go on to a log offset."""
        if log_offset - self._said >= _STEP_BYTES:
            self._said = log_offset
            self._say(f"{self._name}: {log_offset} of {self._end}")

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            sys.stderr.write(f"{text}\n")
