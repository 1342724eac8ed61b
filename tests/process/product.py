"""Start, kill and stop a real broker process, and talk to it over plain HTTP.

Uses the standard library only, so that what is checked is not checked by itself.
"""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.bound import bound

ROOT = Path(__file__).parents[2]
# Only a hang must fail: a start takes a second, and took a minute where twenty others wanted the
# same processor.
START_S_MAX = 240.0
STOP_S_MAX = 120.0
# Nothing listens on port 1: the broker must serve known topics without its database.
NO_DATABASE = "postgresql://nobody@127.0.0.1:1/none"
SEGMENT_BYTES = 64 * MIB


class Unanswered(Exception):
    """The request has no answer: whether it was carried out is unknown."""


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def prepare_store(data: Path, topics: dict[str, int]) -> None:
    """Make a store that knows `topics`, as a broker leaves it behind when it stops."""
    engine = await LocalEngine.open(
        data / "store", EngineConfig(segment_bytes=SEGMENT_BYTES, reserve_bytes=0)
    )
    specs = {name: TopicSpec(name=name, queue_count=count) for name, count in topics.items()}
    engine.publish_catalog(CatalogSnapshot(version=1, topics=specs))
    await engine.close()


class Broker:
    """One broker process on one data directory."""

    def __init__(self, data: Path, *command: str) -> None:
        """Choose the command that runs it: `manage.py broker` unless told otherwise."""
        self.data = data
        self.port = free_port()
        self.log = data / "broker.log"
        self._command = command or ("manage.py", "broker")
        self.is_volatile = bool(command)
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self, **topics: int) -> None:
        """Make the store before the first start."""
        self.data.mkdir(parents=True, exist_ok=True)
        asyncio.run(prepare_store(self.data, topics))

    def start(self, **variables: str) -> None:
        """Start the process and return when it serves; AssertionError with its log when not."""
        self.launch(**variables)
        code = self.settled()
        assert code is None, (code, self.log.read_text()[-4000:])

    def launch(self, **variables: str) -> None:
        """Start the process and do not wait for it."""
        environment = {**self._environment(), **variables}
        with self.log.open("ab") as log:
            command = bound([sys.executable, *self._command])
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log
            )

    def settled(self) -> int | None:
        """Return None once the process serves, or its exit code where it has ended."""
        assert self._process is not None
        deadline = time.monotonic() + START_S_MAX
        while not self.is_ready():
            code = self._process.poll()
            if code is not None:
                return code
            if time.monotonic() >= deadline:
                # Nobody else would: it keeps its port, its store and the disk it lies on.
                self.kill()
                raise AssertionError(self.log.read_text()[-4_000:])
            time.sleep(0.02)
        return None

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "MQWEB_DATA": str(self.data),
            "MQWEB_PORT": str(self.port),
            "MQWEB_SEGMENT_BYTES": str(SEGMENT_BYTES),
            "DATABASE_URL": NO_DATABASE,
            "DJANGO_SETTINGS_MODULE": "tests.process.settings_away",
            "PYTHONFAULTHANDLER": "1",
        }

    def is_ready(self) -> bool:
        """Say whether the broker answers that it serves."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except Unanswered:
            return False

    @property
    def pid(self) -> int:
        """Return the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def refused(self, **variables: str) -> tuple[int, str]:
        """Start a second process on the same store; return how it ended and what it said."""
        environment = {**self._environment(), "MQWEB_PORT": str(free_port()), **variables}
        ended = subprocess.run(
            [sys.executable, *self._command], cwd=ROOT, env=environment,
            capture_output=True, text=True, timeout=START_S_MAX, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def openings(self) -> list[dict[str, Any]]:
        """Return what each start said of the store it opened."""
        lines = self.log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in found if event["event"] == "store_opened"]

    def kill(self) -> None:
        """Kill the process as the kernel would, and wait until it is gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self) -> int:
        """Return the exit code of a process that ends by itself."""
        assert self._process is not None
        return self._process.wait(timeout=STOP_S_MAX)

    def stop(self) -> int:
        """Ask the process to stop, and return its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(timeout=STOP_S_MAX)
        except subprocess.TimeoutExpired:
            # The fault handler writes where each thread stands.
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            raise AssertionError(f"does not stop:\n{self.log.read_text()[-8000:]}") from None

    def call(self, verb: str, path: str, body: object = None) -> tuple[int, Any]:
        """Make one request on a connection of its own; raise Unanswered when it got no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} if data else {}
            connection.request(verb, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(str(error)) from error
        finally:
            connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return response.status, json.loads(text) if is_json and text else text
