"""Named places where a test may stop, fail or kill the process. A dictionary look-up otherwise.

Written `name=action` and joined by `;`, for example in MQWEB_FAILPOINTS:

    log.before_sync=kill(3)      kill -9 this process at the third pass
    log.before_write=error(1)    raise OSError(EIO) at the first pass
    files.allocate=full(2)       raise OSError(ENOSPC) from the second pass on
"""

import errno
import os
import re
import signal
from collections import Counter

# Every place the engine asks; a test proves that each is used and documented.
NAMES = frozenset(
    {
        "log.before_write",
        "log.after_write",
        "log.before_sync",
        "log.after_sync",
        "log.before_roll",
        "log.after_roll",
        "checkpoint.before_replace",
        "checkpoint.after_replace",
        "derived.before_flush",
        "derived.after_flush",
        "derived.before_remake",
        "derived.after_remake",
        "journal.before_append",
        "journal.after_append",
        "files.allocate",
        "index.before_write",
        "index.after_write",
        "timer.before_run",
        "timer.after_run",
        "retention.before_start",
        "retention.after_start",
        "retention.before_unlink",
        "retention.after_unlink",
        "compaction.before_file",
        "compaction.after_file",
        "compaction.after_manifest",
        "compaction.before_remove",
    }
)

_ACTION = re.compile(r"(kill|error|full)\((\d+)\)")


class Failpoints:
    """Count passes through named places, and act at the chosen one."""

    def __init__(self, plan: str = "") -> None:
        """Read a plan; raise ValueError for an unknown name or action."""
        self.passes: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self._actions: dict[str, tuple[str, int]] = {}
        for item in filter(None, (part.strip() for part in plan.split(";"))):
            name, _, action = item.partition("=")
            match = _ACTION.fullmatch(action)
            if name not in NAMES or match is None:
                raise ValueError(f"unknown failpoint {item!r}")
            self._actions[name] = (match[1], int(match[2]))
        # For who passes often: where nothing is planned, `hit` does nothing.
        self.is_planned = bool(self._actions)

    def hit(self, name: str) -> None:
        """Pass the place `name`; may raise OSError or never return."""
        action = self._actions.get(name)
        if action is None:
            return
        kind, occurrence = action
        self.passes[name] += 1
        count = self.passes[name]
        if count < occurrence or (count > occurrence and kind != "full"):
            return
        self.fired[name] += 1
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC if kind == "full" else errno.EIO, f"failpoint {name}")
