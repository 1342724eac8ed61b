"""Main loops beside the engine: a step again and again, until cancelled. Knows no step."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

_log = logging.getLogger("mqweb.broker")

_AGAIN_S = 1.0
_CANCEL_AGAIN_S = 0.5


async def every(
    interval_s: float,
    step: Callable[[], Awaitable[object]],
    *,
    name: str,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Await `step` every `interval_s` until cancelled.

    A step that fails is logged with its traceback when it begins to fail, and tried again.
    """
    is_failing = False
    while True:
        try:
            await step()
        except Exception:
            if not is_failing:
                _log.exception("background_step_failed", extra={"step": name})
            is_failing = True
        else:
            if is_failing:
                _log.info("background_step_recovered", extra={"step": name})
            is_failing = False
        await sleep(interval_s)


async def kept(
    run: Callable[[], Awaitable[None]],
    *,
    name: str,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Await `run`, which should not return, and start it again when it fails."""
    await every(_AGAIN_S, run, name=name, sleep=sleep)


async def end(tasks: Collection[asyncio.Task[None]], *, again_s: float = _CANCEL_AGAIN_S) -> None:
    """Cancel `tasks` and return when all have ended, however they did.

    What a step awaits may swallow a cancellation that comes in the moment in which it is done;
    the loop would go on, and the process with it. So who has not ended is cancelled again.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=again_s)
