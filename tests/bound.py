"""Has what tests start die with the process that runs them, however that ends. Knows no program."""

import shutil
import subprocess
import threading
from collections.abc import Sequence
from functools import cache


def bound(command: Sequence[str], stop_signal: str = "KILL") -> list[str]:
    """Return the command of a process that is sent the signal once this one is gone.

    The command is left as it is where the system has no means to that, and in a thread other than
    the main one, whose end the kernel would take for that of the process.
    """
    binder = _binder()
    if binder is None or threading.current_thread() is not threading.main_thread():
        return [*command]
    return [binder, "--pdeathsig", stop_signal, "--", *command]


@cache
def _binder() -> str | None:
    """Return the program that binds the one it becomes to its parent."""
    found = shutil.which("setpriv")
    if found is None:
        return None
    tried = subprocess.run([found, "--pdeathsig", "KILL", "true"], capture_output=True, check=False)
    return None if tried.returncode else found
