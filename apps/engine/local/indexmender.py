"""Look regularly whether an index file is damaged, and make it again. Knows loop and threads.

What is made again the index knows. The log is read on the loop, a stretch a step.
"""

import asyncio
import logging

from apps.engine.derived.index.remaking import Remaking
from apps.engine.errors import EngineError
from apps.engine.local.host import Host

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
# A file that grows quickly, or a disk that refuses, is given time.
_AGAIN_S = 30.0
# A step that waited long for the disk took little from anybody.
_PAUSE_S_MAX = 0.01


async def mend_index(host: Host) -> None:
    """Make damaged index files again for ever; to be run as a task."""
    is_mended = True
    while True:
        await asyncio.sleep(_LOOK_S if is_mended else _AGAIN_S)
        made = host.broker.index.remaking()
        is_mended = True
        if made is None:
            continue
        try:
            is_mended = await _remake(host, made)
        except EngineError as error:
            # Searches go on saying that they may miss something; the next look begins anew.
            _log.warning("index_not_remade", extra={"file": made.file.path, "error": str(error)})
            is_mended = False


async def _remake(host: Host, made: Remaking) -> bool:
    """Return False where the file was written to meanwhile, and nothing has changed."""
    broker = host.broker
    if broker.log.log_start <= made.file.dispatch_from:
        for _ in made.steps(broker.log.stretches(made.file.dispatch_from)):
            # Half of the time is others'.
            await asyncio.sleep(_PAUSE_S_MAX)
    if not made.is_proven:
        broker.index.give_up(made)
        return True
    await host.outside_checkpoints(made.write)
    return broker.index.remade(made)
