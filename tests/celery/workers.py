"""Celery workers as their users run them: processes, killed and stopped from outside."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.bound import bound
from tests.celery.effects import wait_for

ROOT = Path(__file__).parents[2]
_STOP_S = 30.0
_LOG_TAIL = 6_000


class Worker:
    """One worker with its pool, in a process group of its own."""

    def __init__(self, name: str, *arguments: str, log: Path, variables: Mapping[str, str]) -> None:
        """Start it; `wait_until_ready` returns when it takes tasks."""
        self.name = f"{name}@runs"
        self._log = log
        self._is_asked_to_end = False
        command = [sys.executable, "-m", "celery", "-A", "tests.celery.worker_app", "worker"]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                bound([*command, "-n", self.name, "-l", "INFO", *arguments], "TERM"),
                cwd=ROOT,
                env={**plain_environment(), "PYTHONPATH": str(ROOT), **variables},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """Return what it has written."""
        return self._log.read_text()

    @property
    def lives(self) -> bool:
        """Say whether its main process has not ended."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Return when it says so."""
        wait_for(lambda: self._is_ready(), f"{self.name} is ready")
        assert self.lives, self.output[-_LOG_TAIL:]

    def kill(self) -> None:
        """Kill the worker and its children at once, as a machine that dies does."""
        assert self.lives, self.output[-_LOG_TAIL:]
        os.killpg(self._process.pid, signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL

    def terminate(self) -> None:
        """Ask it to end, once: asked again while it ends, it would not end in order."""
        if not self._is_asked_to_end and self.lives:
            self._process.terminate()
        self._is_asked_to_end = True

    def stop(self) -> None:
        """Ask it to end, let its tasks end; fail when it does not, or ends with an error."""
        self.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = None
        assert code == 0, f"ended with {code}: {self.output[-_LOG_TAIL:]}"

    def _is_ready(self) -> bool:
        return not self.lives or f"{self.name} ready." in self.output


def plain_environment() -> dict[str, str]:
    """Return our variables without those that would make a worker load the product's Django."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "DJANGO_SETTINGS_MODULE" and not name.startswith("MQWEB_")
    }


@contextmanager
def running(worker: Worker) -> Iterator[Worker]:
    """Wait until a worker is ready; kill it after the block, unless it has ended in it."""
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        if worker.lives:
            worker.kill()
