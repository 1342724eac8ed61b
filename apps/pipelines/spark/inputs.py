"""What jobs read of the database: rows as DataFrames. Knows the models of other apps, and Arrow.

Rows are read in the driver, in chunks; there are some thousand of them, not millions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from django.db.models import Q

from apps.deadletters.models import DeadLetter
from apps.groups.models import LockTransition, Rebalance
from apps.metrics.models import GroupSample, TopicSample
from apps.metrics.resolutions import FINE, HOUR, MINUTE
from apps.pipelines.columns import Kind, Table
from apps.pipelines.spark.jobs import Window
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[object, ...]
"""Values in the order of a table's columns."""

_CHUNK_ROWS = 2_000
_ARROW = {
    Kind.TEXT: pa.string(),
    Kind.INTEGER: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.MOMENT: pa.timestamp("us", tz="UTC"),
}


def database_rows(name: str, window: Window) -> pa.Table:
    """Return the rows of a table `input.*` in a window; KeyError for another table."""
    return arrow_of(TABLES[name], _READERS[name](window))


def frame_of(spark: "SparkSession", name: str, rows: pa.Table) -> "DataFrame":
    """Return rows of a table `input.*` as a DataFrame."""
    return spark.createDataFrame(rows, schema=TABLES[name].ddl())


def arrow_of(table: Table, rows: Iterator[Row]) -> pa.Table:
    """Return rows as an Arrow table with a table's columns."""
    schema = pa.schema(
        [
            pa.field(column.name, _ARROW[column.kind], nullable=column.is_nullable)
            for column in table.columns
        ]
    )
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def progress_rows(window: Window) -> Iterator[Row]:
    """Yield samples of the finest kind that reaches back far enough: minutes, else hours, else 5 s.

    A group whose members were never shared queues is not known to have any.
    """
    seconds = _resolution_s(window)
    of_slots = Q(resolution_s=seconds) & _in(window)
    sent = {
        (topic, at): rate
        for topic, at, rate in TopicSample.objects.filter(of_slots)
        .values_list("topic", "at", "send_rate")
        .iterator(_CHUNK_ROWS)
    }
    members = _members(window)
    samples = GroupSample.objects.filter(of_slots).order_by("group", "topic", "at")
    for group, topic, at, lag, rate, committed in samples.values_list(
        "group", "topic", "at", "lag", "consume_rate", "committed"
    ).iterator(_CHUNK_ROWS):
        count = _most_within(members.get(group, []), at, at + timedelta(seconds=seconds))
        yield group, topic, at, lag, sent.get((topic, at)), rate, committed, count


def rebalance_rows(window: Window) -> Iterator[Row]:
    """Yield each time queues of a group were shared out anew."""
    found = Rebalance.objects.filter(_in(window)).order_by("at", "id")
    for group, at, generation, reason, moved, assignment in found.values_list(
        "group", "at", "generation", "reason", "queues_moved", "assignment"
    ).iterator(_CHUNK_ROWS):
        yield group, at, generation, reason, moved, len(assignment)


def lock_rows(window: Window) -> Iterator[Row]:
    """Yield changes of locks, and of each lock the last one before: how it was when it began."""
    columns = ("group", "topic", "queue", "at", "change", "owner", "epoch")
    before = (
        LockTransition.objects.filter(at__lt=window.start)
        .order_by("group", "topic", "queue", "-at", "-id")
        .distinct("group", "topic", "queue")
    )
    yield from before.values_list(*columns).iterator(_CHUNK_ROWS)
    found = LockTransition.objects.filter(_in(window)).order_by("at", "id")
    yield from found.values_list(*columns).iterator(_CHUNK_ROWS)


def letter_rows(window: Window) -> Iterator[Row]:
    """Yield the messages that became dead letters."""
    found = DeadLetter.objects.filter(dead_at__gte=window.start, dead_at__lt=window.end)
    yield from found.order_by("id").values_list(
        "group", "origin_topic", "message_id", "attempts", "reason", "first_failed_at", "dead_at",
        "state",
    ).iterator(_CHUNK_ROWS)  # fmt: skip


_READERS: Mapping[str, Callable[[Window], Iterator[Row]]] = {
    "input.progress": progress_rows,
    "input.rebalances": rebalance_rows,
    "input.locks": lock_rows,
    "input.letters": letter_rows,
}


def _in(window: Window) -> Q:
    return Q(at__gte=window.start, at__lt=window.end)


def _resolution_s(window: Window) -> int:
    for resolution in (MINUTE, HOUR):
        if GroupSample.objects.filter(_in(window), resolution_s=resolution.seconds).exists():
            return resolution.seconds
    return FINE.seconds


def _members(window: Window) -> dict[str, list[tuple[datetime, int]]]:
    """Return how many members each group had from when on."""
    before = (
        Rebalance.objects.filter(at__lt=window.start)
        .order_by("group", "-at", "-id")
        .distinct("group")
        .values_list("group", "at", "assignment")
    )
    during = (
        Rebalance.objects.filter(_in(window))
        .order_by("at", "id")
        .values_list("group", "at", "assignment")
    )
    found: dict[str, list[tuple[datetime, int]]] = {}
    for rows in (before, during):
        for group, at, assignment in rows.iterator(_CHUNK_ROWS):
            found.setdefault(group, []).append((at, len(assignment)))
    return found


def _most_within(members: list[tuple[datetime, int]], start: datetime, end: datetime) -> int | None:
    """Return the most members a group had from `start` up to, not with, `end`; None: unknown.

    A sample is of a whole slot: a group that got a member in it had one.
    """
    first = bisect_right(members, start, key=_moment_of) - 1
    behind = bisect_left(members, end, key=_moment_of)
    return max([count for _, count in members[max(first, 0) : behind]], default=None)


def _moment_of(change: tuple[datetime, int]) -> datetime:
    return change[0]
