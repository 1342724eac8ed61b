"""Tables, models and jobs of the pipelines name each other truly."""

import pytest
from django.db import models

from apps.pipelines.catalogue import JOBS, LOG
from apps.pipelines.columns import Column, Kind, Table
from apps.pipelines.models import RESULTS
from apps.pipelines.tables import TABLES

_FIELDS = {
    Kind.TEXT: models.CharField,
    Kind.INTEGER: models.IntegerField,
    Kind.LONG: models.BigIntegerField,
    Kind.REAL: models.FloatField,
    Kind.TRUTH: models.BooleanField,
    Kind.MOMENT: models.DateTimeField,
}
_WITH_MODEL = [table for table in TABLES.values() if table.model]


@pytest.mark.parametrize("table", _WITH_MODEL, ids=lambda table: table.name)
def test_a_result_has_the_columns_of_its_table(table: Table) -> None:
    fields = [
        field
        for field in RESULTS[table.model]._meta.get_fields()
        if isinstance(field, models.Field) and field.name not in ("id", "run")
    ]
    assert [field.name for field in fields] == list(table.names())
    for field, column in zip(fields, table.columns, strict=True):
        assert isinstance(field, _FIELDS[column.kind])
        assert field.null == column.is_nullable


def test_every_result_is_of_one_table() -> None:
    assert sorted(table.model for table in _WITH_MODEL) == sorted(RESULTS)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_key_is_made_of_columns_that_are_there(table: Table) -> None:
    known: dict[str, Column] = {column.name: column for column in table.columns}
    assert len(known) == len(table.columns)
    assert table.key
    assert set(table.key) <= set(known)


def test_jobs_read_and_write_tables_that_exist() -> None:
    for job in JOBS.values():
        assert set(job.reads) <= {*TABLES, LOG}
        assert set(job.writes) <= {name for name, table in TABLES.items() if table.in_lake}


def test_every_table_of_the_lake_is_written_by_one_job() -> None:
    written = [name for job in JOBS.values() for name in job.writes]
    assert sorted(written) == sorted(name for name, table in TABLES.items() if table.in_lake)
