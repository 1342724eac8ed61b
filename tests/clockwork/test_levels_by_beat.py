"""Delay levels as the product delivers them: by beat, worker and broker, in processes.

What is asserted holds on any machine: once each, and never early. How late they come depends on
what else runs there, and is printed.
"""

import random
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from apps.bridge.exits import Exit
from tests.clockwork.machine import Machine
from tests.web.product import Product, lives, wait_for

pytestmark = pytest.mark.process

MESSAGES = 60


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Run the product with a worker and a beat."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with Machine(data, worker_processes=1) as machine:
        yield machine
    shutil.rmtree(data)


def ms_of(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def send(product: Product, key: str, level: int) -> int:
    """Send a delayed message and return when it is due, in ms."""
    message = {"body": "x", "keys": [key], "delay_level": level}
    status, _, answer = product.request(
        "POST", "/api/v1/topics/orders/messages", {"messages": [message]}
    )
    assert status == 201, answer
    return ms_of(answer["results"][0]["deliver_at"])


def delivered(product: Product) -> list[Any]:
    """Return every message in the queue, in order."""
    found: list[Any] = []
    while True:
        path = f"/api/v1/topics/orders/queues/0/messages?offset={len(found)}&max=1000"
        _, _, answer = product.request("GET", path)
        if not answer["messages"]:
            return found
        found += answer["messages"]


def waiting(product: Product) -> int:
    return sum(max_offset - delivered for _, delivered, max_offset in levels(product))


def test_levels_are_delivered_once_and_never_early_though_the_worker_is_killed(
    machine: Machine,
) -> None:
    product = machine.product
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    product.request("PUT", "/api/v1/topics/orders", {"queue_count": 1})

    due = {str(number): send(product, str(number), level=1) for number in range(MESSAGES // 2)}
    wait_for(lambda: delivered(product))
    worker = product.child("worker")
    worker.kill()
    for number in range(MESSAGES // 2, MESSAGES):
        due[str(number)] = send(product, str(number), level=rng.choice((1, 2)))
    wait_for(lambda: not lives(worker))
    wait_for(lambda: waiting(product) == 0)
    # What is delivered is read once it is synced.
    wait_for(lambda: len(delivered(product)) >= MESSAGES)
    found = delivered(product)

    killed = [event["part"] for event in product.events("part_ended")]
    assert killed == ["worker"], "the fault did not happen"
    keys = [message["keys"][0] for message in found]
    assert sorted(keys) == sorted(due)
    late_ms = sorted(ms_of(message["store_time"]) - due[message["keys"][0]] for message in found)
    print(f"late by {late_ms[0]} to {late_ms[-1]} ms, half within {late_ms[len(late_ms) // 2]} ms")
    assert late_ms[0] >= 0, "a message came early"
    wait_for(lambda: rows(machine) == levels(product))
    assert product.interrupt() == Exit.OK
    assert "Traceback" not in product.output


def levels(product: Product) -> list[tuple[int, int, int]]:
    """Return where each level is, as the broker says."""
    _, _, answer = product.request("GET", "/api/v1/delayed/levels")
    return [
        (level["level"], int(level["delivered"]), int(level["max_offset"]))
        for level in answer["items"]
    ]


def rows(machine: Machine) -> list[tuple[int, int, int]]:
    """Return where each level is, as the database says."""
    query = "SELECT level, delivered, max_offset FROM delays_delaylevel ORDER BY level"
    return [(row[0], row[1], row[2]) for row in machine.ask(query)]
