"""Messages by the bytes of the log they lie in: halved in entries, read behind them."""

from itertools import pairwise
from pathlib import Path

from apps.engine.codec.checksum import crc32
from apps.engine.codec.layout import QUEUE_ENTRY_BYTES
from apps.engine.codec.record import decode_record
from apps.engine.derived.names import queue_directory
from apps.engine.local import LocalEngine
from apps.engine.offline.ranges import crc32_of, whole_segments, within
from apps.engine.offline.view import StoreView
from tests.engine.offline.stores import CONFIG, publish, pulled, send, written


async def filled(engine: LocalEngine) -> None:
    for number in range(60):
        bodies = [b"%d/%d" % (number, row) * 1_000 for row in range(number % 4 + 1)]
        await send(engine, "orders", number % 2, *bodies)


async def places(engine: LocalEngine, queues: tuple[int, ...] = (0, 1)) -> dict[int, list[int]]:
    found = {}
    for queue in queues:
        payload, at, offsets = await pulled(engine, "orders", queue), 0, []
        while at < len(payload):
            record = decode_record(payload, at)
            offsets.append(record.log_offset)
            at += record.size_bytes
        found[queue] = offsets
    return found


def check(view: StoreView, expected: dict[int, list[int]]) -> None:
    every = sorted(offset for offsets in expected.values() for offset in offsets)
    borders = [0, *every[::7], every[-1], every[-1] + 1, every[-1] + 100_000]
    for queue, offsets in expected.items():
        extent = view.extent("orders", queue)
        assert extent.max_offset == len(offsets)
        for low, high in pairwise(borders):
            first, end = within(view, extent, low, high)
            assert offsets[first:end] == [one for one in offsets if low <= one < high]


def test_a_range_of_bytes_has_the_messages_that_begin_in_it(tmp_path: Path) -> None:
    expected: dict[int, list[int]] = {}

    async def work(engine: LocalEngine) -> None:
        await filled(engine)
        expected.update(await places(engine))

    view = StoreView(written(tmp_path, work))
    try:
        check(view, expected)
    finally:
        view.close()


async def test_messages_behind_the_queues_files_are_found_too(tmp_path: Path) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    publish(engine)
    await filled(engine)
    view = StoreView(tmp_path, is_unsynced_shown=True)
    try:
        assert view.cut("orders", 0, 0, 1).frames, "nothing lies behind the files"
        check(view, await places(engine))
    finally:
        view.close()
        await engine.close()


def test_full_segments_are_those_in_front_of_the_newest(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for _ in range(150):
            await send(engine, "orders", 0, b"x" * 30_000)

    view = StoreView(written(tmp_path, work))
    try:
        size = CONFIG.segment_bytes
        assert whole_segments(view) == [(0, size), (size, 2 * size)]
        first = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
        assert crc32_of(view, 0, size) == crc32(first)
        assert crc32_of(view, size - 10, size) == crc32(first[-10:])
    finally:
        view.close()


def test_an_empty_queue_has_none(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"x")

    view = StoreView(written(tmp_path, work))
    try:
        assert within(view, view.extent("payments", 0), 0, 1 << 40) == (0, 0)
    finally:
        view.close()


async def test_messages_behind_damaged_last_entries_are_in_no_range_that_begins_behind_them(
    tmp_path: Path,
) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    publish(engine)
    await send(engine, "orders", 0, *[b"filed %d" % number for number in range(5)])
    await engine.close()
    engine = await LocalEngine.open(tmp_path, CONFIG)
    publish(engine)
    for number in range(3):
        await send(engine, "orders", 0, b"behind the files %d" % number)
    view = StoreView(tmp_path, is_unsynced_shown=True)
    try:
        assert view.cut("orders", 0, 0, 8).tail_start == 5, "nothing lies behind the files"
        offsets = (await places(engine, (0,)))[0]
        (entries,) = (tmp_path / queue_directory("orders", 0)).iterdir()
        with entries.open("r+b") as file:
            file.seek(3 * QUEUE_ENTRY_BYTES)
            file.write(bytes(2 * QUEUE_ENTRY_BYTES))
        extent = view.extent("orders", 0)

        assert within(view, extent, offsets[7], offsets[7] + 1) == (7, 8)
        assert within(view, extent, 0, offsets[2] + 1) == (0, 3)
        assert within(view, extent, offsets[2] + 1, offsets[6]) == (3, 6)
        assert within(view, extent, offsets[7] + 1, 1 << 40) == (8, 8)
    finally:
        view.close()
        await engine.close()
