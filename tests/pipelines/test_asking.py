"""Runs are asked for once, called off, and asked for window by window."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.core.exceptions import ProblemError
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.pipelines import versions
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.services import asking
from apps.topics.models import Topic

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ask(**changed: Any) -> PipelineRun:
    """Ask for an hour of `loss`, but for what is said otherwise."""
    wish: Mapping[str, Any] = {
        "job": "loss",
        "window_start": START,
        "window_end": START + HOUR,
        "trigger": Trigger.PERSON,
        "by": "anna",
    }
    return asking.ask(**{**wish, **changed})


def end(run: PipelineRun, state: RunState) -> None:
    run.state = state
    run.ended_at = START + 2 * HOUR
    run.save()


@pytest.fixture
def topics() -> None:
    Topic.objects.create(name="orders")
    Topic.objects.create(name="payments")


def test_a_run_waits_with_all_that_was_asked(topics: None) -> None:
    run = ask(topics=["payments", "orders", "orders"], parameters={"limit": 3})

    run.refresh_from_db()
    assert (run.state, run.topics, run.parameters) == (
        "queued",
        ["orders", "payments"],
        {"limit": 3},
    )
    assert (run.trigger, run.requested_by, len(run.key)) == ("person", "anna", 64)
    assert run.code_version == versions.code_version("loss")


@pytest.mark.parametrize("state", ["queued", "running", "done"])
def test_asking_again_gives_back_what_waits_runs_or_is_done(topics: None, state: RunState) -> None:
    run = ask(topics=["orders", "payments"])
    if state == RunState.DONE:
        end(run, RunState.DONE)
    else:
        PipelineRun.objects.update(state=state)

    again = ask(topics=["payments", "orders"], by="bert", trigger=Trigger.SCHEDULE)

    assert again == run
    assert PipelineRun.objects.count() == 1


@pytest.mark.parametrize("state", ["failed", "cancelled", "interrupted"])
def test_what_came_to_nothing_is_asked_for_anew(state: RunState) -> None:
    run = ask()
    end(run, state)

    again = ask()

    assert again != run
    assert again.replaces is None


@pytest.mark.parametrize(
    "changed",
    [
        {"job": "skew"},
        {"window_end": START + 2 * HOUR},
        {"topics": ["orders"]},
        {"parameters": {"limit": 1}},
    ],
    ids=str,
)
def test_another_wish_is_another_run(topics: None, changed: dict[str, Any]) -> None:
    assert ask().key != ask(**changed).key


def test_other_code_is_another_run_that_replaces_the_one_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ask()
    end(run, RunState.DONE)
    monkeypatch.setattr(asking, "code_version", lambda _job: "later")

    again = ask()

    assert again.key != run.key
    assert again.replaces == run


def test_a_done_run_is_replaced_only_when_asked_to() -> None:
    run = ask()
    end(run, RunState.DONE)

    again = ask(replace=True)

    assert again != run
    assert again.replaces == run
    assert ask(replace=True) == again


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"job": "nonsense"}, "there is no job"),
        ({"window_end": START}, "must end after it begins"),
        ({"window_start": datetime(2026, 3, 1)}, "time zone"),  # noqa: DTZ001
        ({"window_end": START + 367 * 24 * HOUR}, "days at most"),
        ({"window_start": START, "window_end": datetime(9000, 1, 1, tzinfo=UTC)}, "days at most"),
        ({"parameters": {"Limit": 1}}, "no name of a parameter"),
        ({"parameters": {"limit": [1]}}, "a text, a number"),
        ({"parameters": {"limit": float("nan")}}, "that can be kept"),
        ({"parameters": {"limit": "\0"}}, "that can be kept"),
        ({"parameters": {"limit": "x" * 1001}}, "longer than"),
        ({"parameters": {f"p{number}": 1 for number in range(21)}}, "20 parameters"),
        ({"topics": [f"t{number}" for number in range(1001)]}, "more than 1000"),
        ({"topics": ["\0"]}, "null character"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wish_that_nobody_can_carry_out_is_refused(
    changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        ask(**changed)

    assert not PipelineRun.objects.exists()


def test_a_window_that_has_not_ended_is_refused() -> None:
    ahead = datetime.now(UTC) + HOUR  # noqa: TID251 - the service asks the wall clock.

    with pytest.raises(InvalidArgument, match="has not ended"):
        ask(window_start=ahead - 2 * HOUR, window_end=ahead)


def test_an_unknown_topic_is_refused(topics: None) -> None:
    with pytest.raises(UnknownTopic, match="nowhere"):
        ask(topics=["orders", "nowhere"])


def test_a_waiting_run_is_called_off_at_once() -> None:
    run = ask()

    asking.cancel(run.pk, by="bert")

    run.refresh_from_db()
    assert (run.state, run.cancelled_by, run.ended_at is not None) == ("cancelled", "bert", True)
    assert asking.cancel(run.pk, by="carl").cancelled_by == "bert"


def test_a_running_run_is_told() -> None:
    run = ask()
    PipelineRun.objects.update(state=RunState.RUNNING)

    told = asking.cancel(run.pk, by="bert")

    assert (told.state, told.cancel_requested) == ("running", True)


def test_only_what_is_there_and_has_not_ended_is_called_off() -> None:
    run = ask()
    end(run, RunState.DONE)

    with pytest.raises(ProblemError, match="has ended"):
        asking.cancel(run.pk, by="bert")
    with pytest.raises(ProblemError, match="there is no run"):
        asking.cancel(run.pk + 1, by="bert")


def test_a_backfill_asks_for_each_window_and_goes_on_where_it_was_cut_off() -> None:
    def fill(end: datetime) -> asking.Backfill:
        return asking.backfill(job="loss", start=START, end=end, step=HOUR, by="anna")

    first = fill(START + 2 * HOUR)
    for run, state in zip(first.runs, (RunState.DONE, RunState.FAILED), strict=True):
        end(run, state)

    again = fill(START + 2.5 * HOUR)

    assert (first.made, again.made) == (2, 2)
    assert [(run.window_start - START) / HOUR for run in again.runs] == [0, 1, 2]
    assert again.runs[0] == first.runs[0]
    assert again.runs[1] != first.runs[1]
    assert again.runs[2].window_end == START + 2.5 * HOUR
    assert {run.trigger for run in again.runs} == {"backfill"}


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (timedelta(0), "a second or more"),
        (timedelta(minutes=1), "are more than"),
        (timedelta(days=400), "a window is"),
    ],
    ids=str,
)
def test_a_backfill_of_no_sensible_step_is_refused(step: timedelta, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        asking.backfill(
            job="loss", start=START - timedelta(days=500), end=START, step=step, by="anna"
        )

    assert not PipelineRun.objects.exists()


def test_the_version_of_a_job_changes_with_all_code_but_other_jobs(tmp_path: Path) -> None:
    jobs = tmp_path / "spark" / "jobs"
    jobs.mkdir(parents=True)
    files = [tmp_path / f"{name}.py" for name in ("catalogue", "columns", "tables")]
    files += [jobs / f"{name}.py" for name in ("loss", "skew", "shared")]
    for path in files:
        path.write_text("")

    def changes(path: Path) -> bool:
        before = versions.digest_of(tmp_path, "loss")
        path.write_text(path.read_text() + "#")
        return before != versions.digest_of(tmp_path, "loss")

    assert {path.stem for path in files if not changes(path)} == {"skew"}
