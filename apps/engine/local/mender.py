"""Look regularly whether a derived file is damaged, and make it again. Knows loop and threads.

What is made again its owner knows, the consume queues or the key index. The log is read on the
loop, a stretch a step.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol, TypeVar

from apps.engine.errors import EngineError
from apps.engine.local.host import Host
from apps.engine.log.commitlog import CommitLog

_LOOK_S = 1.0
# A file that grows quickly, or a disk that refuses, is given time.
_AGAIN_S = 30.0
# About as long as a stretch takes, so that half of the time is others'.
_PAUSE_S = 0.01


class Remaking(Protocol):
    """One file that is made again."""

    @property
    def is_proven(self) -> bool:
        """Say whether what was made may take the file's place."""
        ...

    def look(self) -> None:
        """Read what there is of the file; for a thread."""
        ...

    def steps(self, log: CommitLog) -> Iterator[None]:
        """Make what the file had, one stretch of the log a step."""
        ...

    def write(self) -> None:
        """Bring it to the disk; for a thread."""
        ...


_Remaking = TypeVar("_Remaking", bound=Remaking)


class Owner(Protocol[_Remaking]):
    """Files of one kind."""

    def remaking(self) -> _Remaking | None:
        """Begin to make a damaged file again; None where there is none that could be."""
        ...

    def remade(self, made: _Remaking) -> bool:
        """Read the file again; False where it has changed meanwhile, and must be made once more."""
        ...

    def give_up(self, made: _Remaking) -> None:
        """Leave a file to the next start."""
        ...

    def postpone(self, made: _Remaking, error: EngineError) -> None:
        """Say that it could not be made now."""
        ...


async def mend(host: Host, owner: Owner[_Remaking]) -> None:
    """Make damaged files again for ever; to be run as a task."""
    is_mended = True
    while True:
        await asyncio.sleep(_LOOK_S if is_mended else _AGAIN_S)
        made = owner.remaking()
        is_mended = True
        if made is None:
            continue
        try:
            is_mended = await _remake(host, owner, made)
        except EngineError as error:
            # Whoever reads is told as before; the next look begins anew.
            owner.postpone(made, error)
            is_mended = False


async def _remake(host: Host, owner: Owner[_Remaking], made: _Remaking) -> bool:
    """Return False where the file was written to meanwhile, and nothing has changed."""
    broker = host.broker
    await host.in_thread(made.look)
    known = broker.log.quarantine.ranges
    with host.writing():  # Damage of the log that is found on the way is written down.
        try:
            for _ in made.steps(broker.log):
                await asyncio.sleep(_PAUSE_S)
        finally:
            if broker.log.quarantine.ranges != known:
                broker.damage.mark()
    if not made.is_proven:
        owner.give_up(made)
        return True
    await host.outside_checkpoints(made.write)
    is_remade = owner.remade(made)
    # What a gap of the log held only the entries tell that are read again from here on.
    with host.writing():
        broker.damage.mark()
    return is_remade
