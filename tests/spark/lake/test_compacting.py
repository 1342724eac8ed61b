"""Small files become large ones with the same rows; files of an older version are read with null.

Needs Arrow, and no Spark.
"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apps.pipelines.errors import NotReconciled, RuleBroken
from apps.pipelines.models import LakeFile, PipelineRun, RunState
from apps.pipelines.place import Place
from apps.pipelines.selectors import lake as selector
from apps.pipelines.services import publishing
from apps.pipelines.services.publications import Publication
from apps.pipelines.spark import compacting
from apps.pipelines.spark.logreading import Kept
from apps.pipelines.spark.schemas import arrow_schema, checked
from apps.pipelines.spark.staging import Staging, check_offsets, described
from apps.pipelines.tables import TABLES

pytestmark = pytest.mark.django_db

MESSAGES = TABLES["bronze.messages"]
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    kept = timedelta(days=100_000)
    return Place(lake=tmp_path / "lake", store=tmp_path, server="", bodies=True, kept=kept)


def a_run(job: str, **parameters: Any) -> PipelineRun:
    return PipelineRun.objects.create(
        job=job,
        window_start=AT - timedelta(hours=1),
        window_end=AT,
        parameters=parameters,
        key=f"key {PipelineRun.objects.count()}",
        code_version="v1",
        trigger="command",
        requested_by="test",
        requested_at=AT,
        state=RunState.RUNNING,
        worker="w",
        started_at=AT,
    )


def a_table(first: int, end: int, *, at: datetime = AT) -> Any:
    """Return messages of one queue as Arrow has them."""
    values: dict[str, Any] = {
        "string": "text",
        "int": 0,
        "bigint": 0,
        "timestamp": at,
        "map<string,string>": {"a": "b"},
        "binary": b"body",
        "boolean": False,
    }
    rows = [
        {column.name: values[column.kind.value] for column in MESSAGES.columns}
        | {"topic": "orders", "queue_offset": number}
        for number in range(first, end)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(MESSAGES))


def ingested(place: Place, rows: Any, *, at: datetime = AT) -> None:
    """Publish rows as one file."""
    run = a_run("ingest")
    with Staging.of_run(place.lake, run.pk) as staging:
        path = staging.path / "x.parquet"
        pq.write_table(rows, path)
        file = described(path, MESSAGES, topic="orders", day=at.date())
        publication = Publication(
            files=[file], rows_expected=file.rows, rows_read=file.rows, rows_made=file.rows
        )
        publishing.publish(run, publication, lake=place.lake, at=AT)


def compacted(place: Place, **parameters: Any) -> PipelineRun:
    run = a_run("compact", **parameters)
    with Staging.of_run(place.lake, run.pk) as staging:
        publication = compacting.compact(None, run, place, staging, lambda *_: None)
        publishing.publish(run, publication, lake=place.lake, at=AT)
    compacting.published(place, at=AT)
    return run


def test_many_small_files_become_one_with_the_same_rows_and_old_ones_lack_a_column(
    place: Place,
) -> None:
    for first in range(0, 40, 10):
        ingested(place, a_table(first, first + 10))
    ingested(place, a_table(40, 50).drop_columns(["origin_offset"]))

    run = compacted(place)

    (file,) = selector.files_of("bronze.messages")
    assert (file.run, file.rows, file.first_at, file.last_at) == (run, 50, AT, AT)
    rows = pq.read_table(place.lake / file.path, partitioning=None)
    assert rows.column("queue_offset").to_pylist() == list(range(50))
    assert rows.column("origin_offset").to_pylist() == [0] * 40 + [None] * 10
    assert dict(rows.column("properties")[0].as_py()) == {"a": "b"}
    assert LakeFile.objects.filter(retired_by=run).count() == 5
    # Once it is one, there is nothing to do; and what is retired is still there for its readers.
    compacted(place)
    assert selector.files_of("bronze.messages").get() == file
    assert len(list(place.lake.rglob("part-*.parquet"))) == 6


def test_other_rows_than_those_that_went_in_are_not_published(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(place, a_table(0, 10))
    ingested(place, a_table(10, 20))
    fired = []

    def without_the_last(parts: Any) -> Any:
        fired.append(1)
        yield pa.concat_tables(list(parts)).slice(0, 19)

    monkeypatch.setattr(compacting, "_groups", without_the_last)

    with pytest.raises(NotReconciled):
        compacted(place)

    assert fired
    assert selector.files_of("bronze.messages").count() == 2


def test_a_layer_is_kept_as_long_as_was_said(place: Place) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    ingested(place, a_table(0, 10, at=old), at=old)
    ingested(place, a_table(10, 20, at=datetime(2090, 1, 1, tzinfo=UTC)))

    compacted(place, gold_days=1)
    before = selector.files_of("bronze.messages").count()
    compacted(replace(place, kept=timedelta(days=36_500)), gold_days=1)
    kept = selector.files_of("bronze.messages").count()
    compacted(replace(place, kept=timedelta(days=30)), gold_days=1)

    assert before == kept == 2
    assert [file.first_at.year for file in selector.files_of("bronze.messages")] == [2090]


def test_days_of_a_run_win_over_how_long_the_lake_keeps_rows(place: Place) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    ingested(place, a_table(0, 10, at=old), at=old)
    ingested(place, a_table(10, 20, at=datetime(2090, 1, 1, tzinfo=UTC)))

    compacted(replace(place, kept=timedelta(days=36_500)), bronze_days=30)

    assert [file.first_at.year for file in selector.files_of("bronze.messages")] == [2090]


def test_the_lake_keeps_what_settings_say(place: Place) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    ingested(place, a_table(0, 10, at=old), at=old)
    for number in (1, 2, 3):
        later = datetime(2090, 1, number, tzinfo=UTC)
        ingested(place, a_table(10 * number, 10 * number + 10, at=later), at=later)
    size_bytes = max(file.size_bytes for file in selector.files_of("bronze.messages"))

    compacted(place)
    whole = selector.files_of("bronze.messages").count()
    compacted(replace(place, kept=timedelta(days=30)))
    young = [file.first_at.day for file in selector.files_of("bronze.messages")]
    compacted(replace(place, bytes_max=2 * size_bytes))
    few = [file.first_at.day for file in selector.files_of("bronze.messages")]

    assert (whole, sorted(young), sorted(few)) == (4, [1, 2, 3], [2, 3])


@pytest.mark.parametrize("span", [(0, 9), (0, 11), (1, 10), (1, 11)])
def test_each_offset_must_be_there_once(tmp_path: Path, span: tuple[int, int]) -> None:
    pq.write_table(a_table(0, 10), tmp_path / "a.parquet")
    file = described(tmp_path / "a.parquet", MESSAGES, topic="orders", day=date(2026, 3, 1))

    check_offsets([file], {("orders", 0): (0, 10)})
    for files, ranges in (
        ([file], {("orders", 0): span}),
        ([file, file], {("orders", 0): (0, 10)}),
        ([file], {}),
        ([file], {("orders", 0): (0, 10), ("orders", 1): (0, 1)}),
    ):
        with pytest.raises(NotReconciled):
            check_offsets(files, ranges)


@pytest.mark.parametrize(
    ("border", "kept", "is_whole"),
    [
        # As it was copied, and with a round since: it took some, and went on beyond the end.
        (4, [1, 3], True),
        (6, [3, 4], True),
        (90, [5, 70], True),
        # One that is kept was not copied, one in the log was not, one that was is another queue's.
        (4, [0, 1, 3], False),
        (2, [1], False),
        (0, [], False),
    ],
)
def test_of_a_compacted_queue_what_is_kept_must_be_there(
    tmp_path: Path, border: int, kept: list[int], is_whole: bool
) -> None:
    rows = a_table(0, 6).filter(pa.array([False, True, False, True, True, True]))
    pq.write_table(rows, tmp_path / "a.parquet")
    file = described(tmp_path / "a.parquet", MESSAGES, topic="orders", day=date(2026, 3, 1))
    ranges = {("orders", 0): (0, 6)}
    known = {("orders", 0): Kept(border, np.array(kept, dtype=np.int64))}

    if is_whole:
        assert check_offsets([file], ranges, known) == {("orders", 0): 4}
        for files, others in (([file, file], ranges), ([file], {("orders", 0): (2, 6)})):
            with pytest.raises(NotReconciled):
                check_offsets(files, others, known)
    else:
        with pytest.raises(NotReconciled, match="not replaced"):
            check_offsets([file], ranges, known)


def test_a_result_keeps_what_its_table_promises() -> None:
    table = TABLES["gold.quality"]
    row = {
        "table_name": "t", "rule": "r", "topic": "", "severity": "warn", "value": None,
        "limit": 1.0, "is_kept": True,
    }  # fmt: skip
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])

    def rows(*changes: dict[str, Any]) -> Any:
        return pa.Table.from_pylist([row | change for change in changes], schema=schema)

    assert checked(rows({}, {"rule": "other"}), table).num_rows == 2
    for wrong, text in (
        (rows({}, {}), "2 times"),
        (rows({"severity": None}), "severity is missing in 1"),
        (rows({}).drop_columns(["limit"]), "lacks the column limit"),
    ):
        with pytest.raises(RuleBroken, match=text):
            checked(wrong, table)
