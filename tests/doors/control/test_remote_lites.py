"""Lite topics asked about as from another process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from apps.bridge.remote import RemoteEngine
from apps.engine.api import EngineAPI, EngineControl
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.contracts.lite import LiteContract
from apps.engine.testing.manualclock import ManualClock
from tests.doors.control.serving import Served

Answer = TypeVar("Answer")


class TestLiteTopicsOfRemoteEngine(LiteContract):
    @pytest.fixture
    async def engine(
        self, served: Served, clock: ManualClock, tmp_path: Path
    ) -> AsyncIterator[EngineAPI]:
        config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0)
        local = await LocalEngine.open(tmp_path, config, clock=clock)
        served.engine = local
        yield local
        await local.close()

    @pytest.fixture
    def control(self, remote: RemoteEngine, engine: EngineAPI) -> EngineControl:
        return remote

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        return await asyncio.to_thread(question)
