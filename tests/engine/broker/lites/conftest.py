"""What the tests of lite topics begin with: a new store that has their parent."""

import pytest

from apps.engine.broker.core import Broker
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.lites.chats import CHATS, opened, publish


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def broker(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    broker = opened(disk, clock)
    publish(broker, CHATS)
    return broker
