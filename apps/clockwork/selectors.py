"""The clockwork as operators see it: tasks, processes, and whether it runs. Reads rows only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from apps.clockwork.models import Outcome, Part, TaskRun, TaskState

# A process says every 5 s that it is there; three times missed is gone.
PART_SILENT_S = 15
# Slots are 1 s and 5 s; when nothing at all has begun for so long, nothing is running.
STANDS_STILL_S = 20
# Of each kind, those seen last: a process that dies again and again leaves many behind.
PARTS_SHOWN = 50
RUNS_SHOWN = 50
# Runs of shorter slots that found nothing to do would be all that is shown.
IDLE_SHOWN_FROM_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task of the schedule; what has not happened is None or an empty text.

    `last_outcome`, `last_duration_ms`, `last_error` and `last_done` are of the run that ended last.
    `is_overdue`: the lease of a run has ended, and nobody has taken the task over.
    """

    name: str
    every_s: int
    is_running: bool
    is_overdue: bool
    last_started_at: datetime | None
    last_duration_ms: int | None
    last_outcome: str
    last_error: str
    last_done: int | None
    due_at: datetime
    has_more: bool
    is_late: bool
    failures_in_a_row: int
    run_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One process, beat or worker; a silent one has stopped saying that it is there."""

    kind: str
    name: str
    started_at: datetime
    seen_at: datetime
    is_silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run of a task; `is_overdue` as for tasks."""

    task: str
    owner: str
    started_at: datetime
    duration_ms: int | None
    outcome: str
    is_overdue: bool
    done: int | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clockwork:
    """Everything of one moment, by the database's clock.

    It stands still when no step has begun for a while; `last_step_at` is when the newest began,
    None when none ever did. `missing` lists the kinds of processes of which none is there, and
    `reason` says why it stands still; it is empty while it runs.
    """

    now: datetime
    last_step_at: datetime | None
    stands_still: bool
    reason: str
    missing: Sequence[str]
    tasks: Sequence[TaskView]
    parts: Sequence[PartView]
    runs: Sequence[RunView]


def clockwork() -> Clockwork:
    """Read the whole clockwork: five queries of few rows."""
    now = _database_now()
    states = {state.name: state for state in TaskState.objects.all()}
    parts = [_part_view(part, now) for kind in Part.Kind for part in _seen_last(kind)]
    schedule: Mapping[str, int] = settings.CLOCKWORK_SCHEDULE
    runs = _newest_runs(schedule)
    last_step_at = _newest_start(states.values(), now)
    stands_still = last_step_at is None or now - last_step_at > timedelta(seconds=STANDS_STILL_S)
    there = {part.kind for part in parts if not part.is_silent}
    missing = [kind.value for kind in Part.Kind if kind.value not in there]
    running = {state.owner for state in states.values() if _is_running(state, now)}
    return Clockwork(
        now=now,
        last_step_at=last_step_at,
        stands_still=stands_still,
        reason=_reason(missing) if stands_still else "",
        missing=missing,
        tasks=[
            # Nobody has looked yet whether a task without a row is due: it is.
            _task_view(states.get(name) or TaskState(name=name, due_at=now), schedule[name], now)
            for name in sorted(schedule)
        ],
        parts=sorted(parts, key=lambda part: (part.kind, part.is_silent, part.name)),
        runs=[_run_view(run, running, now) for run in runs],
    )


def _newest_runs(schedule: Mapping[str, int]) -> list[TaskRun]:
    frequent = [name for name, every_s in schedule.items() if every_s < IDLE_SHOWN_FROM_S]
    found = TaskRun.objects.exclude(task__in=frequent, outcome=Outcome.DONE, done=0)
    return list(found[:RUNS_SHOWN])


def _database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        (now,) = cursor.fetchone()
    moment: datetime = now
    return moment


def _seen_last(kind: Part.Kind) -> list[Part]:
    return list(Part.objects.filter(kind=kind).order_by("-seen_at", "-id")[:PARTS_SHOWN])


def _newest_start(states: Collection[TaskState], now: datetime) -> datetime | None:
    # What lies a little ahead began while we were reading; what lies far ahead was written before
    # the database's clock was set back, and says nothing.
    latest = now + timedelta(seconds=STANDS_STILL_S)
    starts = (state.last_started_at for state in states)
    return max((start for start in starts if start and start <= latest), default=None)


def _is_running(state: TaskState, now: datetime) -> bool:
    return state.lease_ends_at is not None and state.lease_ends_at > now


def _reason(missing: Sequence[str]) -> str:
    if missing:
        return f"no {' and no '.join(missing)} is there"
    return "beat and worker are there, and no step begins"


def _task_view(state: TaskState, every_s: int, now: datetime) -> TaskView:
    is_running = _is_running(state, now)
    return TaskView(
        name=state.name,
        every_s=every_s,
        is_running=is_running,
        is_overdue=bool(state.owner) and not is_running,
        last_started_at=state.last_started_at,
        last_duration_ms=state.last_duration_ms,
        last_outcome=state.last_outcome,
        last_error=state.last_error,
        last_done=state.last_done,
        due_at=state.due_at,
        has_more=state.has_more,
        is_late=not is_running and now - state.due_at > timedelta(seconds=STANDS_STILL_S),
        failures_in_a_row=state.failures_in_a_row,
        run_count=state.run_count,
    )


def _part_view(part: Part, now: datetime) -> PartView:
    return PartView(
        kind=part.kind,
        name=part.name,
        started_at=part.started_at,
        seen_at=part.seen_at,
        # In either direction: a clock that was set back makes nobody present.
        is_silent=abs(now - part.seen_at) > timedelta(seconds=PART_SILENT_S),
    )


def _run_view(run: TaskRun, running: Collection[str], now: datetime) -> RunView:
    duration = None if run.ended_at is None else run.ended_at - run.started_at
    # A young one may have begun or ended between our two queries.
    is_young = now - run.started_at < timedelta(seconds=STANDS_STILL_S)
    return RunView(
        task=run.task,
        owner=run.owner,
        started_at=run.started_at,
        duration_ms=None if duration is None else int(duration.total_seconds() * 1000),
        outcome=run.outcome,
        is_overdue=run.outcome == Outcome.RUNNING and run.owner not in running and not is_young,
        done=run.done,
        error=run.error,
    )
