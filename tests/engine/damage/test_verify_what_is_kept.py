"""Verifying and rebuilding a store of which retention has deleted the begin, and its key index."""

import pytest

from apps.engine.clock import SystemClock
from apps.engine.derived.index.keyindex import CHECKPOINT as INDEX
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import AckMode
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.rebuild import Part, rebuild
from apps.engine.verify.store import open_store
from apps.engine.verify.walks import verify
from tests.engine.local.keeping import HOUR_MS, Keeping, batch, kept, send

AGED_MS = 80 * HOUR_MS


async def cut_store() -> tuple[Keeping, list[int]]:
    """Fill a store, delete its begin, and stop it; return it and the offsets that are left."""
    store = Keeping()
    async with store.opened() as engine:
        keyed = batch(b"keyed", properties={"KEYS": "k1 k2", "UNIQ_KEY": "id"}, queue=1)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await engine.append([keyed], ack=AckMode.SYNC)
        await send(engine, 12)
        cleaned = await engine.clean_now()
        assert cleaned.deleted_segments, "nothing was deleted"
        left = await kept(engine)
    return store, left


def findings(disk: SimulatedDisk) -> list[Finding]:
    store = open_store(disk, is_running=False)
    try:
        return list(verify(store, started=lambda _: None))
    finally:
        store.close()


async def test_a_store_whose_begin_is_deleted_has_no_findings() -> None:
    store, left = await cut_store()

    assert left
    assert left[0] > 0
    assert findings(store.disk) == []


@pytest.mark.parametrize("part", [Part.QUEUES, Part.INDEX])
async def test_what_the_log_still_tells_is_rebuilt(part: Part) -> None:
    store, left = await cut_store()

    rebuild(store.disk, {part}, config=store.config, clock=SystemClock(), failpoints=Failpoints())

    assert findings(store.disk) == []
    async with store.opened() as engine:
        assert await kept(engine) == left


@pytest.mark.parametrize("part", [Part.STATE, Part.TIMERS])
async def test_what_the_deleted_log_told_is_not_rebuilt(part: Part) -> None:
    store, _ = await cut_store()
    before = store.disk.content()

    with pytest.raises(StoreDamaged):
        rebuild(
            store.disk, {part}, config=store.config, clock=SystemClock(), failpoints=Failpoints()
        )

    assert store.disk.content() == before


async def test_a_flipped_bit_of_the_index_is_found_and_mended_by_a_rebuild() -> None:
    store, _ = await cut_store()
    (path,) = [path for path in store.disk.content() if path.startswith("index/")]
    content = store.disk.content()[path]
    # The entries lie behind header and slots; the first one is unused.
    slots = store.config.index_slots
    at = 40 + 4 * slots + 20 + 7
    assert any(content[at - 7 : at + 13]), "there is no entry to damage"
    file = store.disk.open(path)
    file.write(at, [bytes([content[at] ^ 0x10])])
    file.sync()
    file.close()

    found = findings(store.disk)
    rebuild(
        store.disk, {Part.INDEX}, config=store.config, clock=SystemClock(), failpoints=Failpoints()
    )

    assert [finding.kind for finding in found] == [Kind.INDEX]
    assert INDEX in store.disk.content()
    assert findings(store.disk) == []
