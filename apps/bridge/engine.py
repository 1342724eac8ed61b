"""The engine of this process, or the way to the broker's: who has it, and how a thread asks it.

The engine lives on one event loop. Code on that loop takes `get_engine()`; everything that runs
in a thread goes through `call`, which carries the question over and waits for the answer. A process
without an engine may have a remote one, and `call` then asks that.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from apps.engine.api import EngineAPI, EngineControl, Later
from apps.engine.errors import Overloaded, Stopping

Answer = TypeVar("Answer")

# Control verbs take microseconds; a question that waits this long will not be answered.
CALL_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class _Running:
    engine: EngineAPI
    loop: asyncio.AbstractEventLoop | None


_running: _Running | None = None
_remote: EngineControl | None = None


def install(engine: EngineAPI, loop: asyncio.AbstractEventLoop | None) -> None:
    """Make `engine` the engine of this process; `loop` None answers calls in the caller's thread.

    The latter is for tests with an engine that needs no loop.
    """
    global _running
    _running = _Running(engine, loop)


def install_remote(remote: EngineControl) -> None:
    """Let calls of this process ask `remote`, in the caller's thread, while it has no engine."""
    global _remote
    _remote = remote


def remove() -> None:
    """Leave the process without an engine, also a remote one; calls raise Stopping from here on."""
    global _running, _remote
    _running = None
    _remote = None


def engine_or_none() -> EngineAPI | None:
    """Return the engine of this process, None while there is none; never a remote one."""
    return None if _running is None else _running.engine


def remote_or_none() -> EngineControl | None:
    """Return the remote engine, None where none was installed."""
    return _remote


def get_engine() -> EngineAPI:
    """Return the engine, to code on its own loop; raise Stopping while there is none."""
    if _running is None:
        raise Stopping("this process has no engine, or it is shutting down")
    return _running.engine


def can_call() -> bool:
    """Say whether `call` has anybody to ask."""
    return _running is not None or _remote is not None


def call(
    operation: Callable[[EngineControl], Later[Answer]], *, timeout_s: float = CALL_S_MAX
) -> Answer:
    """Carry out an operation where the engine lives and return what it returns.

    On the engine's loop in the broker's process, where an awaitable is awaited; elsewhere here,
    where each verb goes to the remote engine under a time-out of its own. Raises Stopping while
    there is no engine, Overloaded after `timeout_s`, when the operation may still be carried out
    later, Unreachable for a remote engine that does not answer, and whatever the operation raises.
    """
    running = _running
    if running is None:
        if _remote is None:
            raise Stopping("this process has no engine, or it is shutting down")
        return _there(operation(_remote))
    return _carried_out(running, operation, timeout_s)


def call_here(
    operation: Callable[[EngineAPI], Awaitable[Answer]], *, timeout_s: float = CALL_S_MAX
) -> Answer:
    """Await an operation with messages, which the engine of this process alone can carry out.

    Raises what `call` raises, and Stopping also where the engine is in another process.
    """
    if _running is None:
        raise Stopping("the engine of messages is not in this process, or it is shutting down")
    later: Callable[[EngineAPI], Later[Answer]] = operation
    return _carried_out(_running, later, timeout_s)


def _carried_out(
    running: _Running, operation: Callable[[EngineAPI], Later[Answer]], timeout_s: float
) -> Answer:
    if running.loop is None:
        return _alone(operation(running.engine))
    if _is_on(running.loop):
        raise RuntimeError("call() would wait for the loop it blocks; use get_engine() there")

    async def carried_out() -> Answer:
        answer = operation(running.engine)
        # Awaiting may take longer than the caller waits; what it does is then done all the same.
        return await answer if isinstance(answer, Awaitable) else answer

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


def _alone(answer: Later[Answer]) -> Answer:
    """Return what an engine that needs no loop has answered, or will."""
    if not isinstance(answer, Awaitable):
        return answer

    async def awaited() -> Answer:
        return await answer

    return asyncio.run(awaited())


def _there(answer: Later[Answer]) -> Answer:
    """Return what an engine without a loop has answered."""
    assert not isinstance(answer, Awaitable)
    return answer


def _is_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
