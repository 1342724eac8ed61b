"""The engine of this process: who has it, and how a Django thread asks it.

The engine lives on one event loop. Code on that loop takes `get_engine()`; everything that runs
in a thread goes through `call`, which carries the question over and waits for the answer.
"""

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from apps.engine.api import EngineAPI
from apps.engine.errors import Overloaded, Stopping

Answer = TypeVar("Answer")

# Control-plane questions take microseconds; one that waits this long will not be answered.
CALL_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class _Running:
    engine: EngineAPI
    loop: asyncio.AbstractEventLoop | None


_running: _Running | None = None


def install(engine: EngineAPI, loop: asyncio.AbstractEventLoop | None) -> None:
    """Make `engine` the engine of this process; `loop` None answers calls in the caller's thread.

    The latter is for tests with an engine that needs no loop.
    """
    global _running
    _running = _Running(engine, loop)


def remove() -> None:
    """Leave the process without an engine; calls raise Stopping from here on."""
    global _running
    _running = None


def engine_or_none() -> EngineAPI | None:
    """Return the engine, None while there is none."""
    return None if _running is None else _running.engine


def get_engine() -> EngineAPI:
    """Return the engine, to code on its own loop; raise Stopping while there is none."""
    return _current().engine


@overload
def call(
    operation: Callable[[EngineAPI], Coroutine[Any, Any, Answer]], *, timeout_s: float = ...
) -> Answer: ...


@overload
def call(operation: Callable[[EngineAPI], Answer], *, timeout_s: float = ...) -> Answer: ...


def call(
    operation: Callable[[EngineAPI], Answer | Awaitable[Answer]], *, timeout_s: float = CALL_S_MAX
) -> Answer:
    """Run an operation on the engine's loop from another thread and return what it returns.

    Raises Stopping while there is no engine, Overloaded after `timeout_s`, and whatever the
    operation raises.
    """
    running = _current()

    async def carried_out() -> Answer:
        answer = operation(running.engine)
        if inspect.isawaitable(answer):
            return await cast("Awaitable[Answer]", answer)
        return answer

    if running.loop is None:
        return asyncio.run(carried_out())
    if _is_on(running.loop):
        raise RuntimeError("call() would wait for the loop it blocks; use get_engine() there")
    coroutine = carried_out()
    try:
        waiting = asyncio.run_coroutine_threadsafe(coroutine, running.loop)
    except RuntimeError as error:
        coroutine.close()
        raise Stopping("the engine's loop has ended") from error
    try:
        return waiting.result(timeout_s)
    except concurrent.futures.TimeoutError as error:
        waiting.cancel()
        raise Overloaded(f"the engine did not answer within {timeout_s:g} s") from error
    except concurrent.futures.CancelledError as error:
        raise Stopping("the engine is shutting down") from error


def _current() -> _Running:
    if _running is None:
        raise Stopping("this process has no engine, or it is shutting down")
    return _running


def _is_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
