"""What the tests of the audit log share: a feed for pages that show a picture."""

import pytest

from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from tests.web.console.fakes import HandClock


@pytest.fixture
def feed() -> Feed:
    clock = HandClock()
    return Feed(
        clock=clock,
        clockwork=ClockworkWatch(clock=clock, worker_processes=2),
        last_hour=LastHour(),
        deaths=DeathWatch(clock=clock),
        pipelines=PipelinesWatch(clock=clock),
    )
