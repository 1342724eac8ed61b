"""Runs, jobs and streams as pages show them. Pure: rows to plain values, ages in seconds."""

from collections.abc import Mapping
from datetime import datetime

from apps.console import plots
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.pipelines.models import LakeFile, PipelineRun, PipelineStream, RunState
from apps.pipelines.selectors.runs import Standing

Row = dict[str, object]

TREND_WIDTH = 100
TREND_HEIGHT = 20

# A run's state in a word whose look the stylesheet knows.
_LOOKS: Mapping[str, str] = {RunState.QUEUED: "never run"}


def run_row(run: PipelineRun, *, now: datetime) -> Row:
    """Return a run as a line of a table, and as the head of its page."""
    return {
        "id": run.pk,
        "job": run.job,
        "state": run.state,
        "look": _LOOKS.get(run.state, run.state),
        "is_active": run.is_active,
        "is_done": run.state == RunState.DONE,
        "window_start": rfc3339(run.window_start),
        "window_end": rfc3339(run.window_end),
        "topics": run.topics,
        "parameters": run.parameters,
        "trigger": run.trigger,
        "requested_by": run.requested_by,
        "requested_at": rfc3339(run.requested_at),
        "requested_s": age_s(run.requested_at, now),
        "started_at": rfc3339_or_none(run.started_at),
        "ended_at": rfc3339_or_none(run.ended_at),
        "replaces": run.replaces_id,
        "worker": run.worker,
        "published": run.published,
        "cancel_requested": run.cancel_requested,
        "cancelled_by": run.cancelled_by,
        "stage": run.stage,
        "percent": None if run.percent is None else round(run.percent),
        "rows_expected": run.rows_expected,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "error": run.error,
        "duration_ms": run.duration_ms,
        "cpu_ms": run.cpu_ms,
        "memory_bytes_max": run.memory_bytes_max,
        "code_version": run.code_version,
    }


def job_row(found: Standing, *, now: datetime) -> Row:
    """Return a job with its newest run, its trend and its next window."""
    durations = found.durations_ms
    return {
        "name": found.job.name,
        "meaning": found.job.meaning,
        "every_s": found.job.every_s,
        "waiting": found.waiting,
        "last": None if found.last is None else run_row(found.last, now=now),
        "done_s": None
        if found.last_done is None
        else age_s(found.last_done.ended_at or found.last_done.requested_at, now),
        "duration_ms": durations[-1] if durations else None,
        "longest_ms": max(durations, default=None),
        "trend": plots.path(
            durations, highest=max(durations, default=0), width=TREND_WIDTH, height=TREND_HEIGHT
        ),
        "trend_count": len(durations),
        "next_start": rfc3339(found.next_start),
        "next_end": rfc3339(found.next_end),
        "next_s": -age_s(found.next_end, now),
    }


def file_row(row: LakeFile) -> Row:
    """Return a file of a run."""
    return {
        "id": row.pk,
        "table": row.table,
        "topic": row.topic,
        "day": None if row.day is None else row.day.isoformat(),
        "path": row.path,
        "rows": row.rows,
        "size_bytes": row.size_bytes,
        "is_kept": row.deleted_at is None,
        "state": "deleted" if row.deleted_at else "replaced" if row.retired_at else "in use",
    }


def stream_row(stream: PipelineStream, *, now: datetime) -> Row:
    """Return a stream with how far it is."""
    seen_s = None if stream.updated_at is None else age_s(stream.updated_at, now)
    return {
        "name": stream.name,
        "topics": stream.topics,
        "state": _stream_state(stream, now=now),
        "batch": stream.batch,
        "lag": stream.lag,
        "seen_s": seen_s,
        "error": stream.error,
    }


def age_s(at: datetime, now: datetime) -> int:
    """Return how many whole seconds ago a moment was; negative for one to come."""
    return (ms_of(now) - ms_of(at)) // 1000


def _stream_state(stream: PipelineStream, *, now: datetime) -> str:
    if not stream.is_wanted:
        return "not wanted"
    if stream.lease_ends_at is None:
        return "failed" if stream.error else "waiting"
    return "running" if stream.lease_ends_at > now else "silent"
