"""The fake engine's lite topics: what the doors are tested on promises what an engine promises."""

import pytest

from apps.engine.api import EngineAPI, EngineControl
from apps.engine.testing.contracts.lite import LiteContract
from apps.engine.testing.manualclock import ManualClock
from tests.doors.fake_engine import FakeEngine


class OneClock(ManualClock):
    """Wall time only: the fake tells no other."""

    def monotonic_ms(self) -> int:
        return self.wall_ms()


class TestLiteTopicsOfFakeEngine(LiteContract):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return OneClock()

    @pytest.fixture
    def engine(self, clock: ManualClock) -> EngineAPI:
        return FakeEngine(clock)

    @pytest.fixture
    def control(self, engine: EngineAPI) -> EngineControl:
        return engine
