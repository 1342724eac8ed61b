"""Ends the process that holds a lock file, so that another can take its place. Linux only.

Knows lock files and processes, not what they guard. It proves that the number in the file is still
the process that wrote it, waits until the kernel has it ended, and opens nothing itself: whatever
it wrote is written by then, and it never writes again.
"""

import fcntl
import json
import logging
import os
import select
import signal
from pathlib import Path
from typing import Any

from apps.engine.processes import identity

# A holder that serves closes its store within this; one that hangs is killed after it.
STOP_MS = 1_500
# Longer for one that stops others in their order.
SUPERVISOR_STOP_MS = 15_000
_KILL_MS = 10_000
_OWNER_BYTES_MAX = 65_536

_log = logging.getLogger("mqweb.broker")


class CannotTakeOver(Exception):
    """The holder is not known for sure, or cannot be ended; the text says why."""


def end_holder(lock: Path, *, stop_ms: int = STOP_MS) -> bool:
    """Stop who holds a lock, by force after a while; return whether anybody did.

    Returns when the process has ended. Raises CannotTakeOver, and then has signalled nobody, or
    somebody who does not end.
    """
    owner = _owner_of(lock)
    if owner is None:
        return False
    pid, name = owner.get("pid"), owner.get("identity")
    if not isinstance(pid, int) or not isinstance(name, str):
        raise CannotTakeOver(f"{lock} does not say for sure which process holds it")
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise CannotTakeOver(
            f"process {pid} has ended, and one that it left behind holds {lock}"
        ) from error
    except (AttributeError, OSError) as error:
        raise CannotTakeOver(f"process {pid} cannot be ended from here: {error}") from error
    try:
        # The descriptor is of one process for good; whether of the right one is known from here on.
        if identity(pid) != name:
            raise CannotTakeOver(f"process {pid} is not the one that holds {lock}")
        number = _end(process, pid, stop_ms)
    finally:
        os.close(process)
    _log.warning("store_taken_over", extra={"pid": pid, "signal": number.name})
    return True


def _owner_of(lock: Path) -> dict[str, Any] | None:
    """Return what the holder wrote about itself, empty where nothing; None without a holder."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, _OWNER_BYTES_MAX, 0)
    else:
        return None
    finally:
        os.close(descriptor)
    try:
        owner = json.loads(text)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _end(process: int, pid: int, stop_ms: int) -> signal.Signals:
    """Ask a process to end, then kill it; return what ended it."""
    for number, patience_ms in ((signal.SIGTERM, stop_ms), (signal.SIGKILL, _KILL_MS)):
        try:
            signal.pidfd_send_signal(process, number)
        except ProcessLookupError:
            return number
        except PermissionError as error:
            raise CannotTakeOver(f"process {pid} is somebody else's") from error
        if _has_ended(process, patience_ms):
            return number
    raise CannotTakeOver(f"process {pid} was killed and does not end")


def _has_ended(process: int, patience_ms: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(patience_ms))
