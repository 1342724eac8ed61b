"""A compacted topic by its files: what is kept, then the log, as the broker itself reads it."""

import logging
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.derived.compacted import layout
from apps.engine.errors import StoreDamaged
from apps.engine.local import LocalEngine
from apps.engine.offline.ranges import within
from apps.engine.offline.reading import read
from apps.engine.offline.slices import QueueSlice
from apps.engine.offline.tagged import parts_of
from apps.engine.offline.times import first_since
from apps.engine.offline.view import StoreView
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import AckMode, CatalogSnapshot, Cleanup, RecordBatch, TopicSpec
from tests.engine.local.compacting import Model, compact, put, read_all
from tests.engine.offline.stores import CONFIG

SEED = 7
TOPICS = {"t": TopicSpec(name="t", queue_count=2, cleanup=Cleanup.COMPACT)}
Told = list[tuple[int, int]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalEngine]:
    config = replace(CONFIG, compaction_look_ms=3_600_000, compaction_messages_min=1)
    opened = await LocalEngine.open(tmp_path, config, clock=clock)
    opened.publish_catalog(CatalogSnapshot(version=1, topics=TOPICS))
    yield opened
    await opened.close()


async def fill(
    engine: LocalEngine, model: Model, chance: random.Random, count: int, clock: ManualClock
) -> None:
    for _ in range(count):
        number = len(model.sent[0])
        await put(engine, model, (f"k{chance.randrange(8)}", b"%d" % number))
        clock.advance(10)


def found(
    view: StoreView, parts: list[QueueSlice] | None = None, *, rows_max: int = 5
) -> tuple[list[Record], Told, Told]:
    """Return the records of the queue, and what was told as lost and as damaged."""
    lost: Told = []
    damaged: Told = []
    records: list[Record] = []
    if parts is None:
        extent = view.extent("t", 0)
        parts = [view.cut("t", 0, extent.min_offset, extent.max_offset)]
    for part in parts:
        for block in read(
            view.store,
            part,
            on_loss=lambda first, last, _: lost.append((first, last)),
            on_damage=lambda first, last, _: damaged.append((first, last)),
            rows_max=rows_max,
        ):
            records += [decode_record(block.payload, at) for at in block.starts.tolist()]
            assert [one.queue_offset for one in records[-len(block) :]] == block.offsets.tolist()
    return records, lost, damaged


async def test_what_is_kept_and_the_log_behind_it_are_what_the_broker_serves(
    engine: LocalEngine, tmp_path: Path, clock: ManualClock
) -> None:
    print("seed", SEED)
    chance, model = random.Random(SEED), Model()
    for count, is_round in ((60, True), (30, False), (1, True), (25, True), (12, False)):
        await fill(engine, model, chance, count, clock)
        if is_round:
            await compact(engine)
        view = StoreView(tmp_path, is_unsynced_shown=True)
        served = await read_all(engine)
        records, lost, damaged = found(view)
        assert records == served
        assert (lost, damaged) == ([], [])
        assert view.extent("t", 0).max_offset == len(model.sent[0])
        view.close()

    view = StoreView(tmp_path, is_unsynced_shown=True)
    kept_stop = view.cut("t", 0, 0, 1).kept_stop
    assert kept_stop == 116
    served = await read_all(engine)
    for start in [*chance.sample(range(kept_stop), 12), kept_stop, 120]:
        for stop in (start + 1, kept_stop, len(model.sent[0])):
            records, lost, _ = found(view, [view.cut("t", 0, start, stop)])
            assert records == [one for one in served if start <= one.queue_offset < stop]
            assert lost == []
            border, kept = view.kept("t", 0, start, stop)
            assert border == kept_stop
            assert kept.tolist() == [
                one.queue_offset for one in records if one.queue_offset < border
            ]

    extent = view.extent("t", 0)
    for one in chance.sample(served, 10):
        # Which offset of a gap is told makes no difference to what is read from there on.
        since = first_since(view, extent, one.store_time_ms)
        assert next(r for r in served if r.queue_offset >= since) == one
        begin, end = within(view, extent, one.log_offset, one.log_offset + 1)
        assert [r for r in served if begin <= r.queue_offset < end] == [one]
    view.close()


