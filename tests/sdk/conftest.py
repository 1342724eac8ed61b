"""What the client's tests share: a broker of their own. Knows nothing of the product."""

from collections.abc import Iterator

import pytest

from tests.sdk.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker().running() as running:
        running.topics["orders"] = 4
        yield running
