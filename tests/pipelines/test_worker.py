"""A worker takes runs one at a time, says how they went, and outlives what goes wrong."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from apps.engine.testing.manualclock import ManualClock
from apps.pipelines import runlogs
from apps.pipelines.costs import Meter, Use
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.place import Place
from apps.pipelines.runlogs import RunLog
from apps.pipelines.services import asking, claims
from apps.pipelines.spark.progress import Tasks, counted, rows_of
from apps.pipelines.spark.runner import Runner, sentence_of
from apps.pipelines.spark.watching import Stopped, Watch, Why
from apps.pipelines.spark.working import Limits, Worker
from tests.pipelines.runs import asked, ended, let_pass

pytestmark = pytest.mark.django_db

PLACE = Place(lake=Path("/nowhere"), store=Path("/nowhere"), server="http://x", bodies=True)


@dataclass
class Group:
    """Jobs of which the test says how far they are."""

    done: Tasks = field(default_factory=Tasks)
    cancelled: int = 0
    stages: int = 0

    def begin(self, meaning: str) -> None:
        """Begin."""

    def next_stage(self) -> None:
        self.stages += 1

    def tasks(self) -> Tasks:
        return self.done

    def cancel(self) -> None:
        self.cancelled += 1


class World:
    """A runner whose `execute` is what the test says, over a group that it can see."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.stopping = threading.Event()
        self.group = Group()
        self.directory = directory
        self.pauses = 0

    def runner(self, execute: Callable[..., None]) -> Runner:
        return Runner(
            execute=execute,
            place=PLACE,
            clock=self.clock,
            run_log=RunLog(self.directory),
            stopping=self.stopping,
            make_group=lambda _spark, _name: self.group,
            pause=self._pause,
        )

    def watch(self, run: PipelineRun) -> Watch:
        meter = Meter(read=lambda: [Use(number=1, born=0.0, cpu_s=1.0, memory_bytes=70)])
        return Watch(run, group=self.group, meter=meter, stopping=self.stopping, clock=self.clock)

    def _pause(self, _seconds: float) -> None:
        self.pauses += 1


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def run() -> PipelineRun:
    """Return a run that was claimed."""
    asked()
    claimed = claims.claim("w")
    assert claimed is not None
    return claimed


def publish(_spark: Any, run: PipelineRun, _place: Place, tell: Callable[..., None]) -> None:
    """Do what `execute` promises: the run is done afterwards."""
    tell("reading", 300)
    ended(run, "done")


def test_a_run_that_publishes_is_done_and_has_its_cost(world: World, run: PipelineRun) -> None:
    state = world.runner(publish).carry_out(None, run)

    run.refresh_from_db()
    assert (state, run.state, run.duration_ms) == (RunState.DONE, "done", 0)
    assert run.cpu_ms is not None
    assert run.memory_bytes_max > 0


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("no such column\n\nJVM stacktrace:\norg.apache"), "ValueError: no such column"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
    ],
    ids=["ValueError", "OSError"],
)
def test_a_run_that_raises_has_failed_and_says_why(
    world: World, run: PipelineRun, error: Exception, sentence: str
) -> None:
    def fail(*_given: object) -> None:
        raise error

    state = world.runner(fail).carry_out(None, run)

    run.refresh_from_db()
    assert (state, run.state, run.error) == (RunState.FAILED, "failed", sentence)


def test_a_run_that_publishes_nothing_has_failed(world: World, run: PipelineRun) -> None:
    state = world.runner(lambda *_given: None).carry_out(None, run)

    assert state == RunState.FAILED
    assert "published nothing" in PipelineRun.objects.get().error


