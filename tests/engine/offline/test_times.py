"""Messages by when they were stored: halved in entries and records, read behind them."""

from pathlib import Path

import pytest

from apps.engine.codec.record import decode_record
from apps.engine.files.segments import Segments
from apps.engine.local import LocalEngine
from apps.engine.offline.times import first_since
from apps.engine.offline.view import StoreView
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import AckMode
from tests.engine.offline.stores import CONFIG, publish, pulled, send, written

STEP_MS = 10


async def filled(engine: LocalEngine, clock: ManualClock, *, batches: int = 60) -> None:
    for number in range(batches):
        bodies = [b"%d/%d" % (number, row) for row in range(number % 4 + 1)]
        await send(engine, "orders", number % 2, *bodies)
        if number % 5:
            clock.advance(STEP_MS)


async def stored(engine: LocalEngine) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for queue in (0, 1):
        payload, at, times = await pulled(engine, "orders", queue), 0, []
        while at < len(payload):
            record = decode_record(payload, at)
            times.append(record.store_time_ms)
            at += record.size_bytes
        found[queue] = times
    return found


def check(view: StoreView, expected: dict[int, list[int]]) -> None:
    every = sorted({time for times in expected.values() for time in times})
    moments = {0, 2**63 - 1, *(time + step for time in every for step in (-1, 0, 1))}
    for queue, times in expected.items():
        extent = view.extent("orders", queue)
        assert extent.max_offset == len(times)
        for moment in moments:
            before = sum(time < moment for time in times)
            assert first_since(view, extent, moment) == before


def test_the_first_message_since_a_moment_is_found_by_entries(tmp_path: Path) -> None:
    expected: dict[int, list[int]] = {}
    clock = ManualClock()

    async def work(engine: LocalEngine) -> None:
        await filled(engine, clock)
        expected.update(await stored(engine))

    view = StoreView(written(tmp_path, work, clock=clock))
    try:
        check(view, expected)
        assert first_since(view, view.extent("payments", 0), 0) == 0
    finally:
        view.close()


async def test_messages_behind_the_queues_files_are_found_too(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = await LocalEngine.open(tmp_path, CONFIG, clock=clock)
    publish(engine)
    await filled(engine, clock)
    await engine._host.checkpoint()
    await filled(engine, clock, batches=15)
    view = StoreView(tmp_path, is_unsynced_shown=True)
    try:
        whole = view.cut("orders", 0, 0, view.extent("orders", 0).max_offset)
        assert 0 < whole.tail_start < whole.stop
        check(view, await stored(engine))
    finally:
        view.close()
        await engine.close()


def test_a_search_takes_a_handful_of_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    async def work(engine: LocalEngine) -> None:
        for number in range(40):
            await send(engine, "orders", 0, *[b"%d" % number] * 50, ack=AckMode.ASYNC)
            clock.advance(STEP_MS)
        await send(engine, "orders", 1, b"synced")

    view = StoreView(written(tmp_path, work, clock=clock))
    looks = []
    reading = Segments.read_into

    def counted(segments: Segments, offset: int, target: memoryview, *, wait: bool = True) -> None:
        looks.append(len(target))
        reading(segments, offset, target, wait=wait)

    with monkeypatch.context() as patch:
        patch.setattr(Segments, "read_into", counted)
        found = first_since(view, view.extent("orders", 0), clock.wall_ms() - 15 * STEP_MS)

    assert found == 25 * 50
    assert 1 <= len(looks) <= 11
    assert set(looks) == {88}


def test_a_damaged_message_counts_as_stored_with_the_next_one(tmp_path: Path) -> None:
    clock = ManualClock()
    moments = []

    async def work(engine: LocalEngine) -> None:
        for number in range(7):
            moments.append(clock.wall_ms())
            await send(engine, "orders", 0, b"number %d" % number)
            clock.advance(STEP_MS)

    view = StoreView(written(tmp_path, work, clock=clock))
    (segment,) = (tmp_path / "commitlog").iterdir()
    damaged = segment.read_bytes().index(b"number 3") - 88
    with segment.open("r+b") as file:
        file.seek(damaged)
        file.write(bytes(88))

    extent = view.extent("orders", 0)

    assert [first_since(view, extent, moment) for moment in moments] == [0, 1, 2, 3, 3, 5, 6]
