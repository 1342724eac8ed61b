"""Rows of a result as CSV, streamed portion by portion. Knows tables and rows, no request.

Nothing is held but one portion, and no cursor of the database stays open while a reader is slow.
"""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse

from apps.core.attachments import attachment, safe_cell
from apps.core.pagination import rfc3339
from apps.pipelines.columns import Kind, Table
from apps.pipelines.models.results.result import Result
from apps.pipelines.selectors.results import Rows

MEDIA_TYPE = "text/csv"
_ROWS_PER_PORTION = 2_000

Cell = str | int | float | bool | datetime | None


def answer(table: Table, rows: Rows) -> StreamingHttpResponse:
    """Return an answer that streams rows with the run and window of each, the oldest first.

    A text that a spreadsheet would take for a formula begins with an apostrophe. The file breaks
    off where the database goes away meanwhile.
    """
    pieces = _portions(table, rows.select_related("run").order_by("pk"))
    return attachment(pieces, media_type=f"{MEDIA_TYPE}; charset=utf-8", name=f"{table.name}.csv")


def head(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of a file."""
    return ("run", "window_start", "window_end", *table.names())


def values(table: Table, row: Result) -> list[Cell]:
    """Return the values of a row, the run's first."""
    run = row.run
    mine = [getattr(row, name) for name in table.names()]
    return [run.pk, run.window_start, run.window_end, *mine]


def json_value(kind: Kind, value: Cell, *, name: str) -> object:
    """Return a value as JSON has it: offsets and producers' numbers are texts, as they may be
    larger than what JavaScript counts to."""
    if isinstance(value, datetime):
        return rfc3339(value)
    is_place = name.endswith(("offset", "_seq")) or name == "epoch"
    return str(value) if kind is Kind.LONG and is_place and value is not None else value


async def _portions(table: Table, rows: Rows) -> AsyncIterator[str]:
    yield _written([head(table)])
    last = 0
    while True:
        read = partial(_portion, rows.filter(pk__gt=last))
        found = await sync_to_async(read, thread_sensitive=False)()
        if not found:
            return
        yield _written([[_cell(value) for value in values(table, row)] for row in found])
        last = found[-1].pk


def _portion(rows: Rows) -> list[Result]:
    """Read some rows, in a thread that keeps no connection."""
    try:
        return list(rows[:_ROWS_PER_PORTION])
    finally:
        connection.close()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return rfc3339(value)
    # Numbers below zero are no formulas.
    return safe_cell(value) if isinstance(value, str) else str(value)


def _written(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