@pytest.mark.parametrize("what", ["called off", "stopped", "lost"])
def test_a_run_is_stopped_between_its_stages(world: World, run: PipelineRun, what: str) -> None:
    """The watch is looked at by the test itself, in the thread that has the test's transaction."""
    watch = world.watch(run)
    watch.tell("reading", None)
    watch.look()
    assert world.group.cancelled == 0
    if what == "called off":
        asking.cancel(run.pk, by="bert")
    elif what == "stopped":
        world.stopping.set()
    else:
        let_pass(seconds=31)
        claims.expire()

    watch.look()
    watch.look()

    assert world.group.cancelled == 2
    with pytest.raises(Stopped):
        watch.tell("publishing", None)
    assert (
        watch.why is {"called off": Why.CANCELLED, "stopped": Why.STOPPING, "lost": Why.LOST}[what]
    )


def test_a_run_that_was_called_off_is_cancelled_however_it_ended(
    world: World, run: PipelineRun
) -> None:
    def called_off(*_given: object) -> None:
        asking.cancel(run.pk, by="bert")
        raise RuntimeError("a job was cancelled")

    assert world.runner(called_off).carry_out(None, run) == RunState.CANCELLED


def test_a_run_that_was_lost_is_left_alone(world: World, run: PipelineRun) -> None:
    def lost(*_given: object) -> None:
        let_pass(seconds=31)
        claims.expire()

    assert world.runner(lost).carry_out(None, run) == RunState.INTERRUPTED
    assert PipelineRun.objects.get().error == claims.LOST


def test_progress_goes_to_the_row_when_it_changes_and_now_and_then(
    world: World, run: PipelineRun, django_assert_num_queries: Any
) -> None:
    watch = world.watch(run)
    watch.tell("reading", 300)
    world.group.done = Tasks(done=1, total=4, rows_read=70)
    watch.look()
    with django_assert_num_queries(1):
        watch.look()
    world.clock.advance(5_000)
    let_pass(seconds=20)
    before = PipelineRun.objects.get().lease_ends_at
    watch.look()

    run.refresh_from_db()
    assert (run.stage, run.percent, run.rows_expected) == ("reading", 25.0, 300)
    assert run.stage_rows_read == 70
    assert run.lease_ends_at > before
    assert run.memory_bytes_max == 70


