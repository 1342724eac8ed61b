"""The rules of the house for tasks, asked of every task there is."""

import ast
import inspect
import json
import textwrap
import typing
from collections.abc import Iterator

import pytest

from apps.bridge import engine as bridge
from apps.clockwork.house import HOUSE_TASKS, HouseTask
from apps.clockwork.models import Outcome, TaskRun
from apps.clockwork.steps import Step
from mqweb.celery import app
from mqweb.schedule import SCHEDULE, TICK_KEPT_S, TICK_S_MAX
from tests.web.fake_engine import FakeEngine

app.loader.import_default_modules()
TASKS = sorted(name for name in HOUSE_TASKS if not name.startswith("tests."))

every_task = pytest.mark.parametrize("name", TASKS)


@pytest.fixture(autouse=True)
def engine() -> Iterator[FakeEngine]:
    fake = FakeEngine()
    bridge.install(fake, None)  # type: ignore[arg-type]
    yield fake
    bridge.remove()


def house(name: str) -> HouseTask:
    return HOUSE_TASKS[name]


def test_every_task_is_made_by_the_rules_and_has_its_place_in_the_schedule() -> None:
    ours = {
        name for name in app.tasks if not name.startswith(("celery.", "tests."))
    }  # What Celery brings along is its own.
    assert ours == set(SCHEDULE) == set(TASKS)


def test_beat_ticks_every_task_of_the_schedule() -> None:
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} == set(SCHEDULE)


@every_task
def test_a_task_takes_keywords_only_and_tolerates_unknown_ones(name: str) -> None:
    parameters = inspect.signature(house(name).function).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    assert inspect.Parameter.VAR_KEYWORD in kinds
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}


@every_task
def test_a_task_is_one_service_call(name: str) -> None:
    source = textwrap.dedent(inspect.getsource(house(name).function))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    docstring, *statements = function.body
    assert isinstance(docstring, ast.Expr)
    assert len(statements) == 1
    answer = statements[0]
    assert isinstance(answer, ast.Return)
    assert isinstance(answer.value, ast.Call)
    called = ast.unparse(answer.value.func)
    assert called.split(".")[0] in {"services", "snapshot"}, called


@every_task
def test_a_task_says_how_much_it_did_and_whether_more_is_left(name: str) -> None:
    hints = typing.get_type_hints(house(name).function)
    assert hints["return"] is Step


@every_task
def test_a_killed_run_is_made_up_for_within_the_lease(name: str) -> None:
    tick_s = min(SCHEDULE[name], TICK_S_MAX)
    # Less and not equal: a tick takes a moment to arrive.
    assert house(name).hold_s + tick_s < house(name).lease_s


@every_task
def test_a_task_is_cut_off_when_its_hold_is_over_and_not_lost_with_its_worker(name: str) -> None:
    task = app.tasks[name]
    assert task.soft_time_limit == house(name).hold_s
    assert task.time_limit == house(name).lease_s
    assert task.acks_late
    assert task.reject_on_worker_lost
    assert task.ignore_result


@every_task
def test_a_tick_expires_after_a_day_and_not_by_a_clock_that_is_hours_off(name: str) -> None:
    assert app.conf.beat_schedule[name]["options"]["expires"] == TICK_KEPT_S == 24 * 3600


def test_nothing_but_json_goes_in_or_out() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.event_serializer == "json"
    assert app.conf.result_serializer == "json"


@every_task
@pytest.mark.django_db
def test_a_tick_with_keywords_of_another_version_runs_and_answers_in_json(name: str) -> None:
    answer = app.tasks[name](from_another_version={"nested": [1, None]})
    assert json.loads(json.dumps(answer)) == answer
    assert answer["ran"]
    assert isinstance(answer["done"], int)
    run = TaskRun.objects.get(task=name)
    assert run.outcome == Outcome.DONE
