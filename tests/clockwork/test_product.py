"""Worker and beat as parts of the product: started, kept running, and stopped in order."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.bridge.exits import Exit
from mqweb.schedule import SCHEDULE
from tests.web.product import ROOT, Product, lives, wait_for

pytestmark = pytest.mark.process

Start = Callable[..., Product]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the product with a worker and a beat, and leave nothing of it behind."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    started: list[Product] = []

    def begin(**variables: Any) -> Product:
        product = Product(data, **{"worker_processes": 1, **variables})
        started.append(product)
        product.wait_until_ready()
        return product

    yield begin
    for product in started:
        product.kill_everything()
    shutil.rmtree(data)


def clockwork(product: Product) -> dict[str, Any]:
    status, _, answer = product.request("GET", "/api/v1/clockwork")
    assert status == 200
    found: dict[str, Any] = answer
    return found


def runs(product: Product) -> dict[str, int]:
    return {task["name"]: task["run_count"] for task in clockwork(product)["tasks"]}


def pids(product: Product, part: str) -> list[int]:
    return [event["pid"] for event in product.events("part_started") if event["part"] == part]


def has_run_everything(product: Product) -> bool:
    """Say whether a run of each task has ended; one that has begun counts as a run already."""
    tasks = clockwork(product)["tasks"]
    return set(SCHEDULE) == {task["name"] for task in tasks if task["last_outcome"]}


def test_every_task_runs_and_the_parts_stop_in_order(start: Start) -> None:
    product = start()
    wait_for(lambda: has_run_everything(product))
    found = clockwork(product)
    family = product.family()
    code = product.interrupt()

    assert not found["stands_still"]
    assert {task["last_outcome"] for task in found["tasks"]} <= {"done", "running"}
    assert {part["kind"] for part in found["parts"]} == {"beat", "worker"}
    assert code == Exit.OK, product.output
    stopped = [event["part"] for event in product.events("part_stopped")]
    assert stopped == ["beat", "worker", "broker", "postgres"]
    assert [process for process in family if lives(process)] == []
    assert "Traceback" not in product.output


@pytest.mark.parametrize("part", ["worker", "beat"])
def test_a_killed_part_is_started_again_and_the_clockwork_goes_on(start: Start, part: str) -> None:
    product = start()
    wait_for(lambda: has_run_everything(product))

    killed = product.child(part)
    children = killed.children(recursive=True)
    killed.kill()
    wait_for(lambda: pids(product, part)[-1] != killed.pid)
    before = runs(product)["metrics.sample_statistics"]
    wait_for(lambda: runs(product)["metrics.sample_statistics"] > before + 1)

    ended = [(event["part"], event["code"]) for event in product.events("part_ended")]
    assert ended == [(part, -signal.SIGKILL)]
    # Processes of a killed worker's pool do not stay behind.
    wait_for(lambda: not any(lives(child) for child in children))
    assert product.interrupt() == Exit.OK


def test_the_clockwork_says_that_it_stands_still_and_what_is_missing(start: Start) -> None:
    product = start(worker_processes=0)
    found = clockwork(product)
    assert found["stands_still"]
    assert found["reason"] == "no beat and no worker is there"


def test_worker_and_beat_work_alone_beside_a_product_without_them(start: Start) -> None:
    product = start(worker_processes=0)
    environ = {
        **{name: value for name, value in os.environ.items() if "MQWEB" not in name},
        "MQWEB_DATA": str(product.data),
        "MQWEB_PORT": str(product.port),
    }
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    celery = [sys.executable, "-m", "celery", "-A", "mqweb"]
    with (product.data / "celery.log").open("wb") as log:
        alone = [
            subprocess.Popen([*celery, *arguments], cwd=ROOT, env=environ, stdout=log, stderr=log)
            for arguments in (["worker", "--concurrency", "1"], ["beat"])
        ]
    family = [child for one in alone for child in psutil.Process(one.pid).children(recursive=True)]
    try:
        wait_for(lambda: has_run_everything(product))
        assert not clockwork(product)["stands_still"]
        for process in reversed(alone):
            process.terminate()
        assert [process.wait(60) for process in alone] == [0, 0]
        # Both say good-bye, so nobody has to wait until they count as silent.
        assert clockwork(product)["parts"] == []
    finally:
        for process in alone:
            process.kill()
            process.wait()
    wait_for(lambda: not any(lives(child) for child in family))
