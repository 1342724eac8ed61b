"""Look regularly whether compacted topics are worth a round, and run it. Knows loop and threads.

What a round does the broker knows; here is who waits for whom: reading the log happens on the loop,
a few messages at a time, everything else in threads.
"""

import asyncio
import logging
from functools import partial

from apps.engine.broker.compaction import Compaction
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.errors import EngineError, QueueDamaged, Stopping, StoreDamaged, StoreFull
from apps.engine.local.host import Host

_log = logging.getLogger(__name__)

# A step that waited long for the disk took little from anybody.
_PAUSE_S_MAX = 0.01


class Compactor:
    """The compaction of one open store; one round at a time."""

    def __init__(self, host: Host) -> None:
        """Bind to a host."""
        self._host = host
        self._compaction = host.broker.compaction
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def close(self) -> None:
        """Return when no round is under way; one that is begun is given up at its next step."""
        self._is_closed = True
        async with self._turn:
            return

    async def run(self) -> None:
        """Compact for ever; to be run as a task."""
        look_s = self._host.config.compaction_look_ms / 1000
        while True:
            await asyncio.sleep(look_s)
            if self._host.stopped is not None or self._is_closed:
                return
            try:
                await self.look()
            except EngineError as error:
                # Nothing that a reader sees has changed; the next look begins anew.
                _log.warning("compaction_failed", extra={"error": str(error)})

    async def look(self) -> None:
        """Run the rounds that are due, and remove what nobody can read; raises as a round does."""
        for queue in self._compaction.hidden():
            async with self._turn:
                await self._drop(queue)
        for queue in self._compaction.due():
            await self.compact(queue)

    async def cover(self, log_offset: int) -> None:
        """Run the rounds that must come before the log may begin at `log_offset`.

        What is not synced yet stays uncovered, and so does a queue whose round was refused: what it
        needs of the log stays. Raises WriteFailed or SyncFailed.
        """
        while True:
            wanted = await self._host.patiently(partial(_uncovered, self._compaction, log_offset))
            if not wanted:
                return
            for queue in wanted:
                try:
                    await self.compact(queue)
                except (StoreFull, QueueDamaged, StoreDamaged, Stopping) as error:
                    _log.warning("compaction_failed", extra={"error": str(error)})
                    return

    async def compact_all(self) -> None:
        """Run a round for each queue that has something new. Raises what a round does."""
        for queue in list(self._compaction.compacted_queues()):
            if queue.visible > max(queue.covered, queue.min_offset):
                await self.compact(queue)

    async def compact(self, queue: ConsumeQueue) -> None:
        """Run one round for a queue.

        Raises StoreFull, StoreDamaged, WriteFailed, SyncFailed, or Stopping.
        """
        host, compaction = self._host, self._compaction
        async with self._turn:
            done = compaction.begin_round(queue)
            with host.writing():
                try:
                    for step in done.steps():
                        if self._is_closed:
                            raise Stopping("the engine takes no more requests")
                        began_s = host.loop.time()
                        if step.reads:
                            await host.patiently(step.work)
                        else:
                            await host.in_thread(partial(step.work, True))
                        # Threads share the interpreter with the loop: half of the time is others'.
                        await asyncio.sleep(min(_PAUSE_S_MAX, host.loop.time() - began_s))
                except BaseException:
                    compaction.failed_rounds += 1
                    done.abandon()
                    raise
                old = compaction.switch(done)
                await host.read_ended()
                await host.in_thread(partial(compaction.retire, done, old))

    async def _drop(self, queue: ConsumeQueue) -> None:
        old = self._compaction.drop(queue)
        if old is None:
            return
        await self._host.read_ended()
        with self._host.writing():
            await self._host.in_thread(partial(self._compaction.forget, old))


def _uncovered(compaction: Compaction, log_offset: int, wait: bool) -> list[ConsumeQueue]:
    return compaction.uncovered(log_offset, wait=wait)
