"""A broker that something runs out for: disks of a few megabytes, limits of the system, answers.

Knows what a test does to a process and what the process says of it; judges nothing.
"""

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.process.product import Broker

TOPIC = "goods"
TICKS = "celery-q-mqweb"
GROUP = "takers"
MIB = 1024 * 1024
BODY_BYTES = 3 * MIB
# Only a hang must fail; how long it took is printed.
WAIT_S = 60.0


@contextmanager
def tiny_disk(path: Path, size_mib: int) -> Iterator[Callable[[int], None]]:
    """Mount a disk of its own on `path`; gives what changes its size. PermissionError where not."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise PermissionError("no disk can be mounted here")

    def resize(size_mib: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size_mib}m", str(path)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


class Limited(Broker):
    """A broker whose limits are changed while it runs."""

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        assert self._process is not None
        return self._process.pid

    def exit_code(self, *, within_s: float) -> int:
        """Return how the process ended by itself; subprocess.TimeoutExpired when it did not."""
        assert self._process is not None
        return self._process.wait(within_s)

    def limit(self, kind: int, soft: int) -> None:
        """Change a limit of the running process."""
        _, hard = resource.prlimit(self.pid, kind)
        resource.prlimit(self.pid, kind, (soft, hard))

    @property
    def descriptors(self) -> int:
        """Return how many descriptors the process has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def highest_descriptor(self) -> int:
        """Return the highest number of a descriptor."""
        return max(int(entry.name) for entry in Path(f"/proc/{self.pid}/fd").iterdir())

    @property
    def resident_bytes(self) -> int:
        """Return how much memory the process has."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Return the lines of the log that are such events."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [found for found in map(json.loads, lines) if found.get("event") in names]

    def send(self, body: str, topic: str = TOPIC) -> tuple[int, Any]:
        """Send one message."""
        messages = [{"body": body, "queue": 0}]
        return self.call("POST", f"/api/v1/topics/{topic}/messages", {"messages": messages})

    def fill(self) -> list[str]:
        """Send large messages until the disk is full; return the starts of those acknowledged."""
        taken: list[str] = []
        while True:
            name = f"{len(taken):06d}"
            status, answer = self.send(name + "." * BODY_BYTES)
            if status == 507:
                assert answer["code"] == "store_full", answer
                return taken
            assert status == 201, answer
            taken.append(name)

    def receive(self, count: int = 1) -> list[tuple[str, str]]:
        """Receive up to `count` messages: the start of each body and its handle."""
        wanted = {"topic": TOPIC, "max": count, "wait_ms": 0, "invisible_ms": 600_000}
        status, answer = self.call("POST", f"/api/v1/groups/{GROUP}/messages:receive", wanted)
        assert status == 200, answer
        return [(one["body"][:6], one["receipt_handle"]) for one in answer["messages"]]

    def ack(self, handle: str) -> None:
        """Acknowledge a message."""
        wanted = {"receipt_handles": [handle]}
        status, answer = self.call("POST", f"/api/v1/groups/{GROUP}/messages:ack", wanted)
        assert status == 200, answer

    def drain(self) -> list[str]:
        """Receive and acknowledge all there is, one by one; return the starts of the bodies."""
        found: list[str] = []
        while got := self.receive():
            for name, handle in got:
                self.ack(handle)
                found.append(name)
        return found

    def room(self) -> str:
        """Return what readiness says of the disk."""
        status, answer = self.call("GET", "/readyz")
        assert status == 200, answer
        return str(answer["room"])


def until(condition: Callable[[], bool], *, within_s: float = WAIT_S) -> float:
    """Wait for a condition of another process; return how many seconds it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within_s, f"not within {within_s} s"
        time.sleep(0.02)
    return time.monotonic() - start
