"""The road from Django's threads to the engine's loop."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from apps.bridge import engine as bridge
from apps.engine.api import EngineAPI
from apps.engine.errors import Overloaded, Stopping, UnknownTopic
from tests.web.fake_engine import FakeEngine


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run a loop in a thread of its own and install a fake engine on it."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    bridge.install(FakeEngine(), running)  # type: ignore[arg-type]
    yield running
    bridge.remove()
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


def test_a_call_is_carried_out_on_the_engines_own_thread(
    loop: asyncio.AbstractEventLoop,
) -> None:
    async def where(_: EngineAPI) -> tuple[bool, int]:
        return asyncio.get_running_loop() is loop, threading.get_ident()

    is_there, thread = bridge.call(where)

    assert is_there
    assert thread != threading.get_ident()


def test_a_plain_function_is_carried_there_as_well(loop: asyncio.AbstractEventLoop) -> None:
    assert bridge.call(lambda engine: engine.group_progress()) == []


def test_an_error_of_the_engine_arrives_as_it_is(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(UnknownTopic):
        bridge.call(lambda engine: engine.queue_ranges("nothing"))


def test_an_engine_that_does_not_answer_is_given_up(loop: asyncio.AbstractEventLoop) -> None:
    cancelled = threading.Event()

    async def hang(_: EngineAPI) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Overloaded, match="did not answer"):
        bridge.call(hang, timeout_s=0.01)

    assert cancelled.wait(5)


def test_without_an_engine_a_call_is_refused_as_stopping() -> None:
    assert bridge.engine_or_none() is None
    with pytest.raises(Stopping):
        bridge.get_engine()
    with pytest.raises(Stopping):
        bridge.call(lambda engine: engine.status())


def test_a_call_from_the_loop_itself_is_refused_before_it_can_hang(
    loop: asyncio.AbstractEventLoop,
) -> None:
    async def call_from_inside(_: EngineAPI) -> None:
        bridge.call(lambda engine: engine.status())

    with pytest.raises(RuntimeError, match="get_engine"):
        bridge.call(call_from_inside)
