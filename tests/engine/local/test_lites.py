"""Lite topics on an engine with a store: the promises of all engines, and those of the waiting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.engine.api import EngineAPI, EngineControl
from apps.engine.config import EngineConfig
from apps.engine.limits import LITE_LOOK_MS, MIB
from apps.engine.litetypes import LiteAction
from apps.engine.local import LocalEngine, lites
from apps.engine.testing.contracts.lite import (
    CATALOG,
    LiteContract,
    bodies_of,
    handles_of,
    lite_batch,
    receive,
    send,
    subscribe,
)
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import AckMode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class TestLiteTopicsOfLocalEngine(LiteContract):
    @pytest.fixture
    async def engine(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[EngineAPI]:
        config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0)
        engine = await LocalEngine.open(tmp_path / "store", config, clock=clock)
        yield engine
        await engine.close()

    @pytest.fixture
    def control(self, engine: EngineAPI) -> EngineControl:
        return engine


async def test_who_waits_has_a_send_synced_that_nobody_else_waits_for(
    clock: ManualClock, tmp_path: Path
) -> None:
    config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0, flush_interval_ms=3_600_000)
    engine = await LocalEngine.open(tmp_path / "store", config, clock=clock)
    engine.publish_catalog(CATALOG)
    await subscribe(engine, "c", "ann", "bob")
    waiting = asyncio.create_task(receive(engine, "c", wait_ms=30_000))
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await engine.append([lite_batch("ann", "a1")], ack=AckMode.ASYNC)

    assert bodies_of(await waiting) == ["a1"]
    # Written before anybody waits, and not synced when somebody does.
    await engine.append([lite_batch("bob", "b1")], ack=AckMode.ASYNC)
    assert bodies_of(await receive(engine, "c", wait_ms=30_000)) == ["b1"]
    await engine.close()


async def test_who_waited_before_it_was_known_is_served(clock: ManualClock, tmp_path: Path) -> None:
    config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0, flush_interval_ms=3_600_000)
    engine = await LocalEngine.open(tmp_path / "store", config, clock=clock)
    engine.publish_catalog(CATALOG)
    waiting = asyncio.create_task(receive(engine, "c", wait_ms=30_000))
    while engine.status().parked == 0:
        await asyncio.sleep(0)
    await subscribe(engine, "c", "ann", action=LiteAction.REPLACE)

    await engine.append([lite_batch("ann", "a1")], ack=AckMode.ASYNC)

    assert bodies_of(await waiting) == ["a1"]
    await engine.close()


async def test_a_lite_topic_ends_by_itself_on_the_clock_of_the_store(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lites, "_ASK_S", 0)
    config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0)
    engine = await LocalEngine.open(tmp_path / "store", config, clock=clock)
    engine.publish_catalog(CATALOG)
    await send(engine, "ann", "a1")
    clock.advance(LITE_LOOK_MS)
    for _ in range(100):
        await asyncio.sleep(0)
    young = engine.lite_topics("chats").total

    clock.advance(900_000)
    while engine.lite_topics("chats").total:
        await asyncio.sleep(0)

    assert young == 1
    await engine.close()


async def test_a_settled_lease_wakes_another_client_that_waits(
    clock: ManualClock, tmp_path: Path
) -> None:
    config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0)
    engine = await LocalEngine.open(tmp_path / "store", config, clock=clock)
    engine.publish_catalog(CATALOG)
    await send(engine, "ann", "a1", "a2")
    await subscribe(engine, "c", "ann")
    await subscribe(engine, "d", "ann")
    first = await receive(engine, "c", most=1)
    waiting = asyncio.create_task(receive(engine, "d", wait_ms=30_000))
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await engine.ack("g", handles_of(first.leases))

    assert bodies_of(await waiting) == ["a2"]
    await engine.close()
