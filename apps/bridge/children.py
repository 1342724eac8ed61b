"""Child processes that never outlive their parent. Knows processes, not what they do."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from apps.bridge.exits import FINAL
from apps.bridge.secretfiles import PRIVATE_FILE

_PR_SET_PDEATHSIG = 1

# Loaded before any fork: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a child is started and asked to stop.

    `stop_signal` also reaches the child from the kernel when its parent is killed (Linux only).
    """

    name: str
    command: Sequence[str]
    stop_signal: signal.Signals = signal.SIGTERM
    harsher_signals: Sequence[signal.Signals] = (signal.SIGKILL,)
    final_codes: frozenset[int] = FINAL
    """Exit codes after which another start would end the same way."""
    resting_codes: frozenset[int] = frozenset()
    """Exit codes after which it is not started again, and the others go on without it."""
    is_finite: bool = False
    """Whether it has done its work when it ends with exit code 0."""
    environ: Mapping[str, str] | None = None
    account: pwd.struct_passwd | None = None
    log_file: Path | None = None
    inherited: Sequence[int] = ()
    """Descriptors the child keeps open for as long as it, or a child of its own, lives."""


class Child:
    """One running program, in a process group of its own.

    Ctrl-C in a terminal reaches the whole foreground group; apart from it, children are stopped
    in the order their parent chooses.
    """

    def __init__(self, program: Program) -> None:
        """Start the program; raise OSError where it cannot be executed."""
        self.program = program
        output = _opened(program.log_file)
        account = program.account
        try:
            self._process = subprocess.Popen(
                list(program.command),
                env=None if program.environ is None else dict(program.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=tuple(program.inherited),
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
                cwd=None if account is None else "/",
                preexec_fn=_bound_to_parent(program.stop_signal),
            )
        finally:
            if output is not None:
                output.close()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the program runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Return the exit code when the program has ended."""
        return self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the program has ended."""
        self._process.send_signal(number)


def _opened(path: Path | None) -> IO[bytes] | None:
    if path is None:
        return None
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    return os.fdopen(descriptor, "ab")


def _bound_to_parent(stop_signal: signal.Signals) -> Callable[[], None] | None:
    if _LIBC is None:
        return None
    libc, parent_pid = _LIBC, os.getpid()

    def bind() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(stop_signal))
        # The parent may have died before the kernel was told.
        if os.getppid() != parent_pid:
            os._exit(1)

    return bind
