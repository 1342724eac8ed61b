"""What tasks did, one line an effect, in a file that many processes append to and a test reads."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# Generous: only a hang must fail.
DEADLINE_S = 90.0
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One thing that a task did."""

    key: str
    what: str
    task_id: str
    attempt: int
    """How often this task was retried before, by Celery's own count."""
    pid: int
    worker: str
    at_s: float
    """Seconds of the machine's monotonic clock, the same for all processes."""


class Effects:
    """The effects in one directory. Lines are appended whole, so writers need no lock."""

    def __init__(self, directory: Path) -> None:
        """Use an existing directory."""
        self._directory = directory
        self._path = directory / "effects"
        self._position = 0
        self._by_key: defaultdict[str, list[Effect]] = defaultdict(list)

    def note(self, effect: Effect) -> None:
        """Append one effect."""
        line = json.dumps(asdict(effect)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def happens_first(self, key: str) -> bool:
        """Say whether nobody asked this for a key before: an effect that must not come twice."""
        try:
            os.close(os.open(self._directory / f"once-{key}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def gate(self, key: str) -> Path:
        """Return the file that a task which holds at a gate waits for."""
        return self._directory / f"gate-{key}"

    def of_key(self, key: str) -> list[Effect]:
        """Return the effects of a key so far, in the order of the file."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._position)
                text, newline, _ = file.read().rpartition(b"\n")
            self._position += len(text) + len(newline)
            for line in text.splitlines():
                effect = Effect(**json.loads(line))
                self._by_key[effect.key].append(effect)
        return self._by_key[key]

    def of(self, key: str, what: str = "done") -> list[Effect]:
        """Return the effects of one kind of a key."""
        return [effect for effect in self.of_key(key) if effect.what == what]

    def wait_for(self, key: str, what: str = "done", count: int = 1) -> list[Effect]:
        """Return a key's effects when there are so many; fail when that does not happen."""
        wait_for(lambda: len(self.of(key, what)) >= count, f"{count} x {what} of {key}")
        return self.of(key, what)


def wait_for(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when a condition holds; fail, saying what was waited for, when it never does."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"did not happen in {deadline_s:.0f} s: {what}"
        time.sleep(_LOOK_S)
