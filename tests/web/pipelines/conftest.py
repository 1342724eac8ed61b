"""What the tests of the pipelines' pages share: a picture, a browser, an administrator."""

from collections.abc import Iterator

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from tests.web.console.fakes import FakeEngine, HandClock


@pytest.fixture(autouse=True)
def posted() -> Iterator[None]:
    """Post a picture, as the feed does once a second."""
    clock = HandClock()
    watch = ClockworkWatch(clock=clock, worker_processes=2)
    feed = Feed(
        clock=clock,
        clockwork=watch,
        last_hour=LastHour(),
        deaths=DeathWatch(clock=clock),
        pipelines=PipelinesWatch(clock=clock),
    )
    board.put(feed.sample(FakeEngine().api))
    yield
    board.clear()


@pytest.fixture
def browser() -> Client:
    return Client()
