"""Rows chosen by when they were stored and by tags, without a session or Java."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from pyspark_mqweb.errors import BadOption, DataLoss
from pyspark_mqweb.reading import BatchReader

from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.engine.offline.stores import send, written
from tests.spark.calls import PLACED, batch, rows, stream

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return a store with two messages a minute in queue 0, one in the first minute in queue 1."""
    clock = ManualClock()
    begin_ms = clock.wall_ms()

    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 1, b"early", TAGS="Aa")
        for tag in ("Aa", "BB", "", "Aa"):
            properties = {"TAGS": tag} if tag else {}
            await send(engine, "orders", 0, b"one", b"two", **properties)
            clock.advance(MINUTE_MS)

    return written(tmp_path_factory.mktemp("minutes"), work, clock=clock), begin_ms


def places(reader: BatchReader) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows(reader, reader.partitions())]


def test_a_batch_begins_and_ends_with_what_was_stored_since_a_moment(
    minutes: tuple[Path, int],
) -> None:
    store, begin_ms = minutes
    second, third = str(begin_ms + MINUTE_MS), str(begin_ms + 2 * MINUTE_MS)

    reader = batch(store, PLACED, startingTimestamp=str(begin_ms), endingTimestamp=second)
    assert places(reader) == [(0, 0), (0, 1), (1, 0)]

    reader = batch(
        store,
        PLACED,
        startingTimestamp=second,
        startingOffsetsByTimestampStrategy="latest",
        endingTimestamp=third,
    )
    assert places(reader) == [(0, 2), (0, 3)]


def test_a_queue_without_a_message_since_a_moment_is_an_error_unless_it_may_begin_at_its_end(
    minutes: tuple[Path, int],
) -> None:
    store, begin_ms = minutes
    later = str(begin_ms + MINUTE_MS)

    with pytest.raises(BadOption, match="startingTimestamp: orders/1 has no message stored at"):
        batch(store, PLACED, startingTimestamp=later).partitions()

    reader = batch(
        store, PLACED, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest"
    )
    assert places(reader) == [(0, number) for number in range(2, 8)]
    reader = batch(store, PLACED, endingTimestamp=str(begin_ms + 9 * MINUTE_MS))
    assert len(places(reader)) == 9


def test_moments_are_told_queue_by_queue(minutes: tuple[Path, int]) -> None:
    store, begin_ms = minutes
    third = begin_ms + 2 * MINUTE_MS

    reader = batch(
        store,
        PLACED,
        startingOffsetsByTimestamp=f'{{"orders": {{"0": {third}}}}}',
        endingOffsetsByTimestamp=f'{{"orders": {{"0": {third + 1}}}}}',
    )

    assert places(reader) == [(0, 4), (0, 5), (1, 0)]
    with pytest.raises(BadOption, match="endingOffsetsByTimestamp names orders/7"):
        batch(store, endingOffsetsByTimestamp='{"orders": {"7": 1}}').partitions()


def test_a_moment_for_all_queues_wins_over_moments_and_these_over_offsets(
    minutes: tuple[Path, int],
) -> None:
    store, begin_ms = minutes
    offsets = {"startingOffsets": '{"orders": {"0": 7, "1": 1}}'}
    third = f'{{"orders": {{"0": {begin_ms + 2 * MINUTE_MS}}}}}'

    reader = batch(store, PLACED, startingOffsetsByTimestamp=third, **offsets)
    assert places(reader)[0] == (0, 4)
    reader = batch(
        store,
        PLACED,
        startingTimestamp=str(begin_ms),
        startingOffsetsByTimestamp=third,
        **offsets,
    )
    assert places(reader)[0] == (0, 0)


def test_a_stream_begins_at_a_moment_and_has_none_to_end_at(minutes: tuple[Path, int]) -> None:
    store, begin_ms = minutes
    later = str(begin_ms + 3 * MINUTE_MS)

    reader = stream(store, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest")

    assert reader.initialOffset() == {"orders": {"0": 6, "1": 1}}
    with pytest.raises(BadOption, match="endingTimestamp is for batches"):
        stream(store, endingTimestamp=later)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Aa", [(0, 0), (0, 1), (0, 6), (0, 7), (1, 0)]),
        # Java's hash of both is the same.
        ("BB", [(0, 2), (0, 3)]),
        ("BB || other", [(0, 2), (0, 3)]),
        ("other", []),
        ("*", [*((0, number) for number in range(8)), (1, 0)]),
    ],
)
def test_rows_of_other_tags_are_left_out(
    minutes: tuple[Path, int], expression: str, expected: list[tuple[int, int]]
) -> None:
    reader = batch(minutes[0], PLACED, subExpression=expression)

    assert places(reader) == expected


def test_rows_without_columns_are_filtered_too(minutes: tuple[Path, int]) -> None:
    reader = batch(minutes[0], StructType([]), subExpression="BB")

    assert sum(part.num_rows for one in reader.partitions() for part in reader.read(one)) == 2


def test_a_stream_goes_on_over_rows_of_other_tags(minutes: tuple[Path, int]) -> None:
    reader = stream(minutes[0], startingOffsets="earliest", subExpression="BB")
    start = reader.initialOffset()

    end = reader.latestOffset(start, ReadAllAvailable())

    assert end == {"orders": {"0": 8, "1": 1}}
    assert [row["offset"] for row in rows(reader, reader.partitions(start, end))] == [2, 3]


def test_what_is_lost_is_told_whatever_its_tag(minutes: tuple[Path, int]) -> None:
    beyond = '{"orders": {"0": 10, "1": 1}}'
    with pytest.raises(DataLoss, match="orders/0: offsets 8 to 9 are lost"):
        batch(minutes[0], subExpression="other", endingOffsets=beyond).partitions()


def test_an_expression_that_is_none_is_refused(store: Path) -> None:
    with pytest.raises(BadOption, match=r"subExpression is tags.*at character 5: expected a tag"):
        batch(store, subExpression="a ||")