def test_a_run_outlives_an_outage_of_the_database(
    world: World, run: PipelineRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = world.watch(run)
    with monkeypatch.context() as patched:
        faults = _away(patched, "look", "renew")
        watch.look()
        watch.tell("reading", None)
        watch.look()
        assert faults == ["look", "renew"]
    watch.look()

    assert watch.why is None


def test_the_end_of_a_run_is_written_down_once_the_database_is_back(
    world: World, run: PipelineRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, faults = claims.finish, []

    def late(*given: Any, **named: Any) -> bool:
        if len(faults) < 3:
            faults.append("finish")
            raise OperationalError("away")
        return finish(*given, **named)

    monkeypatch.setattr(claims, "finish", late)
    _keep_connection(monkeypatch)

    assert world.runner(lambda *_given: None).carry_out(None, run) == RunState.FAILED
    assert (len(faults), world.pauses) == (3, 3)


def _away(patched: pytest.MonkeyPatch, *names: str) -> list[str]:
    faults: list[str] = []

    def raising(name: str) -> Callable[..., None]:
        def raise_it(*_given: Any, **_named: Any) -> None:
            faults.append(name)
            raise OperationalError("away")

        return raise_it

    for name in names:
        patched.setattr(claims, name, raising(name))
    _keep_connection(patched)
    return faults


def _keep_connection(patched: pytest.MonkeyPatch) -> None:
    """Keep the connection, which has the test's transaction."""
    for module in ("watching", "working", "runner"):
        patched.setattr(f"apps.pipelines.spark.{module}.connection", SimpleNamespace(close=int))


class Sessions:
    """Sessions that are numbers; the test says when one is dead."""

    def __init__(self) -> None:
        self.history: list[str] = []
        self.dead: set[int] = set()
        self.count = 0

    def open(self) -> int:
        self.count += 1
        self.history.append(f"open {self.count}")
        return self.count

    def close(self, session: int) -> None:
        self.history.append(f"close {session}")

    def is_alive(self, session: int) -> bool:
        return session not in self.dead


def worker(
    *, limits: Limits | None = None, carry_out: Callable[..., Any] | None = None
) -> tuple[Worker, Sessions]:
    """Return a worker that stops when nothing waits, unless it is to be idle for long."""
    sessions, clock, stopping = Sessions(), ManualClock(), threading.Event()
    limits = limits or Limits()

    def wait(seconds: float) -> None:
        clock.advance(int(seconds * 1000))
        if limits.idle_ms is None:
            stopping.set()

    def done(session: int, run: PipelineRun) -> RunState:
        sessions.history.append(f"run in {session}")
        ended(run, "done")
        return RunState.DONE

    made = Worker(
        name="w",
        sessions=sessions,
        carry_out=carry_out or done,
        memory_bytes=lambda: 500,
        limits=limits,
        clock=clock,
        stopping=stopping,
        wait=wait,
    )
    return made, sessions


def test_a_worker_takes_runs_one_after_the_other_in_one_session() -> None:
    for hour in range(3):
        asked(hour)
    made, sessions = worker()

    made.work()

    assert sessions.history == ["open 1", *["run in 1"] * 3, "close 1"]
    assert set(PipelineRun.objects.values_list("state", flat=True)) == {"done"}
    assert (made.run, made.run_count) == (None, 3)


@pytest.mark.parametrize("limits", [Limits(runs_max=2), Limits(memory_bytes_max=499)], ids=str)
def test_a_session_is_made_anew_after_so_many_runs_or_so_much_memory(limits: Limits) -> None:
    for hour in range(3):
        asked(hour)
    made, sessions = worker(limits=limits)

    made.work()

    opened = sum(line.startswith("open") for line in sessions.history)
    assert opened == (2 if limits.runs_max == 2 else 4)
    assert opened == sum(line.startswith("close") for line in sessions.history)


def test_a_session_that_died_is_made_anew() -> None:
    asked(0), asked(1)
    made, sessions = worker()

    def die(session: int, run: PipelineRun) -> RunState:
        sessions.dead.add(session)
        sessions.history.append(f"run in {session}")
        ended(run, "failed")
        return RunState.FAILED

    made.carry_out = die

    made.work()

    assert sessions.history[:5] == ["open 1", "run in 1", "close 1", "open 2", "run in 2"]


def test_a_worker_on_demand_ends_when_it_has_had_nothing_to_do_for_long() -> None:
    asked()
    made, sessions = worker(limits=Limits(idle_ms=3_000))

    made.work()

    assert sessions.history == ["open 1", "run in 1", "close 1"]
    assert not made.stopping.is_set()


def test_the_time_a_new_session_takes_is_not_idle() -> None:
    for hour in range(2):
        asked(hour)
    made, sessions = worker(limits=Limits(runs_max=1, idle_ms=3_000))
    whole = sessions.open

    def slowly() -> int:
        made.clock.advance(60_000)  # type: ignore[attr-defined]
        if sessions.count == 2:
            made.wait = lambda seconds: (asked(7), made.clock.advance(int(seconds * 1000)))  # type: ignore[attr-defined]
        return whole()

    sessions.open = slowly  # type: ignore[method-assign]

    made.work()

    assert "run in 3" in sessions.history


def test_a_worker_waits_for_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    asked()
    made, sessions = worker(limits=Limits(idle_ms=10_000))
    with monkeypatch.context() as patched:
        faults = _away(patched, "expire")
        made.limits = Limits(idle_ms=3_000)
        made.work()
        assert len(faults) >= 2
    assert "run in 1" not in sessions.history

    made.work()

    assert "run in 2" in sessions.history


def test_the_sentence_of_an_error_has_its_code_and_no_stack() -> None:
    class Coded(Exception):
        code = "not_reconciled"

    assert sentence_of(Coded("3 rows\n\tat org.apache")) == "not_reconciled: 3 rows"
    assert sentence_of(Stopped(Why.LOST)) == Why.LOST.value


@dataclass
class Stage:
    """What Spark says of a stage."""

    numTasks: int  # noqa: N815
    numCompletedTasks: int = 0  # noqa: N815
    numActiveTasks: int = 0  # noqa: N815
    numFailedTasks: int = 0  # noqa: N815


def test_stages_that_spark_skips_are_not_counted() -> None:
    skipped, runs, waits = Stage(9), Stage(4, numActiveTasks=1), Stage(2)

    assert counted([skipped, None, runs, waits], is_running=True) == [runs, waits]
    assert counted([skipped, runs, waits], is_running=False) == [runs]
    assert counted([waits], is_running=True) == [waits]


def test_a_meter_adds_up_what_processes_used_since_it_began() -> None:
    readings: Iterator[list[Use]] = iter(
        [
            [Use(number=1, born=0.0, cpu_s=10.0, memory_bytes=100)],
            [
                Use(number=1, born=0.0, cpu_s=11.0, memory_bytes=100),
                Use(number=2, born=5.0, cpu_s=2.0, memory_bytes=50),
            ],
            [Use(number=2, born=6.0, cpu_s=0.5, memory_bytes=10)],
        ]
    )
    meter = Meter(read=lambda: next(readings))

    for _ in range(3):
        meter.take()

    assert (meter.cpu_ms, meter.memory_bytes, meter.memory_bytes_max) == (3_500, 10, 150)


def test_a_log_is_bounded_and_keeps_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runlogs, "HALF_BYTES_MAX", 1_000)
    log = RunLog(tmp_path)
    log.write(b"of nobody")
    with log.of_run(7):
        for number in range(1_000):
            log.write(b"%06d\n" % number)
    log.write(b"of nobody")

    found = runlogs.tail(tmp_path, 7, tail_bytes=1_400)

    assert found.splitlines() == [f"{number:06d}" for number in range(852, 1_000)]
    assert sum(path.stat().st_size for path in (tmp_path / "logs").iterdir()) <= 2_000
    assert runlogs.tail(tmp_path, 8, tail_bytes=100) == ""


def test_logs_of_runs_long_ago_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runlogs, "RUNS_KEPT", 2)
    log = RunLog(tmp_path)
    for number in (9, 10, 11, 12):
        with log.of_run(number):
            log.write(b"here")

    kept = [number for number in range(20) if runlogs.tail(tmp_path, number, tail_bytes=9)]

    assert kept == [10, 11, 12]


