"""Live views in a process that has no broker: over a real Redis, with more locks than a page has.

What travels is bounded in bytes, and the grid is live within that bound.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bound import bound
from tests.process.product import ROOT, Broker, free_port
from tests.process.redis_server import RedisServer
from tests.web.console.live import Held

pytestmark = pytest.mark.process

TOPICS, QUEUES = 8, 250
LOCKS = TOPICS * QUEUES
GROUP = "billing"
# Frames come once a second; this many are looked at before the test says that it never comes.
FRAMES_MAX = 120


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def broker(tmp_path: Path, redis: RedisServer) -> Iterator[Broker]:
    found = Broker(tmp_path / "data")
    found.prepare(**{f"orders-{number}": QUEUES for number in range(TOPICS)})
    found.start(REDIS_URL=redis.url)
    yield found
    found.kill()


@contextmanager
def watching(view: str, redis: RedisServer) -> Iterator["Frames"]:
    """Watch a view in a process of its own."""
    process = subprocess.Popen(
        bound([sys.executable, "-m", "tests.process.elsewhere", view]),
        cwd=ROOT,
        env={
            **os.environ,
            "REDIS_URL": redis.url,
            "DJANGO_SETTINGS_MODULE": "mqweb.settings",
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Frames(process)
    finally:
        process.kill()
        process.communicate()


class Frames:
    """What a viewer elsewhere is sent, as its page holds it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._held = Held()

    def until(self, is_wanted: Any) -> dict[str, Any]:
        """Return the first picture that is wanted; fail when it does not come."""
        assert self._process.stdout is not None
        for _ in range(FRAMES_MAX):
            line = self._process.stdout.readline()
            assert line, "the process elsewhere has ended"
            shown = self._held.take(json.loads(line))
            if is_wanted(shown):
                return shown
        raise AssertionError(f"not among {FRAMES_MAX} frames; the last one was {shown}")


def lock(broker: Broker, client: str, topic: int, queues: range) -> None:
    places = [{"topic": f"orders-{topic}", "queue": queue} for queue in queues]
    document = {"client_id": client, "queues": places}
    status, answer = broker.call("POST", f"/api/v1/groups/{GROUP}/locks:acquire", document)
    assert (status, len(answer["locked"])) == (200, len(places)), answer


def unlock(broker: Broker, client: str, topic: int, queue: int) -> None:
    document = {"client_id": client, "queues": [{"topic": f"orders-{topic}", "queue": queue}]}
    status, answer = broker.call("POST", f"/api/v1/groups/{GROUP}/locks:release", document)
    assert status < 300, answer


def test_a_page_of_two_thousand_locks_is_live_in_another_process(
    broker: Broker, redis: RedisServer
) -> None:
    for topic in range(TOPICS):
        lock(broker, "till-1", topic, range(QUEUES))

    with watching("locks.page=3", redis) as page, watching("locks.owner=till-2", redis) as owned:
        first = page.until(lambda shown: shown.get("row_count") == LOCKS)
        none = owned.until(lambda shown: shown.get("row_count") == LOCKS)
        # The lock of a queue on the third page goes to somebody else.
        place = (2 * 400 + 7) // QUEUES, (2 * 400 + 7) % QUEUES
        unlock(broker, "till-1", *place)
        lock(broker, "till-2", place[0], range(place[1], place[1] + 1))

        moved = page.until(lambda shown: shown["rows"][7]["owner"] == "till-2")
        its = owned.until(lambda shown: shown["found_count"] == 1)

    assert (first["known"], len(first["rows"]), first["held_count"]) == ("live", 400, LOCKS)
    assert none["found_count"] == 0
    assert moved["kind"] == "delta"
    assert its["rows"][0]["id"] == f"{GROUP}/orders-{place[0]}/{place[1]}"
