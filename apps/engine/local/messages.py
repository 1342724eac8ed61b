"""Verbs of messages: send, pull, receive, settle. Knows when to wait; decides nothing else."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from apps.engine.broker.hold import Key
from apps.engine.broker.intake import answers_of
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.retrypolicy import check_delay, check_put_off
from apps.engine.broker.sharing import SharedFrames, Written
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import INVISIBLE_MS_MAX
from apps.engine.local.burials import bury_failures
from apps.engine.local.host import Host, lite_key
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import (
    AckMode,
    Appended,
    PullRequest,
    PullResult,
    PullStatus,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    Settled,
    SettleResult,
    Special,
)


class MessageVerbs:
    """The verbs of EngineAPI that carry messages."""

    def __init__(self, host: Host) -> None:
        """Bind to a host."""
        self._host = host
        config = host.config
        # The last batch of a frame may overshoot; the frame must fit a segment all the same.
        room = (config.segment_bytes - config.batch_bytes_max) // 2
        self._frames = SharedFrames(self._write, overshoot_room_bytes=room)

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        """Store batches in one atomic frame; see EngineAPI."""
        host = self._host
        host.check_sending()
        checked = host.broker.appender.check(batches)
        topics = host.config.reserve_topics
        if topics and all(batch.topic in topics for batch in checked):
            # Not in a frame with messages that may not use the reserve.
            answers, frame_end = self._frames.alone(partial(self._write, checked))
        elif any(batch.special for batch in checked):
            answers, frame_end = await self._append_special(checked)
        else:
            answers, frame_end = await self._frames.append(checked)
        if ack is AckMode.SYNC:
            await host.commits.durable(frame_end)
        return answers

    async def _append_special(self, checked: Sequence[CheckedBatch]) -> Written:
        """Store batches of which some are delayed, or numbered by their producer."""
        if any(Special.SEQUENCE in batch.special for batch in checked):
            with self._host.writing():
                return self._frames.alone(partial(self._host.broker.repeats.append, checked))
        routed = self._host.broker.intake.route(checked)
        stored, frame_end = await self._frames.append([p for way in routed for p in way.parts])
        return answers_of(routed, stored), frame_end

    def _write(self, checked: list[CheckedBatch]) -> Written:
        host = self._host
        with host.writing():
            appended, frame_end = host.broker.appender.write(checked)
        host.warm_ahead()
        host.note_written([(batch.topic, batch.queue) for batch in checked], frame_end)
        return appended, frame_end

    async def pull(self, request: PullRequest) -> PullResult:
        """Read a queue from an offset; see EngineAPI."""
        host, broker = self._host, self._host.broker
        host.check_serving()
        deadline = host.loop.time() + request.wait_ms / 1000
        has_passed = False
        while True:
            host.check_reading()
            result = await host.warmly(partial(self._pull_once, request))
            is_over = host.stopped is not None or host.loop.time() >= deadline
            if result.status is PullStatus.NO_MATCHED_MSG and not (is_over or result.unreadable):
                # Nothing for this reader so far: it waits behind what it has passed over.
                request = replace(request, queue_offset=result.next_offset)
                has_passed = True
                await asyncio.sleep(0)
                continue
            is_moved = result.next_offset != request.queue_offset
            if is_over or is_moved or result.status is not PullStatus.NO_NEW_MSG:
                if has_passed and result.status is PullStatus.NO_NEW_MSG and not is_moved:
                    result = replace(result, status=PullStatus.NO_MATCHED_MSG)
                return result
            queue = broker.queues.queue(request.topic, request.queue)
            with broker.access.waiting(request):
                await host.park(
                    _keys(request),
                    deadline,
                    is_unsynced=queue.end > queue.visible,
                    hashes=compile_filter(request.filter, request.filter_type).hashes,
                    is_due=partial(broker.is_pull_due, request),
                )

    def _pull_once(self, request: PullRequest, wait: bool) -> PullResult:
        return self._host.broker.pull(request, wait=wait)

    async def search(self, request: SearchRequest) -> SearchResult:
        """Find messages; see EngineAPI."""
        host = self._host
        host.check_serving()
        with host.writing():
            # What was taken in for the index is written first, where it was not.
            search = host.broker.search(request)
        while not search.is_done:
            await host.patiently(lambda wait: search.step(wait=wait))
            # A step at a time, so that nobody waits for more than one.
            await asyncio.sleep(0)
        return search.result()

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        """Hand out messages and hide them; see EngineAPI."""
        host, broker = self._host, self._host.broker
        host.check_serving()
        deadline = host.loop.time() + request.wait_ms / 1000
        who = (request.group, request.client_id, request.topics)
        while True:
            host.check_reading()
            with host.writing():
                result = await host.warmly(lambda wait: broker.receive(request, wait=wait))
            is_over = host.stopped is not None or host.loop.time() >= deadline
            if result.leases or is_over:
                host.arm_timers()
                return result
            if result.has_more:
                await asyncio.sleep(0)
                continue
            if request.is_lite:
                await self._wait_for_lites(request, deadline)
                continue
            places = broker.pop.places(request)
            queues = [q for place in places if (q := broker.queues.find(*place)) is not None]
            locked: list[Key] = [(request.group, *place) for place in result.blocked]
            with broker.sessions.waiting(*who):
                await host.park(
                    [*places, *locked],
                    deadline,
                    is_unsynced=any(queue.end > queue.visible for queue in queues),
                    hashes=compile_filter(request.filter, request.filter_type).hashes,
                )

    async def _wait_for_lites(self, request: ReceiveRequest, deadline: float) -> None:
        """Return when one of a client's lite topics may have something for it."""
        host, broker = self._host, self._host.broker
        who = (request.group, request.client_id)
        lites = broker.literead
        seen = broker.sessions.waiting(*who, request.topics)
        with seen, lites.sets.waiting(*who):
            await host.park(
                [lite_key(*who)],
                deadline,
                is_unsynced=lites.waits_for_sync(*who, broker.log.synced_offset),
                is_due=partial(lites.is_due, *who),
            )

    async def ack(
        self, group: str, handles: Sequence[str], *, epoch: int | None = None
    ) -> list[SettleResult]:
        """Settle handed-out messages for good; see EngineAPI."""
        settle = partial(self._host.broker.settler.ack, group, handles)
        return await self._settled(group, handles, epoch, settle)

    async def nack(
        self,
        group: str,
        handles: Sequence[str],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
        epoch: int | None = None,
        is_failure: bool = True,
    ) -> list[SettleResult]:
        """Give messages back; see EngineAPI."""
        host, settler = self._host, self._host.broker.settler
        host.check_serving()
        host.broker.fencing.check_settle(group, handles, epoch=epoch)
        check_delay(delay_level, delay_ms, delay_ms_max=INVISIBLE_MS_MAX)
        check_put_off(delay_level, delay_ms, is_failure=is_failure)
        places = self._awaited_places(group, handles)
        buried: Collection[int] = ()
        if is_failure:
            last = settler.last_failures(group, handles, delay_level=delay_level)
            buried = await bury_failures(host, last, reason=reason)
        settle = partial(
            settler.nack,
            group,
            handles,
            delay_ms=delay_ms,
            delay_level=delay_level,
            reason=reason,
            is_failure=is_failure,
        )
        results = await self._settled(group, handles, epoch, settle)
        host.holds.wake((group, *place) for place in places)
        done = SettleResult(outcome=Settled.OK)
        return [done if index in buried else result for index, result in enumerate(results)]

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int, epoch: int | None = None
    ) -> list[SettleResult]:
        """Hide messages for longer; see EngineAPI."""
        settle = partial(
            self._host.broker.settler.extend, group, handles, invisible_ms=invisible_ms
        )
        return await self._settled(group, handles, epoch, settle)

    async def renew(
        self, group: str, tokens: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        """Keep leases for longer under their own names; see EngineAPI."""
        renew = partial(self._host.broker.settler.renew, group, tokens, invisible_ms=invisible_ms)
        results = await self._settled(group, (), None, renew)
        self._host.arm_timers()
        return results

    async def _settled(
        self,
        group: str,
        handles: Sequence[str],
        epoch: int | None,
        settle: Callable[[], list[SettleResult]],
    ) -> list[SettleResult]:
        """Settle if the handles are the caller's to settle; see Fencing."""
        host = self._host
        host.check_serving()
        with host.writing():
            host.broker.fencing.check_settle(group, handles, epoch=epoch)
            places = self._awaited_places(group, handles)
            results = settle()
        host.holds.wake((group, *place) for place in places)
        return await host.recorded(results)

    def _awaited_places(self, group: str, handles: Sequence[str]) -> Collection[tuple[str, int]]:
        """Return the queues that receives in order may be waiting for until these are settled."""
        broker = self._host.broker
        return broker.settler.places(group, handles) if broker.pop.was_ordered(group) else ()


def _keys(request: PullRequest) -> list[Key]:
    """Return what may let a parked pull go on: messages, and what happens to its group."""
    place = (request.topic, request.queue)
    if not request.group:
        return [place]
    return [place, (request.group,), (request.group, *place)]