def attempt(number: int, rows: int, done: int, *, failed: int = 0, killed: int = 0) -> Any:
    return {
        "attemptId": number,
        "inputRecords": rows,
        "numCompleteTasks": done,
        "numFailedTasks": failed,
        "numKilledTasks": killed,
    }


def task(partition: int, rows: int | None) -> Any:
    told = {} if rows is None else {"taskMetrics": {"inputMetrics": {"recordsRead": rows}}}
    return {"partitionId": partition, **told}


def test_rows_are_not_known_before_a_task_has_told_of_them() -> None:
    asked_for: list[int] = []

    assert rows_of([], asked_for.append) is None
    assert rows_of([attempt(0, 0, 0)], asked_for.append) is None
    assert rows_of([attempt(0, 0, 1)], asked_for.append) == 0
    assert rows_of([attempt(0, 70, 0)], asked_for.append) == 70
    assert asked_for == []


@pytest.mark.parametrize("how", ["failed", "killed"])
def test_rows_of_a_task_that_began_anew_count_once(how: str) -> None:
    tasks = [task(0, 50), task(1, 40), task(1, 20), task(2, None)]

    assert rows_of([attempt(0, 110, 1, **{how: 1})], {0: tasks}.__getitem__) == 90


def test_rows_of_a_stage_that_began_anew_count_once() -> None:
    first, again = [task(0, 50), task(1, 50), task(2, 50)], [task(1, 50), task(2, 10)]
    stages = [attempt(1, 60, 1), attempt(0, 150, 3)]

    assert rows_of(stages, {0: first, 1: again}.__getitem__) == 150
