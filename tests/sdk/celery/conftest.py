"""What the transport's tests share: a fake broker without topics, and what speaks to it."""

import uuid
from collections.abc import Iterator

import pytest
from mqclient.celery.client import Client
from mqclient.celery.options import Options
from mqclient.clock import SystemClock
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.celery.clocks import ManualClock
from tests.sdk.celery.product import Product, running
from tests.sdk.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Return a broker that has no topic yet."""
    with FakeBroker().running() as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands still."""
    return ManualClock()


@pytest.fixture
def client(broker: FakeBroker) -> Iterator[Client]:
    """Return requests to the broker."""
    client = Client(Endpoint.of(broker.url), Options(), clock=SystemClock())
    yield client
    client.pool.close()


@pytest.fixture(scope="session")
def running_product(
    embedded_postgres: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """Run one broker for all tests that talk to a real one."""
    with running(tmp_path_factory.mktemp("kombu") / "data") as product:
        yield product


@pytest.fixture
def product(running_product: Product) -> Iterator[Product]:
    """Return the broker; the test's connections are closed after it."""
    yield running_product
    running_product.close_connections()


@pytest.fixture
def name() -> str:
    """Return a name no other test uses."""
    return f"n{uuid.uuid4().hex[:12]}"
