"""Runs, jobs and streams as pages show them. Pure: rows to plain values, ages in seconds."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from apps.console import plots
from apps.console.pipelines import words
from apps.console.stored_words import stored
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.core.phrases import Text, phrase
from apps.pipelines.models import (
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    RunState,
    Trigger,
)
from apps.pipelines.selectors.runs import Pace, Standing, is_running
from apps.pipelines.tables import TABLES

Row = dict[str, object]

TREND_WIDTH = 100
TREND_HEIGHT = 20
_WORDS_SHOWN = 200

# A state of a run or a stream in a word whose look the stylesheet knows.
_LOOKS: Mapping[str, str] = {RunState.QUEUED: "never run", "waiting": "never run"}


def run_line(run: PipelineRun, *, now: datetime) -> Row:
    """Return a run as a line of a table, and what goes on about it while it runs.

    `elapsed_ms` is the time since it began, until it has ended, and `rows_so_far` what the stage
    that goes on has read.
    """
    percent = None if run.percent is None else round(run.percent)
    is_running = run.state == RunState.RUNNING
    return {
        "id": run.pk,
        "job": run.job,
        "state": run.state,
        "state_said": said_of(run),
        "look": look_of(run),
        "is_active": run.is_active,
        "window_start": rfc3339(run.window_start),
        "window_end": rfc3339(run.window_end),
        "who": _who(run),
        "requested_s": max(0, age_s(run.requested_at, now)),
        "cancel_requested": run.cancel_requested,
        "stage": words.stage(run.stage),
        "percent": percent,
        "rows_expected": run.rows_expected,
        "rows_read": run.rows_read,
        "rows_so_far": run.stage_rows_read if is_running else run.rows_read,
        "rows_written": run.rows_written,
        "elapsed_ms": _elapsed_ms(run, now) if is_running else run.duration_ms,
        "cpu_ms": run.cpu_ms,
        "memory_bytes_max": run.memory_bytes_max,
    }


def look_of(run: PipelineRun) -> str:
    """Return a run's state in a word whose look the stylesheet knows."""
    return _LOOKS.get(run.state, run.state)


def said_of(run: PipelineRun) -> Text:
    """Return a run's state, and how far its stage is where that is known."""
    state = words.state(run.state)
    if run.state != RunState.RUNNING or run.percent is None:
        return state
    return phrase("%(state)s %(percent)s %%", state=state, percent=round(run.percent))


def _who(run: PipelineRun) -> Text:
    trigger = words.trigger(run.trigger)
    if run.trigger == Trigger.SCHEDULE:
        return trigger
    return phrase("%(trigger)s %(name)s", trigger=trigger, name=run.requested_by)


def revision(run: PipelineRun, *, log_bytes: int) -> str:
    """Return a text that is another one when what a run's page says in words has changed."""
    return f"{run.state}/{run.stage}/{run.cancel_requested}/{log_bytes}"


def run_row(run: PipelineRun, *, now: datetime) -> Row:
    """Return a run as its page shows it."""
    return {
        **run_line(run, now=now),
        "topics": run.topics,
        "parameters": run.parameters,
        "trigger": run.trigger,
        "trigger_said": words.trigger(run.trigger),
        "requested_by": run.requested_by,
        "requested_at": rfc3339(run.requested_at),
        "started_at": rfc3339_or_none(run.started_at),
        "ended_at": rfc3339_or_none(run.ended_at),
        "replaces": run.replaces_id,
        "worker": run.worker,
        "published": run.published,
        "has_results": run.published and run.results_deleted_at is None,
        "results_deleted_at": rfc3339_or_none(run.results_deleted_at),
        "cancelled_by": run.cancelled_by,
        "error": stored(run.error),
        "code_version": run.code_version,
    }


def job_row(found: Standing, *, now: datetime) -> Row:
    """Return a job with its newest run, its trend and its next window."""
    durations = found.durations_ms
    return {
        "name": found.job.name,
        "meaning": words.meaning(found.job),
        "every_s": found.job.every_s,
        "waiting": found.waiting,
        "last": None if found.last is None else run_line(found.last, now=now),
        "look": _LOOKS[RunState.QUEUED] if found.last is None else look_of(found.last),
        "said": words.NEVER_RUN if found.last is None else said_of(found.last),
        "revision": "" if found.last_done is None else str(found.last_done.pk),
        "done_s": None
        if found.last_done is None
        else age_s(found.last_done.ended_at or found.last_done.requested_at, now),
        "duration_ms": durations[-1] if durations else None,
        "trend": _trend(found.durations_ms),
        "next_start": rfc3339(found.next_start),
        "next_end": rfc3339(found.next_end),
        "next_s": -age_s(found.next_end, now),
    }


def table_input(row: RunInput) -> Row:
    """Return a table of the lake or of the database that went into a run."""
    known = TABLES.get(row.table)
    return {"table": row.table, "version": known and known.version, "rows": row.rows}


def file_row(row: LakeFile) -> Row:
    """Return a file of a run."""
    state = "deleted" if row.deleted_at else "replaced" if row.retired_at else "in use"
    return {
        "id": row.pk,
        "table": row.table,
        "topic": row.topic,
        "day": None if row.day is None else row.day.isoformat(),
        "path": row.path,
        "rows": row.rows,
        "size_bytes": row.size_bytes,
        "is_kept": row.deleted_at is None,
        "state": state,
        "state_said": words.FILES[state],
    }


def stream_row(stream: PipelineStream, *, pace: Pace, now: datetime) -> Row:
    """Return a stream with its last batch, how fast it is and how far behind.

    How far one is behind that does not run nobody knows: what it said last is of another time.
    """
    state = _stream_state(stream, now=now)
    last = pace.last
    return {
        "name": stream.name,
        "topics": _named(stream.topics),
        "state": state,
        "state_said": words.STREAMS[state],
        "look": _LOOKS.get(state, state),
        "batch": stream.batch if last is None else last.number,
        "batch_rows": None if last is None else last.rows,
        "batch_ms": None if last is None else last.duration_ms,
        "batch_s": None if last is None else max(0, age_s(last.ended_at, now)),
        "rate": pace.rows_per_s,
        "lag": stream.lag if is_running(stream, now) else None,
        "seen_s": None if stream.updated_at is None else max(0, age_s(stream.updated_at, now)),
        "error": plots.cut(stream.error, _WORDS_SHOWN),
    }


def age_s(at: datetime, now: datetime) -> int:
    """Return how many whole seconds ago a moment was; negative for one to come."""
    return (ms_of(now) - ms_of(at)) // 1000


def _trend(durations_ms: Sequence[int]) -> str:
    """Return the path of how long runs took; one alone is no trend."""
    if len(durations_ms) < 2:
        return ""
    return plots.path(
        durations_ms, highest=max(durations_ms), width=TREND_WIDTH, height=TREND_HEIGHT
    )


def _named(topics: Sequence[str]) -> Text:
    return plots.cut(", ".join(topics), _WORDS_SHOWN) or words.ALL_TOPICS


def _elapsed_ms(run: PipelineRun, now: datetime) -> int | None:
    return None if run.started_at is None else max(0, ms_of(now) - ms_of(run.started_at))


def _stream_state(stream: PipelineStream, *, now: datetime) -> str:
    if not stream.is_wanted:
        return "not wanted"
    if stream.lease_ends_at is None:
        return "failed" if stream.error else "waiting"
    return "running" if is_running(stream, now) else "silent"
