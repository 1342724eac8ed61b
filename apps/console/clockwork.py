"""What the console says of the clockwork: its state, and tasks, processes and runs as rows.

Asks no database. Ages go by the database's clock up to the reading, and by the monotonic clock
from there on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypedDict

from apps.clockwork.models import Part
from apps.clockwork.selectors import STANDS_STILL_S, Clockwork, PartView, RunView, TaskView
from apps.console import banners
from apps.console.banners import Banner
from apps.core.pagination import rfc3339
from apps.core.phrases import Text, phrase_in
from apps.engine.clock import Clock

# Readings come every 2 s; from a database that is away each takes some seconds longer to fail.
OLD_AFTER_MS = 10_000
# Worker and beat start after the broker, and nobody is to be alarmed meanwhile.
GRACE_MS = STANDS_STILL_S * 1000


class State(StrEnum):
    """What can be said of the clockwork, in the words of the page."""

    RUNNING = "running"
    STARTING = "starting"
    STANDING_STILL = "standing still"
    NOT_KNOWN = "not known"


_STATE_WORDS: Final[Mapping[State, Text]] = {
    State.RUNNING: phrase_in("clockwork", "running"),
    State.STARTING: phrase_in("clockwork", "starting"),
    State.STANDING_STILL: phrase_in("clockwork", "standing still"),
    State.NOT_KNOWN: phrase_in("clockwork", "not known"),
}

# How a run of a task ended, as its row says it; and what a task does meanwhile.
_OUTCOME_WORDS: Final[Mapping[str, Text]] = {
    "running": phrase_in("task", "running"),
    "overdue": phrase_in("task", "overdue"),
    "never run": phrase_in("task", "never run"),
    "done": phrase_in("task", "done"),
    "failed": phrase_in("task", "failed"),
    "interrupted": phrase_in("task", "interrupted"),
}

_PRESENCE_WORDS: Final[Mapping[str, Text]] = {
    "silent": phrase_in("process", "silent"),
    "there": phrase_in("process", "there"),
}


class TaskRow(TypedDict):
    """One task; `last_run_s` ago, and due in `due_in_s`, which is negative when it is late."""

    name: str
    every_s: int
    last_run_s: int | None
    duration_ms: int | None
    outcome: str
    outcome_said: Text
    error: str
    done: int | None
    failures_in_a_row: int
    due_in_s: int | None
    due_level: str


class PartRow(TypedDict):
    """One process; started and seen so many seconds ago."""

    id: str
    kind: str
    name: str
    started_s: int | None
    seen_s: int | None
    presence: str
    presence_said: Text


class RunRow(TypedDict):
    """One run of a task."""

    owner: str
    task: str
    started_at: str
    duration_ms: int | None
    outcome: str
    outcome_said: Text
    done: int | None
    error: str


class ClockworkPicture(TypedDict):
    """The clockwork at the moment of a picture; None is unknown."""

    state: str
    state_said: Text
    banner: Banner | None
    last_step_s: int | None
    worker_count: int | None
    beat_count: int | None
    failing_count: int | None
    task_count: int | None
    tasks: list[TaskRow] | None
    parts: list[PartRow] | None
    runs: list[RunRow] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the rows said, and when by the monotonic clock they were asked."""

    clockwork: Clockwork
    taken_ms: int


