"""Celery's messages on Redis, and Redis killed and paused: messages flow, the clockwork goes on.

Row D6 of the fault table for the one part of the product that may need Redis.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from mqweb.schedule import SCHEDULE
from tests.clockwork.machine import Machine
from tests.process.redis_server import RedisServer
from tests.web.product import free_port, wait_for

pytestmark = [pytest.mark.process, pytest.mark.crash]

TASK = "metrics.sample_statistics"
TOPIC = "orders"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def machine(redis: RedisServer) -> Iterator[Machine]:
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with Machine(data, worker_processes=2, CELERY_BROKER_URL=redis.url) as machine:
        machine.product.request("PUT", f"/api/v1/topics/{TOPIC}", {})
        yield machine
    shutil.rmtree(data)


@pytest.mark.parametrize(
    ("begin", "end"),
    [(RedisServer.kill, RedisServer.start), (RedisServer.pause, RedisServer.resume)],
    ids=["killed", "paused"],
)
def test_the_clockwork_stands_still_without_its_redis_and_goes_on_with_it(
    machine: Machine,
    redis: RedisServer,
    begin: Callable[[RedisServer], None],
    end: Callable[[RedisServer], None],
) -> None:
    machine.wait_for_runs(TASK, 2)
    assert machine.ticks() == 0, "ticks went through mqweb itself"

    begin(redis)
    wait_for(lambda: machine.product.request("GET", "/api/v1/clockwork")[2]["stands_still"])
    for _ in range(100):
        path = f"/api/v1/topics/{TOPIC}/messages"
        assert machine.product.request("POST", path, {"messages": [{"body": "x"}]})[0] == 201
    end(redis)
    machine.wait_for_runs(TASK, 2, after=len(machine.wait_for_runs(TASK, 0)))

    for name, every_s in SCHEDULE.items():
        slots = [run.slot(every_s) for run in machine.runs(name)]
        assert len(slots) == len(set(slots)), name
    assert machine.product.interrupt() == Exit.OK
