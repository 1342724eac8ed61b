"""What operators do, in one process: who waits is woken or goes on waiting, and all is durable."""

import asyncio
from pathlib import Path

import pytest

from apps.engine.caretypes import (
    CareAct,
    CareRequest,
    CareResult,
    QueueReset,
    ResetRequest,
    WhatIfRequest,
)
from apps.engine.errors import HeadMoved, LockLost, Stopping
from apps.engine.grouptypes import QueuePlace
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import GroupSpec, PullStatus, ReceiveRequest
from tests.engine.local.test_groups import (
    CONFIG,
    FIRST,
    answered,
    beat,
    parked_beat,
    parked_pull,
    publish,
    send,
    until_parked,
)

ORDERED = GroupSpec(name="g", ordered=True)


@pytest.fixture
async def engine(tmp_path: Path):  # type: ignore[no-untyped-def]  # An async generator.
    opened = await LocalEngine.open(tmp_path, CONFIG, clock=ManualClock())
    publish(opened, ORDERED)
    yield opened
    await opened.close()


async def attend(engine: LocalEngine, act: CareAct, offset: int | None = None) -> CareResult:
    request = CareRequest(
        act=act, group="g", topic="orders", queue=0, expected_offset=offset, by="ann", reason="x"
    )
    return await engine.attend(request)


async def test_a_parked_pull_waits_on_while_its_queue_is_suspended(engine: LocalEngine) -> None:
    answer = await engine.acquire_locks("g", "a", [FIRST])
    epoch = answer.locked[0].epoch
    waiting = await parked_pull(engine, epoch=epoch)
    await attend(engine, CareAct.SUSPEND)

    await send(engine, 2)
    await until_parked(engine, 1)
    assert not waiting.done()

    await attend(engine, CareAct.RESUME)
    result = await asyncio.wait_for(waiting, timeout=25)
    assert result.status is PullStatus.FOUND


async def test_a_parked_receive_is_given_what_is_there_when_its_queue_is_resumed(
    engine: LocalEngine,
) -> None:
    await send(engine, 1)
    await attend(engine, CareAct.SUSPEND)
    request = ReceiveRequest(
        group="g", topics=("orders",), ordered=True, messages_max=1, wait_ms=30_000
    )
    waiting = asyncio.create_task(engine.receive(request))
    await until_parked(engine, 1)

    await attend(engine, CareAct.RESUME)

    assert len((await asyncio.wait_for(waiting, timeout=25)).leases) == 1


async def test_a_parked_pull_of_a_skipped_queue_ends_with_its_lock(engine: LocalEngine) -> None:
    await send(engine, 1)
    epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
    waiting = await parked_pull(engine, epoch=epoch, queue_offset=1)

    await attend(engine, CareAct.SKIP, 0)

    with pytest.raises(LockLost):
        await asyncio.wait_for(waiting, timeout=25)


async def test_an_ordered_receive_that_waits_behind_a_head_goes_on_when_it_is_skipped(
    engine: LocalEngine,
) -> None:
    await send(engine, 2)
    request = ReceiveRequest(
        group="g", topics=("orders",), ordered=True, messages_max=1, wait_ms=30_000
    )
    assert len((await engine.receive(request)).leases) == 1
    waiting = asyncio.create_task(engine.receive(request))
    await until_parked(engine, 1)

    await attend(engine, CareAct.SKIP, 0)

    (lease,) = (await asyncio.wait_for(waiting, timeout=25)).leases
    assert lease.attempt == 1


async def test_a_waiting_member_is_told_at_once_and_begins_anew(engine: LocalEngine) -> None:
    await send(engine, 2)
    first = await beat(engine, "a", ordered=True)
    waiting = await parked_beat(engine, "a", first.generation)

    await attend(engine, CareAct.PARK, 0)

    told = await answered(waiting)
    assert told.assignment == {"orders": (1,)}
    again = await beat(engine, "a", generation=told.generation, wait_ms=30_000)
    assert again.assignment == {"orders": (0, 1)}
    (letters,) = engine.own_ranges("%DLQ%")["%DLQ%g"]
    assert letters.max_offset == 1


async def test_two_operators_who_park_at_once_park_one_message(engine: LocalEngine) -> None:
    await send(engine, 3)

    both = await asyncio.gather(
        attend(engine, CareAct.PARK, 0), attend(engine, CareAct.PARK, 0), return_exceptions=True
    )

    assert sorted(one.is_repeat for one in both if isinstance(one, CareResult)) == [False, True]
    with pytest.raises(HeadMoved):
        await attend(engine, CareAct.SKIP, 0)


async def test_a_reset_is_durable_when_it_is_answered(engine: LocalEngine) -> None:
    await send(engine, 5)
    one = QueueReset(topic="orders", queue=0, target=3, expected_min=0, expected_max=0)

    await engine.reset_offsets(ResetRequest(group="g", reset_id="r", queues=(one,)))

    status = engine.status()
    assert status.synced_offset == status.written_offset
    (row, _) = engine.group_progress("g")
    assert row.committed == 3
    assert await engine.offsets_at([QueuePlace(topic="orders", queue=0)], 0) == [0]
    assert engine.what_if(WhatIfRequest(group="g", member_count=1)).added == ("~1",)


async def test_a_stopped_engine_attends_to_nothing(tmp_path: Path) -> None:
    engine = await LocalEngine.open(tmp_path / "other", CONFIG)
    publish(engine, ORDERED)
    await engine.close()

    with pytest.raises(Stopping):
        await attend(engine, CareAct.SUSPEND)
