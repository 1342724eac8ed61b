"""What a broken connection means to the rest of its group, by the engine's own timers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, TopicSpec
from tests.doors.asgi import Client, NoAnswer

GROUP = "/api/v1/groups/billing"
SUBSCRIBED = {"subscriptions": [{"topic": "orders"}]}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LocalEngine]:
    """Yield an engine on the system's clock that gives broken members a short grace."""
    config = EngineConfig(segment_bytes=34 * MIB, ack=AckMode.ASYNC, disconnect_grace_ms=50)
    engine = await LocalEngine.open(tmp_path, config)
    orders = TopicSpec(name="orders", queue_count=4)
    engine.publish_catalog(CatalogSnapshot(version=1, topics={"orders": orders}))
    yield engine
    await engine.close()


async def until_waiting(engine: LocalEngine, count: int) -> None:
    while sum(member.is_waiting for member in engine.members()) != count:
        await asyncio.sleep(0)


async def test_the_queues_of_a_broken_member_go_to_the_others_without_anybody_asking(
    engine: LocalEngine,
) -> None:
    """The engine's alarm was set for the whole time-out and not moved forward to the grace."""
    client = Client(create_app(lambda: engine, DoorSettings()))
    await client.post(f"{GROUP}/members/well:heartbeat", SUBSCRIBED)
    joined = await client.post(f"{GROUP}/members/broken:heartbeat", SUBSCRIBED)
    waiting = SUBSCRIBED | {"generation": joined.json()["generation"], "wait_ms": 30_000}
    gone = asyncio.Event()
    well = asyncio.create_task(client.post(f"{GROUP}/members/well:heartbeat", waiting))
    broken = asyncio.create_task(
        client.post(f"{GROUP}/members/broken:heartbeat", waiting, gone=gone)
    )
    await until_waiting(engine, 2)

    gone.set()

    with pytest.raises(NoAnswer):
        await broken
    answer = await asyncio.wait_for(well, 3)
    assert answer.json()["assignment"] == {"orders": [0, 1, 2, 3]}
    assert [member.client_id for member in engine.members()] == ["well"]
