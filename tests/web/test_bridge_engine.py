"""The road from Django's threads to the engine's loop."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl
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
    def where(_: EngineControl) -> tuple[bool, int]:
        return asyncio.get_running_loop() is loop, threading.get_ident()

    is_there, thread = bridge.call(where)

    assert is_there
    assert thread != threading.get_ident()


def test_an_error_of_the_engine_arrives_as_it_is(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(UnknownTopic):
        bridge.call(lambda engine: engine.queue_ranges("nothing"))


def test_an_engine_that_does_not_answer_is_given_up(loop: asyncio.AbstractEventLoop) -> None:
    busy, ended = threading.Event(), threading.Event()

    def hang(_: EngineControl) -> None:
        busy.wait()
        ended.set()

    with pytest.raises(Overloaded, match="did not answer"):
        bridge.call(hang, timeout_s=0.01)

    assert not ended.is_set()
    busy.set()
    assert ended.wait(60)


def test_without_an_engine_a_call_is_refused_as_stopping() -> None:
    assert bridge.engine_or_none() is None
    with pytest.raises(Stopping):
        bridge.get_engine()
    with pytest.raises(Stopping):
        bridge.call(lambda engine: engine.status())


def test_a_call_from_the_loop_itself_is_refused_before_it_can_hang(
    loop: asyncio.AbstractEventLoop,
) -> None:
    def call_from_inside(_: EngineControl) -> None:
        bridge.call(lambda engine: engine.status())

    with pytest.raises(RuntimeError, match="get_engine"):
        bridge.call(call_from_inside)


def test_a_remote_engine_is_asked_in_the_callers_thread() -> None:
    remote = FakeEngine()
    bridge.install_remote(remote)  # type: ignore[arg-type]
    try:
        found = bridge.call(lambda engine: (engine, threading.get_ident()))

        assert found == (remote, threading.get_ident())
        assert bridge.can_call()
        assert bridge.engine_or_none() is None
    finally:
        bridge.remove()


def test_the_engine_of_the_process_goes_before_a_remote_one() -> None:
    own, remote = FakeEngine(), FakeEngine()
    bridge.install_remote(remote)  # type: ignore[arg-type]
    bridge.install(own, None)  # type: ignore[arg-type]
    try:
        assert bridge.call(lambda engine: engine) is own  # type: ignore[comparison-overlap]
    finally:
        bridge.remove()
