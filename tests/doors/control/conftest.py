"""Fixtures of the internal door's tests: a server without an engine, and who asks it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from apps.bridge.remote import RemoteEngine
from tests.doors.control.serving import TOKEN, Served, serve


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = await serve()
    yield served
    await served.stop()


@pytest.fixture
def remote(served: Served) -> Iterator[RemoteEngine]:
    remote = RemoteEngine("127.0.0.1", served.port, token=TOKEN)
    yield remote
    remote.close()
