"""The source and the sink in Spark itself: what only a session can show."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.engine.local import LocalEngine
from apps.engine.types import AckMode
from tests.engine.offline.stores import send
from tests.spark.conftest import ROWS
from tests.spark.serving import Serving, serving

pytestmark = pytest.mark.spark


def read(spark: Any, store: Path, **options: str) -> Any:
    return spark.read.format("mqweb").option("path", str(store)).options(**options)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "store") as running:
        yield running


def test_all_rows_of_a_topic_come_with_the_columns_of_kafkas_connector(
    spark: Any, store: Path
) -> None:
    rows = read(spark, store, subscribe="orders").load().collect()

    assert len(rows) == 200
    first = min(rows, key=lambda row: (row["partition"], row["offset"]))
    assert bytes(first["value"]) == b"orders/0/0"
    assert (bytes(first["key"]), first["tags"], first["offset"]) == (b"k0", "o", 0)
    assert first["timestamp"].timestamp() == 1_700_000_000
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0), ("orders", 1)}


def test_a_frame_that_is_used_twice_gives_right_answers_with_filters(
    spark: Any, store: Path
) -> None:
    """With `pushFilters` PySpark 4.3.0 gives the filtered plan's rows to every later one."""
    frame = read(spark, store, subscribe="orders,payments").load()
    orders = frame.where("topic = 'orders'")
    payments = frame.where("topic = 'payments'")

    assert frame.count() == 300
    assert orders.count() == 200
    assert frame.count() == 300
    union = orders.union(payments).groupBy("topic").count().collect()
    assert {tuple(row) for row in union} == {("orders", 200), ("payments", 100)}
    assert frame.count() == 300


def test_a_schema_narrows_the_columns_in_its_own_order(spark: Any, store: Path) -> None:
    frame = read(spark, store, subscribe="payments").schema("offset bigint, topic string").load()

    assert frame.columns == ["offset", "topic"]
    assert sorted(frame.collect())[-1] == (54, "payments")


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        ("offset int", {}, "column offset is of type bigint, not int"),
        ("nonsense string", {}, "there is no column nonsense"),
        (None, {"subscribe": "absent"}, "the store has no topic absent"),
        (None, {"path": "/nowhere/at/all"}, "path /nowhere/at/all is no directory"),
        (None, {"startingOffset": "earliest"}, "there is no option startingoffset"),
        (
            None,
            {"endingOffsets": '{"orders": {"0": 131}}'},
            "orders/0: offsets 130 to 130 are lost",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_so(
    spark: Any, store: Path, schema: str | None, options: dict[str, str], text: str
) -> None:
    reader = read(spark, store, **{"subscribe": "orders", **options})

    with pytest.raises(Exception, match=text.replace("(", "\\(")):
        (reader.schema(schema) if schema else reader).load().collect()


def test_headers_are_all_properties(spark: Any, store: Path) -> None:
    (row,) = (
        read(
            spark,
            store,
            subscribe="orders",
            includeHeaders="true",
            endingOffsets='{"orders": {"0": 1, "1": 0}}',
        )
        .load()
        .select("headers")
        .collect()
    )

    assert [(one["key"], bytes(one["value"])) for one in row[0]] == [
        ("TAGS", b"o"),
        ("KEYS", b"k0"),
    ]


def test_tags_and_moments_choose_rows_in_the_tasks(spark: Any, store: Path) -> None:
    chosen = {"subscribe": "orders,payments", "subExpression": "p", "startingTimestamp": "0"}

    assert read(spark, store, **chosen).load().groupBy("topic").count().collect() == [
        ("payments", 100)
    ]


def test_a_frame_keeps_its_rows_while_a_broker_writes(spark: Any, broker: Serving) -> None:
    async def more(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one", b"two")
        await send(engine, "payments", 0, b"proof", ack=AckMode.ASYNC)

    broker.run(more)
    frame = read(spark, broker.path, subscribe="orders").load()
    first = frame.count()

    broker.run(more)

    assert first == 2
    assert frame.count() == 2
    assert read(spark, broker.path, subscribe="orders").load().count() == 4


def stream(spark: Any, store: Path, **options: str) -> Any:
    return (
        spark.readStream.format("mqweb")
        .option("path", str(store))
        .options(**{"subscribe": "orders", "startingOffsets": "earliest", **options})
        .load()
    )


def finished(start: Callable[[], Any]) -> list[int]:
    """Start a query that ends by itself, and return the rows of its batches.

    Spark gives a worker of a stream ten seconds to start and then fails the query, which on a
    crowded machine is no fault of ours: it is started again.
    """
    for left in (2, 1, 0):
        query = start()
        try:
            assert query.awaitTermination(600)
        except Exception as error:
            if not left or "connect back" not in str(error):
                raise
            continue
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
    raise AssertionError


def test_a_stream_reads_what_is_there_at_its_rate_and_goes_on_from_its_checkpoint(
    spark: Any, broker: Serving, tmp_path: Path
) -> None:
    async def more(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, *[b"%d" % number for number in range(90)])
        await send(engine, "orders", 1, b"alone")
        await send(engine, "payments", 0, b"proof", ack=AckMode.ASYNC)

    def run() -> list[int]:
        return finished(
            lambda: (
                stream(spark, broker.path, maxOffsetsPerTrigger="40")
                .writeStream.format("parquet")
                .option("path", str(tmp_path / "out"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        )

    broker.run(more)
    first = run()
    broker.run(more)
    second = run()

    assert (first, second) == ([40, 40, 11], [40, 40, 11])
    found = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset").collect()
    assert sorted(found) == [(0, number) for number in range(180)] + [(1, 0), (1, 1)]


def test_rows_that_are_sent_again_are_stored_once(spark: Any, broker: Serving) -> None:
    rows = spark.createDataFrame(
        [(f"body {number}", f"key{number}", "blue") for number in range(30)],
        "value string, key string, tags string",
    ).coalesce(1)

    for _ in range(2):
        rows.write.format("mqweb").mode("append").options(
            server=broker.url, topic="orders", producerId="job-1", batchMessages="7"
        ).save()

    ranges = broker.run(_ranges)
    assert sum(ranges["orders"]) == 30
    frame = (
        spark.read.format("mqweb").option("server", broker.url).option("subscribe", "orders").load()
    )
    found = frame.select("value", "key", "tags", "seq").orderBy("offset").collect()
    assert [bytes(row["value"]).decode() for row in found] == [f"body {n}" for n in range(30)]
    assert [row["seq"] for row in found] == list(range(30))
    assert {row["tags"] for row in found} == {"blue"}


async def _ranges(engine: LocalEngine) -> dict[str, list[int]]:
    return {
        topic: [one.max_offset for one in found]
        for topic, found in engine.topic_ranges(["orders", "payments"]).items()
    }


def test_a_batch_of_a_stream_that_is_repeated_is_stored_once(
    spark: Any, broker: Serving, store: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        finished(
            lambda: (
                stream(spark, store, maxOffsetsPerTrigger="150")
                .selectExpr("value", "shardingKey", "cast(null as string) as tags")
                .writeStream.format("mqweb")
                .options(server=broker.url, topic="payments", checkpointLocation=str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
        )

    run()
    before = broker.run(_ranges)
    # The last batch was begun and, as far as Spark knows, never finished.
    last = max(path for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    run()

    assert last.name == "1"
    assert sum(before["payments"]) == ROWS["orders", 0] + ROWS["orders", 1]
    assert broker.run(_ranges) == before
