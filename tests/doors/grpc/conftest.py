"""The gRPC door on a real engine in a directory of the test's own, and a client of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.server import GrpcServer
from apps.doors.http.app import create_door
from apps.doors.http.settings import DoorSettings
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    PERM_READ,
    PERM_WRITE,
    CatalogSnapshot,
    GroupSpec,
    LiteModel,
    TopicSpec,
    TopicType,
)
from tests.doors.grpc.client import GrpcClient
from tests.doors.grpc.policies import Policy

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0, transaction_check_ms=30_000)
CATALOG = CatalogSnapshot(
    version=1,
    topics={
        spec.name: spec
        for spec in (
            TopicSpec(name="orders", queue_count=4),
            TopicSpec(name="normal", queue_count=2, type=TopicType.NORMAL),
            TopicSpec(name="in-order", queue_count=4, type=TopicType.FIFO),
            TopicSpec(name="later", queue_count=1, type=TopicType.DELAY),
            TopicSpec(name="both", queue_count=1, type=TopicType.TRANSACTION),
            TopicSpec(name="urgent", queue_count=4, type=TopicType.PRIORITY),
            TopicSpec(name="inbox", queue_count=4, type=TopicType.LITE),
            TopicSpec(name="shop%inbox", queue_count=1, type=TopicType.LITE),
            TopicSpec(name="ordinary", queue_count=1, type=TopicType.LITE),
            TopicSpec(name="closed", queue_count=1, perm=PERM_READ),
            TopicSpec(name="blind", queue_count=1, perm=PERM_WRITE),
            TopicSpec(name="shop%orders", queue_count=1),
        )
    },
    groups={
        "ordered": GroupSpec(name="ordered", ordered=True, retry_max=2),
        "twice": GroupSpec(name="twice", retry_max=1),
        "solo": GroupSpec(name="solo", lite_model=LiteModel.EXCLUSIVE),
    },
)

Opener = Callable[[], Awaitable[LocalEngine]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opener(tmp_path: Path, clock: ManualClock) -> Opener:
    async def open_engine() -> LocalEngine:
        engine = await LocalEngine.open(tmp_path / "store", CONFIG, clock=clock)
        engine.publish_catalog(CATALOG)
        return engine

    return open_engine


@pytest.fixture
async def engine(opener: Opener) -> AsyncIterator[LocalEngine]:
    opened = await opener()
    yield opened
    await opened.close()


@pytest.fixture
def door(engine: LocalEngine, clock: ManualClock) -> GrpcDoor:
    shared = create_door(DoorSettings(), clock=clock)
    return GrpcDoor(door=shared, engine_of=lambda: engine)


@pytest.fixture
async def port(door: GrpcDoor) -> AsyncIterator[int]:
    server = GrpcServer(door)
    found = server.listen("127.0.0.1", 0)
    await server.start()
    yield found
    await server.stop(grace_s=0)


@pytest.fixture
async def client(port: int) -> AsyncIterator[GrpcClient]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield GrpcClient(channel)


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    return Policy(clock)
