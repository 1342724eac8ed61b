"""What the console's tests share; board and audience are left empty."""

from collections.abc import Iterator

import pytest
from django.test import Client

from apps.console.audience import audience
from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.feed import Feed
from apps.console.sparklines import LastHour
from tests.web.console.fakes import FakeEngine, HandClock


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
def feed(clock: HandClock, watch: ClockworkWatch, last_hour: LastHour) -> Feed:
    return Feed(clock=clock, clockwork=watch, last_hour=last_hour)


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
