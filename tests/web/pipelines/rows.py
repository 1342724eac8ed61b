"""Rows of runs, results and files as jobs would leave them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.pipelines.columns import Column, Kind
from apps.pipelines.models import RESULTS, LakeFile, PipelineRun, RunState
from apps.pipelines.tables import TABLES

# What the console's hand clock says.
NOW = datetime.fromtimestamp(1_763_001_000, tz=UTC)
HOUR = timedelta(hours=1)
DAY_START = NOW.replace(minute=0, second=0, microsecond=0)


def run(job: str, *, hours_ago: int = 1, hours: int = 1, state: str = "done", **said: Any) -> Any:
    """Make a run of the window that began so many hours ago."""
    start = DAY_START - hours_ago * HOUR
    is_active = state in ("queued", "running")
    values: dict[str, Any] = {
        "job": job,
        "window_start": start,
        "window_end": start + hours * HOUR,
        "key": f"{PipelineRun.objects.count()}",
        "code_version": "c0de",
        "trigger": "schedule",
        "requested_by": "beat",
        "requested_at": NOW,
        "state": state,
        "published": state == RunState.DONE,
        "ended_at": None if is_active else NOW,
        "duration_ms": None if is_active else 12_345,
    }
    return PipelineRun.objects.create(**{**values, **said})


def row(table: str, of: PipelineRun, **said: Any) -> Any:
    """Make a row of a result; what is not said is a value of the column's type."""
    found = TABLES[table]
    values = {column.name: _value(column, of) for column in found.columns}
    return RESULTS[found.model].objects.create(run=of, **{**values, **said})


def file(of: PipelineRun, path: str, **said: Any) -> LakeFile:
    """Make a row of a file."""
    values: dict[str, Any] = {
        "table": "bronze.messages",
        "schema_version": 1,
        "topic": "orders",
        "day": of.window_start.date(),
        "path": path,
        "rows": 10,
        "size_bytes": 1_000,
        "run": of,
        "added_at": NOW,
    }
    return LakeFile.objects.create(**{**values, **said})


def _value(column: Column, of: PipelineRun) -> object:
    if column.is_nullable:
        return None
    return {
        Kind.TEXT: "t",
        Kind.INTEGER: 1,
        Kind.LONG: 7,
        Kind.REAL: 0.5,
        Kind.TRUTH: True,
        Kind.MOMENT: of.window_start,
    }[column.kind]
