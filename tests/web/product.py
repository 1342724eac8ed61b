"""The product as its user runs it: `manage.py runmq` in a directory of its own, on a free port."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from apps.bridge import embedded
from tests import prepared
from tests.bound import bound

ROOT = Path(__file__).resolve().parents[2]
# Generous: a machine under load is slow, and only a hang must fail.
READY_S = 180
STOP_S = 90
PROBE_S = 0.05
SMALL_SEGMENTS = str(64 * 1024 * 1024)


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(**variables: str) -> dict[str, str]:
    """Return what a person's shell would give the product: nothing of this test run's own.

    Whatever names the run's settings or its worker would lead the product to another store.
    """
    unwanted = (
        "MQWEB_", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "REDIS_URL", "CELERY_", "PYTEST_",
    )  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    # Products of tests run side by side; who wants the gRPC door says on which port.
    return kept | {"MQWEB_GRPC_PORT": "0"} | variables


class Product:
    """One start of the product; without worker and beat unless `worker_processes` are wanted."""

    def __init__(
        self,
        data: Path,
        *,
        port: int | None = None,
        worker_processes: int = 0,
        switches: Sequence[str] = (),
        migrates: bool = False,
        **variables: str,
    ) -> None:
        """Start it on `data`; the first start finds a migrated database unless it `migrates`."""
        if not (migrates or "DATABASE_URL" in variables or embedded.Cluster(data).is_made):
            prepared.copy_to(data)
        self.data = data
        self.port = port or free_port()
        self.lines: list[str] = []
        self._has_ended = threading.Event()
        command = [sys.executable, "manage.py", "runmq", "--data", str(data)]
        command += ["--worker-processes", str(worker_processes), "--port", str(self.port)]
        command += ["--segment-bytes", SMALL_SEGMENTS]
        self.process = subprocess.Popen(
            bound([*command, *switches]),
            cwd=ROOT,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """Return everything it has written."""
        return "\n".join(self.lines)

    def wait_until_ready(self) -> None:
        """Return when the line that says so is there."""
        wait_for(lambda: "mqweb is ready" in self.output or self.process.poll() is not None)
        assert self.process.poll() is None, self.output

    def end(self) -> int:
        """Return the exit code once it has ended and all it wrote is read."""
        code = self.process.wait(STOP_S)
        self._reader.join(STOP_S)
        return code

    def interrupt(self) -> int:
        """Press Ctrl-C and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def family(self) -> list[psutil.Process]:
        """Return all processes below it."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, part: str) -> psutil.Process:
        """Return the newest process of a part, by what the log says."""
        started = [event["pid"] for event in self.events("part_started") if event["part"] == part]
        return psutil.Process(started[-1])

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log events of a name."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [event for event in found if event["event"] == name]

    def request(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and the parsed body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            payload = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            text = answer.read()
            is_json = "json" in (answer.headers.get("content-type") or "")
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, json.loads(text) if is_json and text else text
        finally:
            connection.close()

    def kill_everything(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        if self.process.poll() is None:
            family = self.family()
            self.process.kill()
            for process in family:
                if process.is_running():
                    process.kill()
            self.process.wait()
        self._reader.join(STOP_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


def lives(process: psutil.Process) -> bool:
    """Say whether a process still does anything; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Any, timeout_s: float = READY_S) -> None:
    """Return when `condition()` is true; fail when it does not become so in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(PROBE_S)