class ClockworkWatch:
    """Keeps the newest reading, and tells what it means by now."""

    def __init__(self, *, clock: Clock, worker_processes: int) -> None:
        """Know nothing yet; `worker_processes` is how many this server was told to run."""
        self._clock = clock
        self._worker_processes = worker_processes
        self._started_ms = clock.monotonic_ms()
        # One attribute, replaced as a whole: readings come from another thread.
        self._reading: Reading | None = None

    def take(self, read: Callable[[], Clockwork]) -> None:
        """Read and keep the reading; raise what `read` raises, and keep the last one then."""
        # The time before the reading, so that nothing looks younger than it is.
        taken_ms = self._clock.monotonic_ms()
        self._reading = Reading(clockwork=read(), taken_ms=taken_ms)

    def picture(self) -> ClockworkPicture:
        """Return the clockwork as pages show it now."""
        reading, now_ms = self._reading, self._clock.monotonic_ms()
        state = _state(reading, started_ms=self._started_ms, now_ms=now_ms)
        if reading is None:
            return _unread(state)
        found = reading.clockwork
        now = found.now + timedelta(milliseconds=now_ms - reading.taken_ms)
        is_known = state is not State.NOT_KNOWN
        return {
            "state": state.value,
            "state_said": _STATE_WORDS[state],
            "banner": self._banner(state, found, now),
            "last_step_s": _age_s(found.last_step_at, now),
            "worker_count": _count_there(found.parts, Part.Kind.WORKER) if is_known else None,
            "beat_count": _count_there(found.parts, Part.Kind.BEAT) if is_known else None,
            "failing_count": sum(task.failures_in_a_row > 0 for task in found.tasks),
            "task_count": len(found.tasks),
            "tasks": [_task_row(task, now, is_known=is_known) for task in found.tasks],
            "parts": [_part_row(part, now) for part in found.parts],
            "runs": [_run_row(run) for run in found.runs],
        }

    def _banner(self, state: State, found: Clockwork, now: datetime) -> Banner | None:
        if state is State.STANDING_STILL:
            return banners.standing_still(found, now, worker_processes=self._worker_processes)
        return banners.not_known(found, now) if state is State.NOT_KNOWN else None


def _state(reading: Reading | None, *, started_ms: int, now_ms: int) -> State:
    is_fresh = reading is not None and now_ms - reading.taken_ms <= OLD_AFTER_MS
    if is_fresh and reading is not None and not reading.clockwork.stands_still:
        return State.RUNNING
    if now_ms - started_ms < GRACE_MS:
        return State.STARTING
    return State.STANDING_STILL if is_fresh else State.NOT_KNOWN


def _unread(state: State) -> ClockworkPicture:
    return {
        "state": state.value,
        "state_said": _STATE_WORDS[state],
        "banner": banners.not_known(None, None) if state is State.NOT_KNOWN else None,
        "last_step_s": None,
        "worker_count": None,
        "beat_count": None,
        "failing_count": None,
        "task_count": None,
        "tasks": None,
        "parts": None,
        "runs": None,
    }


def _task_row(task: TaskView, now: datetime, *, is_known: bool) -> TaskRow:
    outcome = _outcome(task)
    return {
        "name": task.name,
        "every_s": task.every_s,
        "last_run_s": _age_s(task.last_started_at, now),
        "duration_ms": task.last_duration_ms,
        "outcome": outcome,
        "outcome_said": _OUTCOME_WORDS.get(outcome, outcome),
        "error": task.last_error,
        "done": task.last_done,
        "failures_in_a_row": task.failures_in_a_row,
        "due_in_s": _due_in_s(task, now) if is_known else None,
        "due_level": "late" if task.is_late and is_known else "",
    }


def _outcome(task: TaskView) -> str:
    if task.is_running:
        return "running"
    if task.is_overdue:
        return "overdue"
    return task.last_outcome or "never run"


def _due_in_s(task: TaskView, now: datetime) -> int | None:
    """Return None for a task that runs, and 0 from when it is due until it is late."""
    if task.is_running:
        return None
    due_in_s = int((task.due_at - now).total_seconds())
    if task.is_late:
        return due_in_s
    return 0 if task.has_more else max(0, due_in_s)


def _part_row(part: PartView, now: datetime) -> PartRow:
    presence = "silent" if part.is_silent else "there"
    return {
        "id": f"{part.kind} {part.name}",
        "kind": part.kind,
        "name": part.name,
        "started_s": _age_s(part.started_at, now),
        "seen_s": _age_s(part.seen_at, now),
        "presence": presence,
        "presence_said": _PRESENCE_WORDS[presence],
    }


def _run_row(run: RunView) -> RunRow:
    outcome = "overdue" if run.is_overdue else run.outcome
    return {
        "owner": run.owner,
        "task": run.task,
        "started_at": rfc3339(run.started_at),
        "duration_ms": run.duration_ms,
        "outcome": outcome,
        "outcome_said": _OUTCOME_WORDS.get(outcome, outcome),
        "done": run.done,
        "error": run.error,
    }


def _count_there(parts: Sequence[PartView], kind: str) -> int:
    return sum(part.kind == kind and not part.is_silent for part in parts)


def _age_s(moment: datetime | None, now: datetime) -> int | None:
    if moment is None:
        return None
    # What lies ahead was written while we read, or before the clock was set back.
    return max(0, int((now - moment).total_seconds()))
