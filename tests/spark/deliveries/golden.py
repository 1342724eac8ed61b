"""Rows of the pipelines' tables for golden data: what a test does not say has a plain value."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.pipelines.columns import Kind
from apps.pipelines.spark.jobs import Window, function_of
from apps.pipelines.tables import TABLES

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
HOUR = Window(start=START, end=START + timedelta(hours=1))

_PLAIN = {
    Kind.TEXT: "x",
    Kind.INTEGER: 0,
    Kind.LONG: 0,
    Kind.REAL: 0.0,
    Kind.MOMENT: START,
}


def at(seconds: float) -> datetime:
    """Return a moment so long after the window's start."""
    return START + timedelta(seconds=seconds)


def frame(spark: Any, name: str, rows: Sequence[dict[str, object]]) -> Any:
    """Return a table of these rows; columns a row leaves out are null, or plain where they must."""
    columns = TABLES[name].columns
    known = {column.name for column in columns}
    for row in rows:
        assert set(row) <= known
    values = [
        tuple(
            row.get(column.name, None if column.is_nullable else _PLAIN[column.kind])
            for column in columns
        )
        for row in rows
    ]
    return spark.createDataFrame(values, TABLES[name].ddl())


def trace(offset: int, began_s: float, **values: object) -> dict[str, object]:
    """Return a row of bronze.trace: a first try of group g in queue 0 of orders, 100 ms long."""
    row = {
        "group": "g", "topic": "orders", "queue": 0, "queue_offset": offset, "client": "c",
        "message_id": f"m{offset}", "attempt": 1, "started_at": at(began_s),
        "ended_at": at(began_s + 0.1), "result": "ok", "error_class": "",
    }  # fmt: skip
    return row | values


def recall(number: int, at_s: float, **values: object) -> dict[str, object]:
    """Return a row of bronze.trace: a message with a delay of its own that was taken back."""
    moment = {"started_at": at(at_s), "ended_at": at(at_s), "due_at": at(at_s + 60)}
    nobody = {"group": "", "client": "", "queue_offset": -1, "attempt": 0, "result": "recalled"}
    return trace(number, at_s) | nobody | moment | values


def outcome(frame_: Any, *names: str) -> list[tuple[Any, ...]]:
    """Return columns of all rows, sorted."""
    return sorted(tuple(row) for row in frame_.select(*names).collect())


def run(name: str, inputs: dict[str, Any], window: Window = HOUR) -> Any:
    """Run a job, and have its columns be those of its tables."""
    outputs = function_of(name)(inputs, window)
    for table, found in outputs.items():
        wanted = {column.name: column.kind.value for column in TABLES[table].columns}
        told = {field.name: field.dataType.simpleString() for field in found.schema.fields}
        assert told == wanted, table
    return outputs
