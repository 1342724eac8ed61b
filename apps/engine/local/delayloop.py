"""Deliver delayed messages when they are due, and move what waits to the disk, as background tasks.

Knows when to wait and to try again; what is due, and what is to be moved, the broker knows.
"""

import asyncio
import logging
from contextlib import suppress

from apps.engine.errors import EngineError
from apps.engine.local.host import Host
from apps.engine.log.quarantine import Unreadable

_log = logging.getLogger(__name__)

# What is due within a tick goes out together: 100 frames a second at the most.
_TICK_MS = 10
# The wall clock may be set while it is waited for.
_LOOK_AGAIN_MS = 1_000
# A full disk does not get room faster for being asked more often.
_AGAIN_S = 1.0
_MOVE_S = 1.0


async def deliver_delayed(host: Host) -> None:
    """Deliver for ever; to be run as a task."""
    delays, delivery = host.broker.delays, host.broker.delaydelivery
    sooner = asyncio.Event()
    delays.on_sooner = sooner.set

    def deliver(wait: bool) -> bool:
        host.check_serving()
        return delivery.deliver(wait=wait)

    while host.stopped is None:
        sooner.clear()
        try:
            with host.writing():
                is_more = await host.patiently(deliver)
        except EngineError as error:
            if host.stopped is None:
                _log.warning("delays_not_delivered", extra={"error": str(error)})
                await asyncio.sleep(_AGAIN_S)
            continue
        if is_more:
            # Others have their turn between two frames.
            await asyncio.sleep(0)
            continue
        next_ms = delays.waiting.next_ms
        if next_ms is None:
            await sooner.wait()
            next_ms = delays.now_ms()
        left_ms = _until_tick(next_ms, delays.now_ms())
        if left_ms > _TICK_MS:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await sooner.wait()
        else:
            await asyncio.sleep(left_ms / 1000)


def _until_tick(due_ms: int, now_ms: int) -> int:
    """Return how long to wait for the first tick at which something is due."""
    tick_ms = -(-max(due_ms, now_ms + 1) // _TICK_MS) * _TICK_MS
    return min(tick_ms - now_ms, _LOOK_AGAIN_MS)


async def move_delayed(host: Host) -> None:
    """Write runs for ever, one at a time; to be run as a task."""
    waiting, clock = host.broker.delays.waiting, host.broker.clock
    while True:
        await asyncio.sleep(_MOVE_S)
        waiting.settle()
        job = waiting.plan(host.broker.delays.now_ms(), monotonic_ms=clock.monotonic_ms())
        if job is None:
            continue
        writing = asyncio.ensure_future(host.in_thread(job.run))
        try:
            with host.writing():
                await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The log is closed next, and the thread reads it.
            job.is_cancelled = True
            await asyncio.wait([writing])
            # Whatever it was, the next start plans the run anew; asking is what keeps it quiet.
            writing.exception()
            raise
        except EngineError as error:
            _log.warning("delays_not_moved", extra={"error": str(error)})
            waiting.abandon(job)
            if isinstance(error, Unreadable):
                # The next plan goes without what cannot be read.
                host.broker.damage.isolate(error)
        else:
            waiting.adopt(job)
