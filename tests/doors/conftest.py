"""Fixtures of the door's tests: the same tests run on the fake engine and on the real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import PERM_READ, AckMode, CatalogSnapshot, TopicSpec, TopicType
from tests.doors.asgi import Client
from tests.doors.fake_engine import FakeEngine, ManualClock
from tests.doors.recorder import Recorder

TOPICS = {
    topic.name: topic
    for topic in (
        TopicSpec(name="orders", queue_count=4),
        TopicSpec(name="single", queue_count=1),
        TopicSpec(name="urgent", queue_count=3, type=TopicType.PRIORITY),
        TopicSpec(name="%a|b%billing", queue_count=1),
        TopicSpec(name="archive", queue_count=1, perm=PERM_READ),
    )
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["fake", "local"])
async def engine(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Recorder]:
    """Yield an engine with the topics above, fake and real in turn, and keep what it is asked."""
    if request.param == "fake":
        fake = FakeEngine(clock)
        fake.publish_catalog(CatalogSnapshot(version=1, topics=TOPICS))
        yield Recorder(fake)
        return
    config = EngineConfig(segment_bytes=34 * MIB, ack=AckMode.ASYNC)
    local = await LocalEngine.open(tmp_path / "store", config, clock=clock)
    try:
        local.publish_catalog(CatalogSnapshot(version=1, topics=TOPICS))
        yield Recorder(local)
    finally:
        await local.close()


@pytest.fixture
def settings() -> DoorSettings:
    return DoorSettings(default_ack=AckMode.ASYNC)


@pytest.fixture
def client(engine: Recorder, settings: DoorSettings, clock: ManualClock) -> Client:
    return Client(create_app(lambda: engine, settings, clock=clock))
