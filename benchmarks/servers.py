"""Server processes of a run: started on a free loopback port, stopped and seen to be gone."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

HOST = "127.0.0.1"
_START_S = 60.0
_STOP_S = 20.0
_LOOK_S = 0.05
_LOG_TAIL_BYTES = 2000

# Loaded before any fork: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ServerFailed(Exception):
    """A server did not start; the text ends with what it wrote."""


def free_port() -> int:
    """Return a TCP port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Say whether something accepts connections on a port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _end_with_parent() -> None:
    # A run that is killed must not leave servers behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))


class Server:
    """One running server, in a process group of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start the command; its output goes to a file in `directory`."""
        self._log_path = directory / "server.log"
        self._log: IO[bytes] = self._log_path.open("wb")
        self._process = subprocess.Popen(
            list(command),
            env={**os.environ, **(environ or {})},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    @property
    def pid(self) -> int:
        """Return the process that was started."""
        return self._process.pid

    def wait_for(self, port: int) -> None:
        """Return when the port accepts connections; raise ServerFailed when it never does."""
        deadline_s = time.monotonic() + _START_S
        while not answers(port):
            if self._process.poll() is not None:
                raise ServerFailed(f"ended with code {self._process.returncode}: {self._tail()}")
            if time.monotonic() >= deadline_s:
                raise ServerFailed(f"does not answer after {_START_S:.0f} s: {self._tail()}")
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Ask the whole group to end, then insist; return when the process has ended."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _tail(self) -> str:
        return self._log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
