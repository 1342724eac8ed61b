"""What the client's tests share: a broker of their own. Knows nothing of the product."""

from collections.abc import Iterator
from functools import partial

import pytest
from mqclient import AsyncProducer, Producer

from tests.sdk.fake_broker import FakeBroker

# Waited out to its end, and yet enough for a first attempt on a machine under load.
SHORT_S = 1.5


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker().running() as running:
        running.topics["orders"] = 4
        yield running


@pytest.fixture(params=["http", "lane"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the producers of a test's module send by HTTP and over the lane in turn."""
    if request.param == "lane":
        for kind in (Producer, AsyncProducer):
            monkeypatch.setattr(request.module, kind.__name__, partial(kind, lane=True))
    return str(request.param)
