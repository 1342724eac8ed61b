"""A compacted topic read by the source, from files and through the broker, as the broker serves it.

The source is called as Spark calls it, and by Spark itself where batches follow each other.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark_mqweb import DefaultSource
from pyspark_mqweb.errors import DataLoss
from pyspark_mqweb.reading import BatchReader

from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, Cleanup, TopicSpec
from tests.engine.local.compacting import Model, compact, put, read_all
from tests.engine.offline.stores import CONFIG
from tests.spark.calls import NARROW, rows
from tests.spark.serving import Serving, serving
from tests.spark.test_with_spark import finished

TOPIC = TopicSpec(name="t", queue_count=2, cleanup=Cleanup.COMPACT)
KEYS = 5


async def fill(engine: LocalEngine, model: Model, count: int) -> None:
    for _ in range(count):
        number = len(model.sent[0])
        await put(engine, model, (f"k{number % KEYS}", b"%d" % number))


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return a broker with 20 messages of five keys, compacted, and seven behind them."""
    config = replace(CONFIG, compaction_look_ms=3_600_000, compaction_messages_min=1)
    with serving(tmp_path_factory.mktemp("kept"), config=config) as running:
        running.run(_filled)
        yield running


async def _filled(engine: LocalEngine) -> Model:
    catalog = CatalogSnapshot(version=engine.catalog.version + 1, topics={"t": TOPIC})
    engine.publish_catalog(catalog)
    model = Model()
    await fill(engine, model, 20)
    await compact(engine)
    await fill(engine, model, 7)
    return model


def reader(source: dict[str, str], **options: str) -> BatchReader:
    return DefaultSource({**source, "subscribe": "t", **options}).reader(NARROW)


def offsets(found: list[dict[str, Any]]) -> list[int]:
    return sorted(row["offset"] for row in found)


def read(source: dict[str, str], **options: str) -> list[int]:
    plan = reader(source, **options)
    return offsets(rows(plan, plan.partitions()))


def served(broker: Serving) -> list[int]:
    return [record.queue_offset for record in broker.run(read_all)]


def test_files_and_broker_give_what_is_kept_and_call_nothing_else_lost(broker: Serving) -> None:
    path = {"path": str(broker.path), "readUpTo": "written"}
    server = {"server": broker.url}
    expected = [*range(15, 20), *range(20, 27)]
    assert served(broker) == expected

    for source in (path, server):
        assert read(source) == expected
        assert read(source, minPartitions="4") == expected
        ends = {"startingOffsets": '{"t": {"0": 3}}', "endingOffsets": '{"t": {"0": 21}}'}
        assert read(source, **ends) == expected[:6]
        # What lies behind the end is not there, whatever compaction does.
        with pytest.raises(DataLoss):
            read(source, endingOffsets='{"t": {"0": 99}}')
    by_pattern = DefaultSource({**path, "subscribePattern": ".*"}).reader(NARROW)
    assert offsets(rows(by_pattern, by_pattern.partitions())) == expected


def test_a_plan_holds_the_log_behind_what_is_kept(broker: Serving) -> None:
    plan = reader({"path": str(broker.path), "readUpTo": "written"})
    shares = plan.partitions()
    (lease,) = (broker.path / "leases").iterdir()
    assert lease.name.startswith("spark-")

    # A round goes on over what was planned: what lay in the log then still comes from there.
    broker.run(compact)

    assert served(broker) == [*range(22, 27)]
    assert offsets(rows(plan, shares)) == [*range(20, 27)]


@pytest.mark.parametrize("by", ["path", "server"])
def test_a_stream_goes_on_over_a_round_and_comes_to_the_newest_of_each_key(
    broker: Serving, by: str
) -> None:
    source = {
        "path": {"path": str(broker.path), "readUpTo": "written"},
        "server": {"server": broker.url},
    }[by]
    query = DefaultSource({**source, "subscribe": "t", "startingOffsets": "earliest"}).streamReader(
        NARROW
    )
    at = query.initialOffset()
    assert json.loads(json.dumps(at)) == {"t": {"0": 0, "1": 0}}
    seen: list[int] = []
    model = Model()
    model.sent[0] = [(f"k{number % KEYS}", b"%d" % number) for number in range(27)]
    for round_of_test in range(3):
        limit = ReadMaxRows(6) if round_of_test < 2 else ReadAllAvailable()
        end = query.latestOffset(at, limit)
        seen += offsets(rows(query, query.partitions(at, end)))
        query.commit(end)
        at = end
        broker.run(lambda engine: fill(engine, model, 3))
        broker.run(compact)
    end = query.latestOffset(at, ReadAllAvailable())
    seen += offsets(rows(query, query.partitions(at, end)))
    query.stop()

    assert seen == sorted(set(seen))
    assert set(served(broker)) <= set(seen)
    leases = broker.path / "leases"
    assert not leases.exists() or list(leases.iterdir()) == []


def test_a_stream_through_the_broker_goes_on_where_all_it_was_to_read_next_is_compacted_away(
    broker: Serving,
) -> None:
    """Its offsets outlive rounds, a restart of the query, and a batch of which nothing is left."""
    options = {"server": broker.url, "subscribe": "t", "startingOffsets": "earliest"}
    first = DefaultSource(options).streamReader(NARROW)
    at = first.latestOffset(first.initialOffset(), ReadMaxRows(12))
    # Settled before a round, read behind it: of 0 to 11 nothing is kept.
    planned = first.partitions(first.initialOffset(), at)
    model = Model()
    model.sent[0] = [(f"k{number % KEYS}", b"%d" % number) for number in range(27)]
    broker.run(lambda engine: fill(engine, model, 30))
    broker.run(compact)
    assert offsets(rows(first, planned)) == []
    first.stop()

    again = DefaultSource(options).streamReader(NARROW)
    seen: list[int] = []
    for _ in range(20):
        end = again.latestOffset(at, ReadMaxRows(6))
        seen += offsets(rows(again, again.partitions(at, end)))
        again.commit(end)
        if end == at:
            break
        at = end
    assert seen == served(broker) == [*range(52, 57)]
    # Offsets that compaction took are behind the query as well: it is level.
    assert again.reportLatestOffset() == at
    again.stop()


@pytest.mark.crash
@pytest.mark.spark
def test_spark_streams_a_compacted_topic_through_the_broker_with_a_checkpoint(
    spark: Any, broker: Serving, tmp_path: Path
) -> None:
    def batches_so_far() -> list[int]:
        return finished(
            lambda: (
                spark.readStream.format("mqweb")
                .schema("partition int, offset bigint, value binary")
                .options(server=broker.url, subscribe="t", startingOffsets="earliest")
                .options(maxOffsetsPerTrigger="9")
                .load()
                .writeStream.format("parquet")
                .option("path", str(tmp_path / "rows"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        )

    first = batches_so_far()
    model = Model()
    model.sent[0] = [(f"k{number % KEYS}", b"%d" % number) for number in range(27)]
    broker.run(lambda engine: fill(engine, model, 8))
    broker.run(compact)
    second = batches_so_far()

    # Of the offsets of the first batch nothing is kept; the last eight are of five keys.
    found = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert (sum(first), sum(second)) == (12, 5)
    assert sorted((row["offset"], int(row["value"])) for row in found) == [
        (offset, offset) for offset in (*range(15, 27), *range(30, 35))
    ]
