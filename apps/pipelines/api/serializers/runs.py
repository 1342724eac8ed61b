"""Runs and jobs, as they are asked for and answered. Unknown is null."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.core.serializers import StrictBooleanField, StrictSerializer, StrictTextField
from apps.groups.api.serializers.settings import TimeField
from apps.pipelines.models import LakeFile, PipelineRun, RunInput, RunState, Trigger
from apps.pipelines.models.results.result import TEXT_CHARACTERS_MAX
from apps.pipelines.selectors.runs import Standing
from apps.pipelines.services.asking import PARAMETERS_MAX, TOPICS_MAX


class RunRequest(StrictSerializer):
    """Which job to run over which window of time."""

    job = StrictTextField(max_length=40)
    topics = serializers.ListField(
        child=StrictTextField(max_length=TEXT_CHARACTERS_MAX),
        required=False,
        max_length=TOPICS_MAX,
        help_text="None given means all.",
    )
    parameters = serializers.DictField(
        required=False, help_text=f"Plain values by name, {PARAMETERS_MAX} at most."
    )
    replace = StrictBooleanField(
        required=False, help_text="Run again what is done, and put its results in their place."
    )

    def get_fields(self) -> Any:
        """Return the fields; the names of two of them are words of the language."""
        times = {
            "from": TimeField(help_text="The window's first moment."),
            "to": TimeField(help_text="The first one not in it; not later than now."),
        }
        return {**super().get_fields(), **times}

    def wish(self) -> dict[str, Any]:
        """Return what the service is asked."""
        given = self.validated_data
        return {
            "job": given["job"],
            "window_start": moment(given["from"]),
            "window_end": moment(given["to"]),
            "topics": given.get("topics", ()),
            "parameters": given.get("parameters", {}),
            "replace": given.get("replace", False),
        }


class PipelineRunDocument(serializers.Serializer[Any]):
    """A run of a job over a window of time."""

    id = serializers.CharField()
    job = serializers.CharField()
    window_start = serializers.DateTimeField()
    window_end = serializers.DateTimeField(help_text="Not in the window any more.")
    topics = serializers.ListField(child=serializers.CharField(), help_text="Empty is all.")
    parameters = serializers.DictField()
    state = serializers.ChoiceField(RunState.choices)
    trigger = serializers.ChoiceField(Trigger.choices)
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    replaces = serializers.CharField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_requested = serializers.BooleanField()
    cancelled_by = serializers.CharField(allow_null=True)
    published = serializers.BooleanField(help_text="Whether its results can be seen.")
    stage = serializers.CharField(allow_null=True)
    percent = serializers.FloatField(allow_null=True, help_text="Of the stage.")
    rows_expected = serializers.IntegerField(allow_null=True)
    stage_rows_read = serializers.IntegerField(
        allow_null=True,
        help_text="By the stage so far, a row as often as it is read; null when none goes on.",
    )
    rows_read = serializers.IntegerField(allow_null=True, help_text="Known when it is done.")
    rows_written = serializers.IntegerField(allow_null=True)
    error = serializers.CharField()
    duration_ms = serializers.IntegerField(allow_null=True)
    cpu_ms = serializers.IntegerField(allow_null=True)
    memory_bytes_max = serializers.IntegerField(allow_null=True)
    code_version = serializers.CharField()


class RunInputDocument(serializers.Serializer[Any]):
    """A range that went into a run, its end not included."""

    table = serializers.CharField()
    topic = serializers.CharField()
    queue = serializers.IntegerField()
    first_offset = serializers.CharField()
    end_offset = serializers.CharField()
    rows = serializers.IntegerField()


class RunFileDocument(serializers.Serializer[Any]):
    """A Parquet file of the lake that a run made."""

    id = serializers.CharField()
    table = serializers.CharField()
    topic = serializers.CharField(allow_null=True)
    day = serializers.DateField(allow_null=True)
    path = serializers.CharField(help_text="Below the lake's directory.")
    rows = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    added_at = serializers.DateTimeField()
    retired_at = serializers.DateTimeField(allow_null=True, help_text="Not read any more since.")
    deleted_at = serializers.DateTimeField(allow_null=True)


class WholePipelineRunDocument(PipelineRunDocument):
    """A run with what went into it and the files it made, the first 1,000 of each."""

    inputs = RunInputDocument(many=True)
    files = RunFileDocument(many=True)
    lineage = serializers.DictField()


class PipelineRunList(serializers.Serializer[Any]):
    """A page of runs, the newest first."""

    items = PipelineRunDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class PipelineJobDocument(serializers.Serializer[Any]):
    """A job of the catalogue and how it stands."""

    name = serializers.CharField()
    meaning = serializers.CharField()
    reads = serializers.ListField(child=serializers.CharField())
    writes = serializers.ListField(child=serializers.CharField())
    every_s = serializers.IntegerField()
    lookback_s = serializers.IntegerField(help_text="How far its inputs reach back.")
    next_start = serializers.DateTimeField(help_text="The next window that will be whole.")
    next_end = serializers.DateTimeField()
    waiting = serializers.IntegerField(help_text="Runs that wait or run.")
    durations_ms = serializers.ListField(
        child=serializers.IntegerField(), help_text="Of the last 30 runs, the oldest first."
    )
    last_run = PipelineRunDocument(allow_null=True)
    last_done_run = PipelineRunDocument(allow_null=True)


class ReadinessDocument(serializers.Serializer[Any]):
    """Whether jobs can run here."""

    is_ready = serializers.BooleanField()
    missing = serializers.ListField(child=serializers.CharField(), help_text="What is not there.")


class PipelineJobList(serializers.Serializer[Any]):
    """All jobs."""

    items = PipelineJobDocument(many=True)
    readiness = ReadinessDocument()
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_run(run: PipelineRun) -> dict[str, object]:
    """Build the JSON shape of a run."""
    return {
        "id": str(run.pk),
        "job": run.job,
        "window_start": rfc3339(run.window_start),
        "window_end": rfc3339(run.window_end),
        "topics": run.topics,
        "parameters": run.parameters,
        "state": run.state,
        "trigger": run.trigger,
        "requested_by": run.requested_by,
        "requested_at": rfc3339(run.requested_at),
        "replaces": None if run.replaces_id is None else str(run.replaces_id),
        "started_at": rfc3339_or_none(run.started_at),
        "ended_at": rfc3339_or_none(run.ended_at),
        "cancel_requested": run.cancel_requested,
        "cancelled_by": run.cancelled_by or None,
        "published": run.published and run.results_deleted_at is None,
        "stage": run.stage or None,
        "percent": run.percent,
        "rows_expected": run.rows_expected,
        "stage_rows_read": run.stage_rows_read if run.state == RunState.RUNNING else None,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "error": run.error,
        "duration_ms": run.duration_ms,
        "cpu_ms": run.cpu_ms,
        "memory_bytes_max": run.memory_bytes_max,
        "code_version": run.code_version,
    }


def rendered_input(row: RunInput) -> dict[str, object]:
    """Build the JSON shape of a range that was read."""
    return {
        "table": row.table,
        "topic": row.topic,
        "queue": row.queue,
        "first_offset": str(row.first_offset),
        "end_offset": str(row.end_offset),
        "rows": row.rows,
    }


def rendered_file(row: LakeFile) -> dict[str, object]:
    """Build the JSON shape of a file."""
    return {
        "id": str(row.pk),
        "table": row.table,
        "topic": row.topic or None,
        "day": None if row.day is None else row.day.isoformat(),
        "path": row.path,
        "rows": row.rows,
        "size_bytes": row.size_bytes,
        "added_at": rfc3339(row.added_at),
        "retired_at": rfc3339_or_none(row.retired_at),
        "deleted_at": rfc3339_or_none(row.deleted_at),
    }


def rendered_standing(found: Standing) -> dict[str, object]:
    """Build the JSON shape of a job."""
    job = found.job
    return {
        "name": job.name,
        "meaning": job.meaning,
        "reads": list(job.reads),
        "writes": list(job.writes),
        "every_s": job.every_s,
        "lookback_s": job.lookback_s,
        "next_start": rfc3339(found.next_start),
        "next_end": rfc3339(found.next_end),
        "waiting": found.waiting,
        "durations_ms": list(found.durations_ms),
        "last_run": None if found.last is None else rendered_run(found.last),
        "last_done_run": None if found.last_done is None else rendered_run(found.last_done),
    }
