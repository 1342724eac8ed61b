"""Make dead letters of what failed for the last time: asked to, or when its time is over.

Knows when to wait and to try again; what is buried the broker knows.
"""

import asyncio
import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.ack import LastFailure
from apps.engine.broker.burying import Burial
from apps.engine.errors import EngineError
from apps.engine.local.host import Host

_log = logging.getLogger(__name__)

# A full disk does not get room faster for being asked more often.
_AGAIN_S = 1.0


async def bury_failures(host: Host, failures: Sequence[LastFailure], *, reason: str) -> set[int]:
    """Make dead letters of given-back messages; return the handles of which any message is one.

    Raises StoreFull; what was not buried by then is still in its lease.
    """
    buried: set[int] = set()
    for failure in failures:
        entry = failure.entry
        past = entry.given_back(host.broker.clock.wall_ms(), reason)
        burial = Burial(entry=entry, offsets=failure.offsets, past=past)
        offsets = await _bury(host, burial)
        buried.update(index for index, named in failure.handles if np.isin(named, offsets).any())
    return buried


async def bury_expired(host: Host) -> None:
    """Bury for ever what falls due; to be run as a task."""
    burying = host.broker.burying
    has_work = asyncio.Event()
    burying.on_work(has_work.set)
    while True:
        while (burial := burying.next()) is not None:
            if host.stopped is not None:
                return
            try:
                await _bury(host, burial)
            except EngineError as error:
                # Nobody gets the messages meanwhile; another lease's may be readable.
                _log.warning("dead_letters_not_stored", extra={"error": str(error)})
                burying.postpone(burial)
                await asyncio.sleep(_AGAIN_S)
        has_work.clear()
        await has_work.wait()


async def _bury(host: Host, burial: Burial) -> NDArray[np.int64]:
    """Bury all of a burial, a frame at a time; return the offsets that were."""
    burying = host.broker.burying
    parts = [burial.offsets[:0]]
    with host.broker.log.front.pins.held():
        while len(burial.offsets):
            read = await host.patiently(lambda wait: burying.read(burial, wait=wait))
            host.check_serving()
            with host.writing():
                parts.append(burying.bury(burial, read))
            await asyncio.sleep(0)
    return np.concatenate(parts)
