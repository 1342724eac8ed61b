"""Rows of the database as DataFrames."""

from datetime import UTC
from typing import Any

import pytest

from apps.groups.models import LockTransition
from apps.pipelines.spark.inputs import database_input
from apps.pipelines.tables import TABLES
from tests.spark.deliveries.golden import HOUR, at

pytestmark = [pytest.mark.spark, pytest.mark.django_db]


def test_rows_of_the_database_are_a_table_of_the_jobs(spark: Any) -> None:
    LockTransition.objects.create(
        store_id="s", number=1, at=at(7), group="g", topic="orders", queue=3, change="acquired",
        owner="a", epoch=5,
    )  # fmt: skip

    (row,) = database_input(spark, "input.locks", HOUR).collect()

    assert row.at.astimezone(UTC) == at(7)
    assert tuple(row)[:3] + tuple(row)[4:] == ("g", "orders", 3, "acquired", "a", 5)
    for name in ("input.progress", "input.rebalances", "input.letters"):
        empty = database_input(spark, name, HOUR)
        assert tuple(empty.columns) == TABLES[name].names()
        assert empty.isEmpty()
