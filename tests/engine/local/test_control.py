"""The control verbs of an engine in this process keep their promises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.engine.api import EngineControl
from apps.engine.config import EngineConfig
from apps.engine.errors import Stopping
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.contracts.control import CATALOG, EngineControlContract, receive
from apps.engine.testing.contracts.groups import GroupControlContract
from apps.engine.testing.manualclock import ManualClock

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)


class OnLocalEngine:
    @pytest.fixture
    async def engine(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[LocalEngine]:
        engine = await LocalEngine.open(tmp_path, CONFIG, clock=clock)
        yield engine
        await engine.close()

    @pytest.fixture
    def control(self, engine: LocalEngine) -> EngineControl:
        return engine


class TestGroupsOfLocalEngine(OnLocalEngine, GroupControlContract):
    pass


class TestControlOfLocalEngine(OnLocalEngine, EngineControlContract):
    async def test_a_closed_engine_obeys_no_catalog(self, engine: LocalEngine) -> None:
        await engine.close()

        with pytest.raises(Stopping):
            engine.publish_catalog(CATALOG)

    async def test_a_restart_begins_with_no_clients(
        self, engine: LocalEngine, tmp_path: Path
    ) -> None:
        engine.publish_catalog(CATALOG)
        await receive(engine)
        before = engine.clients()
        await engine.close()

        again = await LocalEngine.open(tmp_path, CONFIG)
        after = again.clients()
        await again.close()

        assert len(before) == 1
        assert after == []