async def test_a_slice_that_a_later_round_overtakes_has_what_is_left_of_it(
    engine: LocalEngine, tmp_path: Path, clock: ManualClock
) -> None:
    chance, model = random.Random(SEED), Model()
    await fill(engine, model, chance, 40, clock)
    await compact(engine)
    await fill(engine, model, chance, 40, clock)
    view = StoreView(tmp_path, is_unsynced_shown=True)
    planned = [view.cut("t", 0, 0, 80)]
    before, _, _ = found(view, planned)

    await compact(engine)
    records, lost, damaged = found(view, planned)

    kept = {one.queue_offset for one in await read_all(engine)}
    # The log has what lay behind the border when it was planned.
    assert records == [one for one in before if one.queue_offset in kept or one.queue_offset >= 40]
    assert len(records) < len(before)
    assert (lost, damaged) == ([], [])
    view.close()


async def test_only_the_log_behind_the_border_is_held(
    engine: LocalEngine, tmp_path: Path, clock: ManualClock
) -> None:
    chance, model = random.Random(SEED), Model()
    await fill(engine, model, chance, 40, clock)
    await compact(engine)
    view = StoreView(tmp_path, is_unsynced_shown=True)
    assert view.log_offset(view.cut("t", 0, 0, 40)) == view.synced_offset

    await fill(engine, model, chance, 5, clock)
    view.refresh()

    behind = (await read_all(engine))[-5]
    assert behind.queue_offset == 40
    assert 0 < view.log_offset(view.cut("t", 0, 0, 45)) <= behind.log_offset
    view.close()


async def test_damage_of_kept_messages_is_told_by_offset_and_the_others_are_read(
    engine: LocalEngine, tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    chance, model = random.Random(SEED), Model()
    await fill(engine, model, chance, 40, clock)
    await compact(engine)
    served = await read_all(engine)
    (path,) = [one for one in (tmp_path / "compacted" / "t" / "0").iterdir() if one.name.isdigit()]
    whole = path.read_bytes()
    view = StoreView(tmp_path, is_unsynced_shown=True)

    sizes = [one.size_bytes for one in served]
    third = layout.HEADER.size + len(served) * layout.ROW.itemsize + sum(sizes[:2])
    path.write_bytes(flipped(whole, third + 100))
    records, lost, damaged = found(view)
    assert records == served[:2] + served[3:]
    assert (lost, damaged) == ([], [(served[2].queue_offset, served[2].queue_offset)])

    path.write_bytes(flipped(whole, layout.HEADER.size + 5))
    records, lost, damaged = found(view)
    assert (records, lost, damaged) == ([], [], [(served[0].queue_offset, 39)])

    path.write_bytes(whole[:-1])
    view.refresh()
    with pytest.raises(StoreDamaged, match="compacted/t/0"):
        view.extents("t")

    path.unlink()
    path.parent.joinpath("manifest").unlink()
    with caplog.at_level(logging.ERROR):
        assert found(view, [replace(view.cut("t", 0, 0, 40), kept_stop=40)]) == ([], [(0, 39)], [])
    path.write_bytes(whole)
    view.close()


async def test_the_tags_of_kept_messages_are_not_looked_at_before_they_are_read(
    engine: LocalEngine, tmp_path: Path
) -> None:
    for number in range(6):
        properties = {"KEYS": f"k{number % 4}", "TAGS": "ab"[number % 2]}
        await engine.append([tagged(properties)], ack=AckMode.SYNC)
    await compact(engine)
    await engine.append([tagged({"KEYS": "k9", "TAGS": "a"})], ack=AckMode.SYNC)
    view = StoreView(tmp_path, is_unsynced_shown=True)

    parts = list(parts_of(view.store, view.cut("t", 0, 0, 7), frozenset({1}), gap_bytes=0))

    assert [(one.start, one.stop) for one in parts] == [(0, 6), (6, 7)]
    assert found(view, parts)[0] == await read_all(engine)
    view.close()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def tagged(properties: dict[str, str]) -> RecordBatch:
    record = encode_record(
        topic=b"t", queue=0, body=b"x", born_time_ms=1, properties=encode_properties(properties)
    )
    sizes = np.array([len(record)], dtype=np.int32)
    return RecordBatch(topic="t", queue=0, payload=bytearray(record), sizes=sizes)
