"""Look regularly whether segments may go, and let them go, step by step. Knows loop and threads.

What may go, and in which order it goes, the broker knows; here is who waits for whom.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from apps.engine.broker.holders import NeededFrom, Place
from apps.engine.broker.retention import Needs, Retention
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.errors import EngineError
from apps.engine.local.compactionloop import Compactor
from apps.engine.local.host import Host
from apps.engine.log.retention import Wanted
from apps.engine.retentiontypes import Cleaned

_log = logging.getLogger(__name__)

# So many queues are told to begin later in one go; others have their turn in between.
_QUEUES_AT_ONCE = 256


class Cleaner:
    """The cleaning of one open store; one at a time."""

    def __init__(self, host: Host, compactor: Compactor) -> None:
        """Bind to a host; what must be copied first the compactor copies."""
        self._compactor = compactor
        self._host = host
        self._retention = host.broker.retention
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def close(self) -> None:
        """Return when nothing is deleted any more; what was begun the next owner goes on with."""
        self._is_closed = True
        async with self._turn:
            return

    async def run(self) -> None:
        """Clean for ever; to be run as a task."""
        look_s = self._host.config.retention_look_ms / 1000
        while True:
            await asyncio.sleep(look_s)
            if self._host.stopped is not None or self._is_closed:
                return
            try:
                while (await self.clean(at_any_hour=False)).more and not self._is_closed:
                    self._host.check_serving()
            except EngineError as error:
                # What was begun is gone on with at the next look, or at the next start.
                _log.warning("retention_failed", extra={"error": str(error)})

    async def clean(self, *, at_any_hour: bool) -> Cleaned:
        """Delete some of what may go now, and return what that was: ten segments at the most.

        Raises StoreFull, WriteFailed, SyncFailed or StoreDamaged; what was begun is gone on with.
        """
        host, retention = self._host, self._retention
        async with self._turn:
            before = retention.deleted_segments
            with host.writing():
                if at_any_hour:
                    await self._compactor.compact_all()
                    await self._checkpoint()
                await self._hide_by_topic()
                more = not self._is_closed and await self._step(at_any_hour=at_any_hour)
                await host.in_thread(retention.sweep)
                await host.in_thread(host.broker.queues.begin_cleaning())
            front = host.broker.log.front
            await host.in_thread(partial(front.first_ms, front.log_start))
            count = retention.deleted_segments - before
            if count:
                extra = {"segments": count, "log_start": front.log_start}
                _log.info("segments_deleted", extra=extra)
            return Cleaned(
                log_start=front.log_start,
                deleted_segments=count,
                deleted_bytes=count * front.segment_bytes,
                more=more,
                blocked_by=retention.blocks,
            )

    async def _hide_by_topic(self) -> None:
        """Hide what is too old for its topic, whatever becomes of its segment."""
        host, retention = self._host, self._retention
        for number, (queue, before_ms) in enumerate(retention.timed_queues()):
            if number % _QUEUES_AT_ONCE == _QUEUES_AT_ONCE - 1:
                await asyncio.sleep(0)
            first = await host.patiently(partial(_first_kept, retention, queue, before_ms))
            place = (queue.topic, queue.queue)
            # Somebody may have it in hand: then it is hidden when that is over.
            first = min(first, host.broker.holders.held().get(place, first))
            if first > queue.min_offset:
                retention.hide({place: first})

    async def _step(self, *, at_any_hour: bool) -> bool:
        """Delete some segments; return whether there may be more."""
        host, retention = self._host, self._retention
        front = host.broker.log.front
        disk_used = host.broker.disk_used()
        want = await host.in_thread(partial(retention.wanted, disk_used, at_any_hour=at_any_hour))
        if want is None:
            retention.nothing_wanted()
            return False
        allowed = retention.allowed(want, await self._needs(want, disk_used))
        if not allowed:
            return False
        begins = await self._begins(allowed)
        places = list(begins)
        for first in range(0, len(places), _QUEUES_AT_ONCE):
            some = places[first : first + _QUEUES_AT_ONCE]
            if not retention.hide({place: begins[place] for place in some}):
                return False
            await asyncio.sleep(0)
        await host.in_thread(partial(retention.store_start, allowed, begins))
        await host.read_ended()
        files = front.give_up(allowed)
        for file in files:
            file.close()
        retention.follow()
        await host.in_thread(retention.sweep)
        return want.more and allowed == want.log_start

    async def _needs(self, want: Wanted, disk_used: float) -> Needs:
        """Ask all who may need what is wanted; a checkpoint is taken where one is in the way."""
        retention = self._retention
        await self._compactor.cover(want.log_start)
        needs = await self._asked(retention.checkpoint_holders())
        if min(needs.values(), default=want.log_start) < want.log_start:
            await self._checkpoint()
            needs = await self._asked(retention.checkpoint_holders())
        needs.update(await self._asked(retention.holders(want.rule)))
        leases = await self._host.in_thread(retention.leases.in_force)
        return needs | retention.reader_needs(leases, disk_used)

    async def _asked(self, holders: Mapping[str, NeededFrom]) -> Needs:
        found: Needs = {}
        for holder, needed_from in holders.items():
            offset = await self._host.patiently(needed_from)
            if offset is not None:
                found[holder] = offset
        return found

    async def _begins(self, log_start: int) -> dict[Place, int]:
        """Find where each queue begins in what is kept."""
        found: dict[Place, int] = {}
        for queue in self._retention.queue_places():
            place = (queue.topic, queue.queue)
            found[place] = await self._host.patiently(partial(_first_at, queue, log_start))
        return found

    async def _checkpoint(self) -> None:
        await self._host.checkpoint()
        self._host.broker.delays.waiting.settle()


def _first_kept(retention: Retention, queue: ConsumeQueue, before_ms: int, wait: bool) -> int:
    return retention.first_kept(queue, before_ms, wait=wait)


def _first_at(queue: ConsumeQueue, log_offset: int, wait: bool) -> int:
    return queue.first_at(log_offset, wait=wait)
