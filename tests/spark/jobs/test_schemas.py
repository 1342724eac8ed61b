"""What each job returns has the columns of its tables, also where there is nothing to look at."""

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import pytest

from apps.pipelines.catalogue import JOBS
from apps.pipelines.columns import Table
from apps.pipelines.spark import jobs
from apps.pipelines.tables import TABLES

pytestmark = pytest.mark.spark

_WINDOW = jobs.Window(
    start=datetime(2026, 3, 1, 9, tzinfo=UTC), end=datetime(2026, 3, 1, 10, tzinfo=UTC)
)


def _is_over_tables(name: str) -> bool:
    job = JOBS[name]
    has_module = find_spec(f"{jobs.__name__}.{name}") is not None
    return has_module and bool(job.writes) and set(job.reads) <= set(TABLES)


_NAMES = [name for name in JOBS if _is_over_tables(name)]


def _told(frame: Any) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def _wanted(table: Table) -> dict[str, str]:
    return {column.name: column.kind.value for column in table.columns}


@pytest.mark.parametrize("name", _NAMES)
def test_a_job_returns_its_tables_with_their_columns(spark: Any, name: str) -> None:
    """Of empty inputs, and without an action: a plan knows its columns."""
    job = JOBS[name]
    inputs = {table: spark.createDataFrame([], TABLES[table].ddl()) for table in job.reads}

    outputs = jobs.function_of(name)(inputs, _WINDOW)

    assert {table: _told(frame) for table, frame in outputs.items()} == {
        table: _wanted(TABLES[table]) for table in job.writes
    }
