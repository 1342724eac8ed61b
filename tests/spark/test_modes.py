"""What is damaged and what is gone, as an error, as rows or in the log; without a session."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import StringType, StructField, StructType
from pyspark_mqweb import DefaultSource
from pyspark_mqweb.errors import DataLoss

from apps.engine.local import LocalEngine
from tests.engine.offline.stores import send, written
from tests.spark.calls import NARROW, batch, rows


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with three messages, of which the second is not what was written."""

    async def work(engine: LocalEngine) -> None:
        for body in (b"first", b"second", b"third"):
            await send(engine, "orders", 0, body * 50, TAGS="a")

    store = written(tmp_path_factory.mktemp("damaged"), work)
    (segment,) = (store / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(b"secondsecond"))
        file.write(b"X")
    return store


def test_damage_is_an_error_unless_it_may_be_lost(damaged: Path) -> None:
    reader = batch(damaged, NARROW)
    with pytest.raises(DataLoss, match="offsets 1 to 1 are lost"):
        rows(reader, reader.partitions())

    reader = batch(damaged, NARROW, failOnDataLoss="false")
    assert [row["offset"] for row in rows(reader, reader.partitions())] == [0, 2]


def test_damage_is_an_error_where_it_is_to_fail_fast_whatever_may_be_lost(damaged: Path) -> None:
    reader = batch(damaged, NARROW, failOnDataLoss="false", mode="failfast")

    with pytest.raises(DataLoss, match=r"offsets 1 to 1 are lost.*mode=PERMISSIVE shows"):
        rows(reader, reader.partitions())


def test_what_is_malformed_is_dropped_with_a_line_in_the_log(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = batch(damaged, NARROW, mode="DROPMALFORMED")

    assert [row["offset"] for row in rows(reader, reader.partitions())] == [0, 2]
    assert "orders/0: offsets 1 to 1 are lost" in caplog.text


@pytest.mark.parametrize("tags", ["*", "a"])
def test_a_permissive_read_has_a_row_for_what_is_damaged(damaged: Path, tags: str) -> None:
    reader = batch(damaged, mode="PERMISSIVE", subExpression=tags)

    found = rows(reader, reader.partitions())

    (bad,) = (row for row in found if row["_corrupt"] is not None)
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert {name: value for name, value in bad.items() if value is not None} == {
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "_corrupt": "their records are not in the log, or not what was written",
    }


@pytest.mark.parametrize("offsets", [range(1, 2), range(1, 3), range(2)])
def test_a_row_for_what_is_damaged_comes_in_its_place(damaged: Path, offsets: range) -> None:
    borders = {
        "startingOffsets": f'{{"orders": {{"0": {offsets.start}, "1": 0}}}}',
        "endingOffsets": f'{{"orders": {{"0": {offsets.stop}, "1": 0}}}}',
    }
    reader = batch(damaged, NARROW, mode="PERMISSIVE", **borders)

    assert [row["offset"] for row in rows(reader, reader.partitions())] == list(offsets)


def test_what_the_queue_itself_says_is_of_another_tag_is_not_looked_at(damaged: Path) -> None:
    reader = batch(damaged, NARROW, subExpression="other")

    assert rows(reader, reader.partitions()) == []


def test_a_permissive_count_counts_what_is_damaged(damaged: Path) -> None:
    reader = batch(damaged, StructType([]), mode="PERMISSIVE")

    assert sum(part.num_rows for one in reader.partitions() for part in reader.read(one)) == 3


def test_the_column_of_what_is_damaged_is_there_for_those_who_ask(store: Path) -> None:
    options = {"path": str(store), "subscribe": "orders"}
    named = StructType([StructField("_corrupt", StringType())])

    assert "_corrupt" not in DefaultSource(options).schema().names
    assert DefaultSource({**options, "mode": "permissive"}).schema().names[-1] == "_corrupt"
    reader = batch(store, named)
    assert rows(reader, reader.partitions()) == [{"_corrupt": None}] * 200


def test_what_is_gone_is_an_error_in_every_mode_but_where_it_may_be_lost(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for _ in range(3):
            await send(engine, "orders", 0, *[b"x"] * 50)

    store = written(tmp_path, work)
    first, *_ = sorted((store / "consumequeue" / "orders" / "0").iterdir())
    reader = batch(store, NARROW, mode="PERMISSIVE")
    planned = reader.partitions()
    first.unlink()

    with pytest.raises(DataLoss, match="offsets 0 to 49 are lost: retention took them meanwhile"):
        rows(reader, planned)
    reader = batch(store, NARROW, mode="PERMISSIVE", failOnDataLoss="false")
    found = rows(reader, reader.partitions())
    assert [row["offset"] for row in found] == list(range(50, 150))
