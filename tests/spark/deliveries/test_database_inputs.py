"""Rows of the database as DataFrames."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from apps.groups.models import LockTransition, Rebalance
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.place import Place
from apps.pipelines.spark import execution
from apps.pipelines.spark.inputs import database_rows, frame_of
from apps.pipelines.tables import TABLES
from tests.spark.deliveries.golden import HOUR, at

pytestmark = [pytest.mark.spark, pytest.mark.django_db]


def test_rows_of_the_database_are_a_table_of_the_jobs(spark: Any) -> None:
    LockTransition.objects.create(
        store_id="s", number=1, at=at(7), group="g", topic="orders", queue=3, change="acquired",
        owner="a", epoch=5,
    )  # fmt: skip

    (row,) = frame_of(spark, "input.locks", database_rows("input.locks", HOUR)).collect()

    assert row.at.astimezone(UTC) == at(7)
    assert tuple(row)[:3] + tuple(row)[4:] == ("g", "orders", 3, "acquired", "a", 5)
    for name in ("input.progress", "input.rebalances", "input.letters"):
        empty = frame_of(spark, name, database_rows(name, HOUR))
        assert tuple(empty.columns) == TABLES[name].names()
        assert empty.isEmpty()


def test_a_run_tells_how_much_it_read_of_the_database(spark: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        Rebalance.objects.create(
            store_id="s", number=number, at=at(number), group="g", generation=number,
            reason="join", strategy="AVG", assignment={"a": {"orders": [0]}}, queues_moved=1,
        )  # fmt: skip
    run = PipelineRun.objects.create(
        job="rebalances", window_start=HOUR.start, window_end=HOUR.end, key="k", code_version="v1",
        trigger="command", requested_by="test", requested_at=HOUR.end, state=RunState.RUNNING,
        worker="w", started_at=HOUR.end,
    )  # fmt: skip
    place = Place(lake=tmp_path / "lake", store=tmp_path / "store", server="", bodies=True)

    execution.execute(spark, run, place, lambda *_: None)

    run.refresh_from_db()
    told = [(one.table, one.topic, one.rows) for one in run.inputs.all()]
    assert told == [("input.rebalances", "", 2)]
    assert (run.rows_expected, run.rows_read) == (2, 2)
    assert [one["name"] for one in run.lineage["inputs"]] == ["input.rebalances"]
