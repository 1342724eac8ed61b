"""Damage to kept messages: found, told of, passed over, put aside, and never served."""

import logging
import random

import pytest

from apps.engine.derived.compacted import layout
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.verify.dump import dump_kept
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import open_store
from apps.engine.verify.walks import verify
from tests.engine.local.compacting import Model, compact, compacting, offsets, put, read_all
from tests.engine.local.keeping import HOUR_MS, Keeping, send

AGED_MS = 73 * HOUR_MS
KEYS = 4


async def compacted_store() -> tuple[Keeping, Model, str]:
    """Fill a store whose kept messages are nowhere else; return also the path of their file."""
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(12):
            await put(engine, model, (f"k{turn % KEYS}", b"%d" % turn * 1000))
        store.clock.advance(AGED_MS)
        await send(engine, 12, topic="u")
        assert (await engine.clean_now()).deleted_segments
    (path,) = [path for path in store.disk.content() if path.startswith("compacted/t/0/0")]
    return store, model, path


def findings(disk: SimulatedDisk) -> list[Finding]:
    store = open_store(disk, is_running=False)
    try:
        return list(verify(store, started=lambda _: None))
    finally:
        store.close()


def flip(disk: SimulatedDisk, path: str, at: int) -> None:
    """Turn one bit of a file."""
    old = disk.content()[path][at]
    disk.open(path).write(at, [bytes([old ^ 1])])


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.levelno == logging.ERROR]


async def test_what_is_kept_verifies_and_can_be_shown() -> None:
    store, model, _ = await compacted_store()

    assert findings(store.disk) == []
    looked = open_store(store.disk, is_running=False)
    shown = list(dump_kept(looked, topic="t", queue=0, body_bytes_max=8))
    looked.close()
    assert [one["queue_offset"] for one in shown] == sorted(model.newest(0).values())
    assert shown[0]["body"] == "88888888"


async def test_any_flipped_bit_is_found_and_none_is_served() -> None:
    store, model, path = await compacted_store()
    size = len(store.disk.content()[path])
    chance = random.Random(5)
    print("seed 5")
    first_record = layout.HEADER.size + KEYS * layout.ROW.itemsize
    places = [*range(0, 32, 7), *(chance.randrange(size) for _ in range(10)), size - 1]
    for at in [40, first_record + 20, *places]:
        copy = Keeping(
            disk=store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING),
            clock=store.clock,
            config=store.config,
            topics=store.topics,
        )
        flip(copy.disk, path, at)
        found = findings(copy.disk)
        assert {one.kind for one in found} == {Kind.COMPACTED}, at
        async with copy.opened() as engine:
            for record in await read_all(engine):
                assert record.body == model.sent[0][record.queue_offset][1]
            assert engine.status().compaction.damaged >= 1, at  # type: ignore[union-attr]


async def test_a_damaged_message_is_passed_over_and_the_others_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, model, path = await compacted_store()
    flip(store.disk, path, layout.HEADER.size + KEYS * layout.ROW.itemsize + 200)
    kept = sorted(model.newest(0).values())
    async with store.opened() as engine:
        with caplog.at_level(logging.ERROR):
            assert offsets(await read_all(engine)) == kept[1:]
        assert _errors(caplog) == ["compaction_damage"]
        # The next round puts the file aside as it was found, and goes on without it.
        await put(engine, model, ("k1", b"new"))
        await compact(engine)
        found = offsets(await read_all(engine))
        assert found == sorted([offset for offset in kept[1:] if offset != kept[1]] + [12])
    aside = [name for name in store.disk.names("compacted/t/0") if name.endswith(".damaged")]
    assert len(aside) == 1
    assert findings(store.disk) == []


async def test_a_file_that_is_missing_is_told_of_and_the_rest_of_the_store_serves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, model, path = await compacted_store()
    store.disk.remove(path)
    assert [one.kind for one in findings(store.disk)] == [Kind.COMPACTED]
    with caplog.at_level(logging.ERROR):
        async with store.opened() as engine:
            assert "compaction_damage" in _errors(caplog)
            await put(engine, model, ("k0", b"new"))
            assert offsets(await read_all(engine))[-1] == 12
            await compact(engine)
    assert findings(store.disk) == []


async def test_a_damaged_manifest_is_as_none_where_the_file_is_whole() -> None:
    store, model, _ = await compacted_store()
    flip(store.disk, "compacted/t/0/manifest", 20)
    assert [one.kind for one in findings(store.disk)] == [Kind.COMPACTED]
    async with store.opened() as engine:
        model.check(0, await read_all(engine))
        await put(engine, model, ("k0", b"new"))
        await compact(engine)
        model.check(0, await read_all(engine))
    assert findings(store.disk) == []
