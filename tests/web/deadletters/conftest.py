"""What the tests of dead letters share: an engine on a loop of its own thread, and a caller."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from apps.bridge import engine as bridge
from apps.topics.models import Topic
from tests.web.deadletters.letters import LetterEngine


@pytest.fixture
def engine() -> Iterator[LetterEngine]:
    """Install an engine with a topic `orders`, as the broker's process has one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    fake = LetterEngine()
    bridge.install(fake, loop)  # type: ignore[arg-type]
    yield fake
    bridge.remove()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def orders() -> Topic:
    """Make the topic that letters come from."""
    return Topic.objects.create(name="orders")
