"""A tick claims, runs one step, writes down its end and asks for more when more is left."""

import json
from dataclasses import replace

import pytest
from django.db import OperationalError

from apps.clockwork import claims, ticking
from apps.clockwork.house import HouseTask, house_task
from apps.clockwork.models import Outcome, TaskRun, TaskState
from apps.clockwork.steps import Step
from apps.engine.errors import Stopping

pytestmark = pytest.mark.django_db


def never() -> None:
    raise AssertionError("no other tick was to be asked for")


def test_a_due_step_runs_and_its_end_is_written_down(counted: HouseTask) -> None:
    assert ticking.tick(counted, {}, again=never) == {"ran": True, "done": 1, "more": False}
    run = TaskRun.objects.get()
    assert (run.outcome, run.done, run.task) == (Outcome.DONE, 1, counted.name)


def test_a_tick_that_is_not_due_runs_nothing(counted: HouseTask) -> None:
    ticking.tick(counted, {}, again=never)
    assert ticking.tick(counted, {}, again=never) == {"ran": False}


def test_a_step_with_more_left_asks_for_another_tick_once_its_end_is_written(
    counted: HouseTask,
) -> None:
    asked = []

    def again() -> None:
        asked.append(TaskState.objects.get(name=counted.name).owner)

    busy = replace(counted, function=lambda **_unknown: Step(done=1, more=True))
    ticking.tick(busy, {}, again=again)
    assert asked == [""]


def test_a_step_that_fails_is_written_down_and_raised(counted: HouseTask) -> None:
    def broken(**_unknown: object) -> Step:
        raise LookupError("nothing there")

    with pytest.raises(LookupError):
        ticking.tick(replace(counted, function=broken), {}, again=never)
    state = TaskState.objects.get(name=counted.name)
    assert (state.last_outcome, state.last_error) == (
        Outcome.FAILED,
        "LookupError: nothing there",
    )


def test_a_step_that_finds_no_broker_is_written_down_as_failed_and_told_in_one_line(
    counted: HouseTask, caplog: pytest.LogCaptureFixture
) -> None:
    def alone(**_unknown: object) -> Step:
        raise Stopping("the broker is on its way")

    answer = ticking.tick(replace(counted, function=alone), {}, again=never)
    assert answer == {"ran": True, "done": 0, "more": False}
    assert TaskState.objects.get(name=counted.name).failures_in_a_row == 1
    assert [record.message for record in caplog.records] == ["step_without_engine"]
    assert caplog.records[0].exc_info is None


def test_a_step_overtaken_by_another_run_asks_for_no_more(
    counted: HouseTask, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(**_unknown: object) -> Step:
        TaskState.objects.update(owner="another run")
        return Step(done=1, more=True)

    answer = ticking.tick(replace(counted, function=slow), {}, again=never)
    assert answer == {"ran": True, "done": 1, "more": False}
    assert "step_overtaken" in caplog.text


def test_without_a_database_a_tick_says_so_in_one_line(
    counted: HouseTask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_arguments: object, **_keywords: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(claims, "claim", away)
    assert ticking.tick(counted, {}, again=never) == {"ran": False}
    assert [record.message for record in caplog.records] == ["tick_without_database"]
    assert caplog.records[0].exc_info is None


def test_the_celery_task_hands_its_keywords_to_the_step(counted: HouseTask) -> None:
    seen = []

    @house_task(counted.name, lease_s=30)
    def count(*, size: int = 1, **unknown: object) -> Step:
        seen.append((size, unknown))
        return Step(done=size)

    answer = count(size=2, later="yes")
    assert seen == [(2, {"later": "yes"})]
    assert json.loads(json.dumps(answer)) == {"ran": True, "done": 2, "more": False}


def test_a_lease_is_an_even_number_of_seconds() -> None:
    with pytest.raises(ValueError, match="even"):
        house_task("tests.odd", lease_s=15)
