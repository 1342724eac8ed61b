"""A step whose worker is killed in its middle: run again within its lease, with its effects once.

Row D7 of the fault table, with the product's own worker. What is killed is the child that carries
the step out, or the worker above it; in the latter case the child outlives its parent, and its
step ends after another run has taken over.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from apps.clockwork.house import HOUSE_TASKS
from apps.clockwork.models import Outcome
from mqweb.celery import app
from tests.clockwork.machine import Machine, Run, kill_hard
from tests.rounds import rounds
from tests.web.product import lives, wait_for

pytestmark = pytest.mark.process

app.loader.import_default_modules()

TASK = "metrics.sample_statistics"
TABLE = "metrics_topicsample"
TOPICS = 5
FINE_S = 5


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Run the product with a few topics, its own worker and its own beat."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with Machine(data, worker_processes=3) as machine:
        for number in range(TOPICS):
            machine.product.request("PUT", f"/api/v1/topics/orders-{number}", {"queue_count": 2})
        machine.wait_for_runs(TASK, 1)
        yield machine
    shutil.rmtree(data)


def kill_in_mid_step(machine: Machine, victim: str) -> None:
    """Kill child or worker while a step waits to write; judge what came after."""
    worker = machine.product.child("worker")

    with machine.writes_held(TABLE) as anybody_waits:
        wait_for(lambda: anybody_waits() and machine.runs(TASK)[-1].outcome == Outcome.RUNNING)
        killed = machine.runs(TASK)[-1]
        child = psutil.Process(killed.pid)
        assert child in worker.children(recursive=True)
        kill_hard(child if victim == "child" else worker)
        # The write is still held: what another run does now, it does beside the killed one's.
        wait_for(lambda: machine.runs(TASK)[-1] != killed)
    again = machine.runs(TASK)[-1]
    wait_for(lambda: outcome_of(machine, again) != Outcome.RUNNING)
    wait_for(lambda: not lives(child))

    assert outcome_of(machine, killed) == Outcome.INTERRUPTED
    assert outcome_of(machine, again) == Outcome.DONE
    delay_s = (again.started_at - killed.started_at).total_seconds()
    print(f"{victim} killed in mid-step; run again {delay_s:.2f} s after its start")
    assert delay_s <= HOUSE_TASKS[TASK].lease_s
    judge_samples(machine)


def outcome_of(machine: Machine, wanted: Run) -> str:
    return next(run.outcome for run in machine.runs(TASK) if run.owner == wanted.owner)


def judge_samples(machine: Machine) -> None:
    """Assert that each slot has all its rows or none, and each of them once."""
    rows = machine.ask(
        """
        SELECT coalesce(s.rows, 0), coalesce(t.topics, 0), coalesce(t.rows, 0)
        FROM (SELECT at, count(*) AS rows FROM metrics_storesample
              WHERE resolution_s = %s GROUP BY at) s
        FULL JOIN (SELECT at, count(*) AS rows, count(DISTINCT topic) AS topics
                   FROM metrics_topicsample WHERE resolution_s = %s AND topic LIKE 'orders-%%'
                   GROUP BY at) t USING (at)
        ORDER BY at
        """,
        FINE_S,
        FINE_S,
    )
    assert (1, TOPICS, TOPICS) in rows
    # The first slots are from before the topics were all there.
    assert set(rows) <= {(1, count, count) for count in range(TOPICS + 1)}
    assert rows == sorted(rows)


def test_a_step_killed_in_its_middle_is_run_again_within_its_lease(machine: Machine) -> None:
    kill_in_mid_step(machine, "child")
    kill_in_mid_step(machine, "worker")


@pytest.mark.longest
@pytest.mark.crash
def test_many_children_killed_in_mid_step(machine: Machine) -> None:
    for _ in range(rounds(5)):
        machine.wait_for_runs(TASK, 1, after=len(machine.wait_for_runs(TASK, 1)))
        kill_in_mid_step(machine, "child")


@pytest.mark.crash
@pytest.mark.parametrize("number", range(5))
def test_many_workers_killed_in_mid_step(machine: Machine, number: int) -> None:
    """Each in a product of its own: the supervisor's pause grows with each end in a row."""
    kill_in_mid_step(machine, "worker")
