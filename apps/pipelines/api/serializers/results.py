"""Tables of results and streams, as they are answered."""

from typing import Any

from rest_framework import serializers

from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.pipelines.columns import Table
from apps.pipelines.exporting import json_value
from apps.pipelines.models import PipelineStream, StreamBatch
from apps.pipelines.models.results.result import Result
from apps.pipelines.selectors.runs import Pace


class ColumnDocument(serializers.Serializer[Any]):
    """A column of a table."""

    name = serializers.CharField()
    type = serializers.CharField(help_text="In Spark's words, such as bigint.")
    meaning = serializers.CharField()
    is_nullable = serializers.BooleanField()


class TableDocument(serializers.Serializer[Any]):
    """A table of results."""

    name = serializers.CharField()
    meaning = serializers.CharField()
    version = serializers.IntegerField()
    job = serializers.CharField(help_text="Which job writes it.")
    key = serializers.ListField(child=serializers.CharField())
    columns = ColumnDocument(many=True)


class TableList(serializers.Serializer[Any]):
    """All tables of results."""

    items = TableDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class ResultRowDocument(serializers.Serializer[Any]):
    """A row, the run that found it out, and the values of the table's columns by name."""

    run = serializers.CharField()
    window_start = serializers.DateTimeField()
    window_end = serializers.DateTimeField()
    values = serializers.DictField()


class ResultList(serializers.Serializer[Any]):
    """A page of rows, the newest run's first."""

    items = ResultRowDocument(many=True)
    runs = serializers.IntegerField(help_text="Runs whose results these are.")
    window_start = serializers.DateTimeField(allow_null=True, help_text="Of all of them together.")
    window_end = serializers.DateTimeField(allow_null=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class StreamDocument(serializers.Serializer[Any]):
    """A stream: a job that does not end."""

    name = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField(), help_text="Empty is all.")
    is_wanted = serializers.BooleanField(help_text="Whether it is to run.")
    worker = serializers.CharField(allow_null=True, help_text="The process that runs it.")
    lease_ends_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    updated_at = serializers.DateTimeField(allow_null=True)
    batch = serializers.CharField(allow_null=True, help_text="Number of its last batch.")
    batch_rows = serializers.IntegerField(allow_null=True, help_text="Of its last batch.")
    batch_ended_at = serializers.DateTimeField(allow_null=True)
    rows_per_s = serializers.FloatField(
        allow_null=True, help_text="Of the last minute; null when it does not run."
    )
    lag = serializers.IntegerField(
        allow_null=True, help_text="Messages it had yet to read at `updated_at`."
    )
    error = serializers.CharField(help_text="How it last ended.")


class StreamList(serializers.Serializer[Any]):
    """All streams."""

    items = StreamDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class BatchDocument(serializers.Serializer[Any]):
    """A batch of a stream."""

    number = serializers.CharField()
    rows = serializers.IntegerField()
    duration_ms = serializers.IntegerField()
    lag = serializers.IntegerField(allow_null=True)
    ended_at = serializers.DateTimeField()


class BatchList(serializers.Serializer[Any]):
    """A page of batches, the newest first."""

    items = BatchDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_table(table: Table, *, job: str) -> dict[str, object]:
    """Build the JSON shape of a table."""
    return {
        "name": table.name,
        "meaning": table.meaning,
        "version": table.version,
        "job": job,
        "key": list(table.key),
        "columns": [
            {
                "name": column.name,
                "type": column.kind.value,
                "meaning": column.meaning,
                "is_nullable": column.is_nullable,
            }
            for column in table.columns
        ],
    }


def rendered_row(table: Table, row: Result) -> dict[str, object]:
    """Build the JSON shape of a row; its run must have been read with it."""
    return {
        "run": str(row.run_id),
        "window_start": rfc3339(row.run.window_start),
        "window_end": rfc3339(row.run.window_end),
        "values": {
            column.name: json_value(column.kind, getattr(row, column.name), name=column.name)
            for column in table.columns
        },
    }


def rendered_stream(stream: PipelineStream, pace: Pace) -> dict[str, object]:
    """Build the JSON shape of a stream."""
    last = pace.last
    number = stream.batch if last is None else last.number
    return {
        "name": stream.name,
        "topics": stream.topics,
        "is_wanted": stream.is_wanted,
        "worker": stream.worker or None,
        "lease_ends_at": rfc3339_or_none(stream.lease_ends_at),
        "started_at": rfc3339_or_none(stream.started_at),
        "updated_at": rfc3339_or_none(stream.updated_at),
        "batch": None if number is None else str(number),
        "batch_rows": None if last is None else last.rows,
        "batch_ended_at": None if last is None else rfc3339(last.ended_at),
        "rows_per_s": pace.rows_per_s,
        "lag": stream.lag,
        "error": stream.error,
    }


def rendered_batch(batch: StreamBatch) -> dict[str, object]:
    """Build the JSON shape of a batch."""
    return {
        "number": str(batch.number),
        "rows": batch.rows,
        "duration_ms": batch.duration_ms,
        "lag": batch.lag,
        "ended_at": rfc3339(batch.ended_at),
    }
