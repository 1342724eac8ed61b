"""What the console's tests share; board and audience are left empty."""

from collections.abc import Iterator

import pytest
from django.test import Client

from apps.bridge import engine as bridge
from apps.console.audience import audience
from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from tests.web.console.fakes import FakeEngine, HandClock
from tests.web.fake_engine import FakeEngine as CareEngine


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def watch(clock: HandClock) -> ClockworkWatch:
    return ClockworkWatch(clock=clock, worker_processes=2)


@pytest.fixture
def last_hour() -> LastHour:
    return LastHour()


@pytest.fixture
def deaths(clock: HandClock) -> DeathWatch:
    return DeathWatch(clock=clock)


@pytest.fixture
def pipelines(clock: HandClock) -> PipelinesWatch:
    return PipelinesWatch(clock=clock)


@pytest.fixture
def feed(
    clock: HandClock,
    watch: ClockworkWatch,
    last_hour: LastHour,
    deaths: DeathWatch,
    pipelines: PipelinesWatch,
) -> Feed:
    return Feed(
        clock=clock, clockwork=watch, last_hour=last_hour, deaths=deaths, pipelines=pipelines
    )


@pytest.fixture(autouse=True)
def empty_board_and_audience() -> Iterator[None]:
    board.clear()
    audience.clear()
    yield
    board.clear()
    audience.clear()


@pytest.fixture
def browser() -> Client:
    return Client()


@pytest.fixture
def care() -> Iterator[CareEngine]:
    """Install an engine for pages that look up more than the picture holds."""
    fake = CareEngine()
    bridge.install(fake, None)  # type: ignore[arg-type]
    yield fake
    bridge.remove()
