"""Options, plans and readers called as Spark calls them, without a session or Java."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import (
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from pyspark_mqweb import DefaultSource
from pyspark_mqweb.errors import BadColumns, BadOption, DataLoss
from pyspark_mqweb.options import sink_options, source_options
from pyspark_mqweb.planning import rationed, shares
from pyspark_mqweb.reading import Share

from apps.engine.codec.record import Record, decode_record
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode
from tests.engine.offline.stores import pulled, send, written
from tests.spark.calls import NARROW, PLACED, batch, rows, stream
from tests.spark.conftest import ROWS
from tests.spark.serving import Serving, serving


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "either path"),
        ({"path": "/a", "server": "http://b"}, "either path"),
        ({"path": "/a"}, "one of subscribe"),
        ({"path": "/a", "subscribe": "t", "assign": "{}"}, "one of subscribe"),
        ({"path": "/a", "subscribe": " , "}, "names no topic"),
        ({"path": "/a", "subscribe": "t", "minPartitions": "0"}, "minPartitions is a number"),
        ({"path": "/a", "subscribe": "t", "failOnDataLoss": "no"}, "true or false"),
        ({"path": "/a", "subscribe": "t", "startingOffsets": "now"}, "no JSON"),
        ({"path": "/a", "subscribe": "t", "startingOffsets": '{"t": {"0": -3}}'}, "offsets are"),
        ({"path": "/a", "subscribe": "t", "endingOffsets": "earliest"}, "latest or JSON"),
        ({"path": "/a", "subscribe": "t", "readUpTo": "all"}, "synced or written"),
        ({"path": "/a", "subscribe": "t", "pollTimeout": "1"}, "no option polltimeout"),
        ({"path": "/a", "assign": '{"t": []}'}, "list of queue numbers"),
        ({"path": "/a", "subscribe": "t", "mode": "careless"}, "mode is FAILFAST, PERMISSIVE"),
        ({"server": "http://b", "subscribe": "t", "mode": "FAILFAST"}, "mode is for a path"),
        ({"path": "/a", "subscribe": "t", "startingTimestamp": "now"}, "startingTimestamp is a mo"),
        ({"path": "/a", "subscribe": "t", "endingTimestamp": "-1"}, "endingTimestamp is a moment"),
        (
            {"path": "/a", "subscribe": "t", "startingOffsetsByTimestamp": '{"t": {"0": "1"}}'},
            "startingOffsetsByTimestamp: moments are",
        ),
        (
            {"path": "/a", "subscribe": "t", "endingOffsetsByTimestamp": '{"t": [1]}'},
            "endingOffsetsByTimestamp has an object",
        ),
        (
            {"path": "/a", "subscribe": "t", "startingOffsetsByTimestampStrategy": "earliest"},
            "Strategy is error or latest",
        ),
        (
            {"path": "/a", "subscribe": "t", "commitLogRange": "0-9", "endingTimestamp": "1"},
            "takes the place of offsets",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(BadOption, match=text):
        source_options(options)


def test_a_sink_needs_a_broker() -> None:
    with pytest.raises(BadOption, match="only a broker writes"):
        sink_options({"topic": "t"})


def test_tasks_get_the_same_number_of_rows(store: Path) -> None:
    reader = batch(store, subscribe="orders,payments", minPartitions="7")

    found = [share for share in reader.partitions() if isinstance(share, Share)]

    assert sorted(map(len, found)) == [42] * 1 + [43] * 6
    assert len(rows(reader, found)) == sum(ROWS.values())


def test_every_column_says_what_the_record_says(tmp_path: Path) -> None:
    seen: list[Record] = []

    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"", b"\x00\xff" * 40, TAGS="tag", UNIQ_KEY="id-1")
        await send(engine, "orders", 0, "é".encode(), PRODUCER_ID="p", PRODUCER_SEQ="17", né="")
        await send(engine, "orders", 0, b"last", __SHARDINGKEY="customer")
        payload = await pulled(engine, "orders", 0)
        while sum(one.size_bytes for one in seen) < len(payload):
            seen.append(decode_record(payload, sum(one.size_bytes for one in seen)))

    source = DefaultSource(
        {"path": str(written(tmp_path, work)), "subscribe": "orders", "includeHeaders": "true"}
    )
    reader = source.reader(source.schema())
    found = rows(reader, reader.partitions())

    assert len(found) == len(seen) == 4
    for row, record in zip(found, seen, strict=True):
        given = record.properties
        expected = {
            "key": given["KEYS"].encode(),
            "value": record.body,
            "topic": record.topic,
            "partition": record.queue,
            "offset": record.queue_offset,
            "timestampType": 0,
            "headers": [{"key": name, "value": text.encode()} for name, text in given.items()],
            "dueTimestamp": None,
            "tags": given.get("TAGS"),
            "messageId": record.message_id,
            "producerId": given.get("PRODUCER_ID"),
            "seq": int(given["PRODUCER_SEQ"]) if "PRODUCER_SEQ" in given else None,
            "shardingKey": given.get("__SHARDINGKEY"),
            "reconsumeTimes": record.reconsume_times,
            "bornHost": "0.0.0.0:0",
            "storeHost": "127.0.0.1:8000",
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "commitLogOffset": record.log_offset,
            "storeSize": record.size_bytes,
        }
        assert {name: row[name] for name in expected} == expected
        assert row["timestamp"].timestamp() * 1000 == record.born_time_ms
        assert row["storeTimestamp"].timestamp() * 1000 == record.store_time_ms


def test_a_pattern_and_an_assignment_choose_queues(store: Path) -> None:
    source = DefaultSource({"path": str(store), "subscribePattern": "pay.*|nothing"})
    reader = source.reader(NARROW)
    assert len(rows(reader, reader.partitions())) == 100

    source = DefaultSource({"path": str(store), "assign": '{"payments": [1]}'})
    reader = source.reader(NARROW)
    assert len(rows(reader, reader.partitions())) == 55


def test_a_plan_without_rows_is_read_as_nothing(store: Path) -> None:
    reader = batch(store, startingOffsets='{"orders": {"0": 130, "1": 70}}')

    assert list(reader.partitions()) == []
    # Spark calls a plan without partitions with one that is None.
    assert list(reader.read(None)) == []  # type: ignore[arg-type]


def test_columns_that_are_not_there_are_refused(store: Path) -> None:
    with pytest.raises(BadColumns, match="there twice"):
        batch(store, StructType([*NARROW.fields, NARROW.fields[0]]))
    with pytest.raises(BadColumns, match="not string"):
        batch(store, StructType([StructField("offset", StringType())]))


def test_lost_messages_are_an_error_unless_they_may_be_lost(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = {"endingOffsets": '{"orders": {"0": 200}}'}
    with pytest.raises(DataLoss, match="orders/0: offsets 130 to 199 are lost"):
        batch(store, **beyond).partitions()

    reader = batch(store, NARROW, failOnDataLoss="false", **beyond)

    assert len(rows(reader, reader.partitions())) == 200
    assert "offsets 130 to 199 are lost" in caplog.text


def test_a_plan_leases_the_log_it_reads(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one")

    reader = batch(written(tmp_path, work), NARROW)

    (share,) = reader.partitions()

    assert isinstance(share, Share)
    assert share.lease is not None
    assert [path.name for path in (tmp_path / "leases").iterdir()] == [share.lease.owner]


def test_a_task_that_outlasts_the_lease_takes_its_own(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for number in range(20):
            await send(engine, "orders", 0, *[b"%d-%d" % (number, one) for one in range(10)])

    reader = batch(written(tmp_path, work), NARROW, segmentLeaseMs="1", batchRows="10")
    (share,) = reader.partitions()
    seen = set()
    for _ in reader.read(share):
        seen.update(path.name for path in (tmp_path / "leases").iterdir())

    assert len(seen) >= 2
    assert len(list((tmp_path / "leases").iterdir())) == 1


def test_a_stream_ends_each_batch_where_the_rate_says(store: Path) -> None:
    reader = stream(store, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    start = reader.initialOffset()
    counts = []
    while True:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            break
        counts.append(len(rows(reader, reader.partitions(start, end))))
        start = end

    assert reader.getDefaultReadLimit() == ReadMaxRows(50)
    assert counts == [50, 50, 50, 50]
    assert start == {"orders": {"0": 130, "1": 70}} == reader.reportLatestOffset()
    reader.stop()


def test_a_stream_begins_behind_what_is_there_unless_told(store: Path) -> None:
    assert stream(store).initialOffset() == {"orders": {"0": 130, "1": 70}}


def test_a_stream_that_reads_what_is_there_leaves_later_messages_alone(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one", b"two")

    reader = stream(written(tmp_path, work), startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    written(tmp_path, work)

    end = reader.latestOffset(start, ReadAllAvailable())

    assert end == {"orders": {"0": 2, "1": 0}}
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_reads_the_same_batch_again_after_a_restart(store: Path) -> None:
    start, end = {"orders": {"0": 5, "1": 0}}, {"orders": {"0": 60, "1": 2}}

    found = [
        rows(reader, reader.partitions(start, end)) for reader in (stream(store), stream(store))
    ]

    assert found[0] == found[1]
    assert len(found[0]) == 57


def test_a_stream_whose_queue_was_cut_says_so(store: Path) -> None:
    reader = stream(store)

    with pytest.raises(DataLoss, match="was the store replaced or cut"):
        reader.latestOffset({"orders": {"0": 999, "1": 0}}, ReadAllAvailable())
    with pytest.raises(DataLoss, match="orders/7: offsets 0 to 4 are lost: the queue is gone"):
        reader.partitions({"orders": {"7": 0}}, {"orders": {"7": 5}})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


def test_rows_from_a_broker_are_those_of_its_files(broker: Serving) -> None:
    async def work(engine: LocalEngine) -> None:
        for queue in (0, 1):
            for number in range(5):
                bodies = [b"%d-%d" % (number, one) for one in range(9)]
                await send(engine, "orders", queue, *bodies, TAGS="t", UNIQ_KEY=f"{number:032X}")
        await send(engine, "payments", 0, b"proof", ack=AckMode.ASYNC)

    broker.run(work)
    source = DefaultSource(
        {"server": broker.url, "subscribe": "orders", "batchRows": "7", "includeHeaders": "true"}
    )
    remote = source.reader(source.schema())
    local = batch(broker.path, source.schema())

    assert rows(remote, remote.partitions()) == rows(local, local.partitions())
    assert len(rows(remote, remote.partitions())) == 90


def test_a_broker_finds_moments_and_tags_as_its_files_do(broker: Serving) -> None:
    async def work(engine: LocalEngine) -> None:
        for number in range(6):
            await send(engine, "payments", 1, b"%d" % number, TAGS="Aa" if number % 2 else "BB")

    broker.run(work)
    schema = StructType([*PLACED.fields, StructField("storeTimestamp", TimestampType())])
    chosen = {"assign": '{"payments": [1]}', "subExpression": "BB"}

    def found(place: dict[str, str], **options: str) -> list[dict[str, Any]]:
        reader = DefaultSource({**place, **chosen, **options}).reader(schema)
        return rows(reader, reader.partitions())

    remote, local = {"server": broker.url}, {"path": str(broker.path), "readUpTo": "written"}
    every = found(remote)
    moment = str(round(every[1]["storeTimestamp"].timestamp() * 1000))

    assert [row["offset"] for row in every] == [0, 2, 4]
    assert found(remote, startingTimestamp=moment)[-2:] == every[1:]
    assert found(remote, startingTimestamp=moment) == found(local, startingTimestamp=moment)
    assert found(remote, endingTimestamp=moment) == found(local, endingTimestamp=moment)
    with pytest.raises(BadOption, match="payments/1 has no message stored at"):
        found(remote, startingTimestamp=str(2**62))


def test_an_unknown_topic_of_a_broker_is_an_error(broker: Serving) -> None:
    source = DefaultSource({"server": broker.url, "subscribe": "absent"})

    with pytest.raises(Exception, match="unknown"):
        source.reader(NARROW).partitions()


@given(
    st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(1, 1_000), min_size=1),
    st.integers(1, 500),
    st.integers(0, 5),
)
def test_a_ration_is_kept_and_no_queue_waits_for_ever(
    available: dict[tuple[str, int], int], rows_max: int, turn: int
) -> None:
    given_rows = rationed(available, rows_max, turn=turn)

    assert sum(given_rows.values()) == min(rows_max, sum(available.values()))
    assert all(0 <= given_rows[key] <= available[key] for key in available)
    served = {
        key
        for later in range(len(available))
        for key, count in rationed(available, rows_max, turn=later).items()
        if count
    }
    assert served == set(available)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 20))
def test_shares_are_equal_but_for_one_row(counts: list[int], tasks: int) -> None:
    ranges = [(("t", queue), 5, 5 + count) for queue, count in enumerate(counts)]
    tasks = min(tasks, sum(counts))

    found = list(shares(ranges, tasks))

    sizes = [sum(end - begin for _, begin, end in share) for share in found]
    assert len(found) == tasks
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == sum(counts)
