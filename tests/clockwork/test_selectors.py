"""What operators are told of the clockwork: what runs, what is missing, and since when."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from apps.clockwork import claims, selectors
from apps.clockwork.claims import Claim, Ended
from apps.clockwork.models import Outcome, Part, TaskRun, TaskState
from apps.clockwork.selectors import TaskView, clockwork
from tests.clockwork.conftest import let_pass

pytestmark = pytest.mark.django_db

EVERY_S = 3600
HOLD_S = 60


@pytest.fixture(autouse=True)
def schedule(settings: object) -> None:
    settings.CLOCKWORK_SCHEDULE = {"b.never": 10, "a.sometimes": EVERY_S}


def begin(owner: str = "run 1") -> Claim:
    claimed = claims.claim("a.sometimes", every_s=EVERY_S, hold_s=HOLD_S, owner=owner)
    assert claimed is not None
    return claimed


def sometimes() -> TaskView:
    return clockwork().tasks[0]


def arrive(kind: Part.Kind, name: str, *, silent_s: float = 0) -> None:
    Part.objects.create(kind=kind, name=name, seen_at=Now() - timedelta(seconds=silent_s))


def test_a_clockwork_that_never_ran_stands_still_and_shows_its_whole_schedule() -> None:
    found = clockwork()

    assert (found.stands_still, found.last_step_at) == (True, None)
    assert [(task.name, task.every_s) for task in found.tasks] == [
        ("a.sometimes", EVERY_S),
        ("b.never", 10),
    ]
    never = found.tasks[1]
    assert (never.last_started_at, never.last_outcome, never.run_count) == (None, "", 0)
    assert (never.due_at, never.is_late) == (found.now, False)


def test_a_task_that_runs_is_said_to_run() -> None:
    begin()

    task = sometimes()

    assert (task.is_running, task.is_overdue, task.last_outcome) == (True, False, "")
    assert task.last_started_at is not None


def test_a_run_that_ended_leaves_its_outcome() -> None:
    claimed = begin()
    claims.finish(claimed, Ended(outcome=Outcome.FAILED, error="LookupError: no"))

    found = clockwork()

    task, run = found.tasks[0], found.runs[0]
    assert (task.is_running, task.last_outcome, task.last_error) == (
        False,
        "failed",
        "LookupError: no",
    )
    assert task.failures_in_a_row == 1
    assert (run.outcome, run.error, run.owner) == ("failed", "LookupError: no", "run 1")
    assert run.duration_ms is not None


def test_a_run_whose_lease_ended_is_overdue_until_somebody_takes_it_over() -> None:
    begin("killed")
    let_pass(seconds=HOLD_S + 1)

    before = clockwork()
    begin("next")
    after = clockwork()

    assert (before.tasks[0].is_running, before.tasks[0].is_overdue) == (False, True)
    assert [(run.owner, run.is_overdue) for run in before.runs] == [("killed", True)]
    assert (after.tasks[0].is_running, after.tasks[0].is_overdue) == (True, False)
    assert [(run.owner, run.outcome, run.is_overdue) for run in after.runs] == [
        ("next", "running", False),
        ("killed", "interrupted", False),
    ]


def test_a_task_is_late_once_it_is_due_for_longer_than_ticks_take() -> None:
    claims.finish(begin(), Ended(outcome=Outcome.DONE))
    TaskState.objects.update(due_at=Now() - timedelta(seconds=selectors.STANDS_STILL_S - 5))
    due = sometimes().is_late
    TaskState.objects.update(due_at=Now() - timedelta(seconds=selectors.STANDS_STILL_S + 1))

    assert (due, sometimes().is_late) == (False, True)


def test_the_clockwork_stands_still_when_no_step_began_for_a_while() -> None:
    claims.finish(begin(), Ended(outcome=Outcome.DONE))
    running = clockwork()
    let_pass(seconds=selectors.STANDS_STILL_S + 1)

    still = clockwork()

    assert (running.stands_still, running.reason) == (False, "")
    assert still.stands_still
    assert still.last_step_at == TaskState.objects.get().last_started_at


def test_a_start_that_lies_far_ahead_does_not_hide_that_it_stands_still() -> None:
    claims.finish(begin(), Ended(outcome=Outcome.DONE))
    let_pass(seconds=-7200)

    assert clockwork().stands_still


@pytest.mark.parametrize(
    ("silent_s", "missing", "reason"),
    [
        ({}, ["beat", "worker"], "no beat and no worker is there"),
        ({"worker": 1}, ["beat"], "no beat is there"),
        ({"beat": 1, "worker": 60}, ["worker"], "no worker is there"),
        ({"beat": 1, "worker": -3600}, ["worker"], "no worker is there"),
        ({"beat": 1, "worker": 1}, [], "beat and worker are there, and no step begins"),
    ],
)
def test_the_reason_names_what_is_missing(
    silent_s: dict[str, float], missing: list[str], reason: str
) -> None:
    for kind, seconds in silent_s.items():
        arrive(Part.Kind(kind), "one", silent_s=seconds)

    found = clockwork()

    assert (found.missing, found.reason) == (missing, reason)


def test_processes_that_died_again_and_again_do_not_hide_the_one_that_is_there() -> None:
    for number in range(selectors.PARTS_SHOWN + 5):
        arrive(Part.Kind.WORKER, f"dead {number}", silent_s=600 + number)
    arrive(Part.Kind.WORKER, "alive")
    arrive(Part.Kind.BEAT, "beat")

    parts = clockwork().parts

    assert [(part.name, part.is_silent) for part in parts[:3]] == [
        ("beat", False),
        ("alive", False),
        ("dead 0", True),
    ]
    assert len(parts) == 1 + selectors.PARTS_SHOWN


def test_runs_are_bounded_and_the_newest_comes_first() -> None:
    TaskRun.objects.bulk_create(
        TaskRun(task="a", owner=f"{number}", started_at=Now() - timedelta(seconds=number))
        for number in range(selectors.RUNS_SHOWN + 5)
    )

    runs = clockwork().runs

    assert [run.owner for run in runs] == [str(number) for number in range(selectors.RUNS_SHOWN)]


def test_reading_takes_five_queries_however_much_there_is() -> None:
    begin()
    for number in range(20):
        arrive(Part.Kind.WORKER, f"worker {number}")

    with CaptureQueriesContext(connection) as queries:
        clockwork()

    assert len(queries) == 5


def test_runs_of_every_second_are_shown_when_they_did_something(settings: Any) -> None:
    settings.CLOCKWORK_SCHEDULE = {"a.sometimes": EVERY_S, "c.always": 1}
    for task in settings.CLOCKWORK_SCHEDULE:
        for outcome, done in (("done", 0), ("done", 3), ("failed", 0), ("running", None)):
            owner = f"{task} {outcome} {done}"
            TaskRun.objects.create(task=task, owner=owner, outcome=outcome, done=done)

    found = [run.owner for run in clockwork().runs]

    hidden = {run.owner for run in TaskRun.objects.all()} - set(found)
    assert hidden == {"c.always done 0"}
