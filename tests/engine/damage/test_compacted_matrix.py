"""What is kept of compacted topics, damaged in every way: told, and nothing else is believed.

The kept messages are nowhere else: their segments are gone. So what cannot be read any more is
missing for good, and must be told; a manifest is derived, and its loss costs nothing.
"""

import random
from collections import Counter

import pytest

from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.verify.findings import Kind
from tests.engine.damage.test_compacted import findings
from tests.engine.damage.test_matrix import HARMS, harm
from tests.engine.local.compacting import Model, compact, compacting, offsets, put, read_all
from tests.engine.local.keeping import HOUR_MS, Keeping, send

AGED_MS = 73 * HOUR_MS
KEYS = 4
KINDS = ("file", "manifest")


def image(disk: SimulatedDisk) -> SimulatedDisk:
    """Return a copy that may be damaged."""
    return disk.crash_image(random.Random(0), CrashMode.EVERYTHING)


async def kept() -> tuple[Keeping, SimulatedDisk, Model]:
    """Return a store whose kept messages are nowhere else, and an older copy of its disk."""
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(6):
            await put(engine, model, (f"k{turn % KEYS}", b"%d" % turn * 1000))
        await compact(engine)
    older = image(store.disk)
    async with store.opened() as engine:
        for turn in range(6, 12):
            await put(engine, model, (f"k{turn % KEYS}", b"%d" % turn * 1000))
        store.clock.advance(AGED_MS)
        await send(engine, 12, topic="u")
        assert (await engine.clean_now()).deleted_segments
    return store, older, model


async def outcome(
    stores: tuple[Keeping, SimulatedDisk, Model], kind: str, how: str, rng: random.Random
) -> str:
    """Damage a copy of the store and hold it to what it may serve; return what became of it."""
    store, older, model = stores
    paths = [path for path in store.disk.content() if path.startswith("compacted/t/0/")]
    (path,) = [path for path in paths if path.endswith("manifest") == (kind == "manifest")]
    copy = Keeping(
        disk=image(store.disk), clock=store.clock, config=store.config, topics=store.topics
    )
    harm(copy.disk, older, path, how, rng)
    told = {one.kind for one in findings(copy.disk)}
    newest = set(model.newest(0).values())
    async with copy.opened() as engine:
        records = await read_all(engine)
        for record in records:
            assert record.body == model.sent[0][record.queue_offset][1], "served, and not sent"
        assert len(set(offsets(records))) == len(records), "served twice"
        missing = newest - set(offsets(records))
        status = engine.status().compaction
        assert status is not None
        assert not missing or (status.damaged and told == {Kind.COMPACTED}), "missing, and untold"
        # Whatever it was, the topic goes on, and the next round leaves nothing to be told of.
        await put(engine, again := Model({0: list(model.sent[0]), 1: []}), ("k0", b"new"))
        await compact(engine)
        assert offsets(await read_all(engine))[-1] == len(again.sent[0]) - 1
    assert findings(copy.disk) == []
    if kind == "manifest":
        assert not missing
    return "missing" if missing else "whole"


async def judge(kind: str, how: str, *, seeds: range) -> Counter[str]:
    stores = await kept()
    ends = Counter[str]()
    for seed in seeds:
        print("seed", kind, how, seed)
        ends[await outcome(stores, kind, how, random.Random(f"{kind}/{how}/{seed}"))] += 1
    return ends


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_damage_of_what_is_kept_is_believed(kind: str, how: str) -> None:
    await judge(kind, how, seeds=range(1, 2))


@pytest.mark.crash
@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_damage_of_what_is_kept_is_believed_for_many_seeds(kind: str, how: str) -> None:
    ends = await judge(kind, how, seeds=range(2, 12))

    print(ends)
    assert ends.total() == 10
