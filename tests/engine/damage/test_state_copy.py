"""A damaged checkpoint of consumer state whose events retention has deleted: its copy stands in."""

import logging
import random

import pytest

from apps.engine.broker.replay import CHECKPOINT, COPY
from apps.engine.errors import StoreDamaged
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.verify.findings import Kind
from tests.engine.damage import test_matrix as matrix
from tests.engine.damage.stores import image
from tests.engine.damage.test_verify_what_is_kept import cut_store, findings
from tests.engine.local.keeping import Keeping, kept

# An old block of a file that has one is the old file, which is no damage.
WAYS = [how for how in matrix.HARMS if how != "stale"]


async def state_of(store: Keeping, disk: SimulatedDisk) -> tuple[object, list[int]]:
    twin = Keeping(disk=disk, clock=store.clock, config=store.config, topics=dict(store.topics))
    async with twin.opened() as engine:
        state = engine._host.broker.state.dump()
        return state, await kept(engine)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("path", [CHECKPOINT, COPY])
async def test_either_file_is_enough(how: str, path: str, caplog: pytest.LogCaptureFixture) -> None:
    store, left = await cut_store()
    assert store.disk.content()[CHECKPOINT] == store.disk.content()[COPY]
    whole = await state_of(store, image(store.disk))
    disk = image(store.disk)
    matrix.harm(disk, SimulatedDisk(), path, how, random.Random(f"{how}/{path}"))

    with caplog.at_level(logging.WARNING):
        found = await state_of(store, disk)

    assert found == whole
    assert found[1] == left
    assert ("consumer_state_from_copy" in caplog.messages) == (path == CHECKPOINT)


@pytest.mark.parametrize("how", WAYS)
async def test_a_store_that_has_neither_does_not_open(how: str) -> None:
    store, _ = await cut_store()
    for path in (CHECKPOINT, COPY):
        matrix.harm(store.disk, SimulatedDisk(), path, how, random.Random(f"{how}/{path}"))

    with pytest.raises(StoreDamaged):
        async with store.opened():
            pass


async def test_a_damaged_copy_is_a_finding_and_is_made_anew() -> None:
    store, _ = await cut_store()
    matrix.harm(store.disk, SimulatedDisk(), COPY, "flip", random.Random(1))

    assert [(one.kind, one.place) for one in findings(store.disk)] == [(Kind.STATE, COPY)]
    async with store.opened():
        pass

    assert findings(store.disk) == []
