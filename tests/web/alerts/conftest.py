"""What tests of the alerts share: a clock set by hand."""

import pytest

from tests.web.metrics.fakes import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()
