"""Verbs of groups at work: membership, locks, offsets. Knows when to wait; decides nothing."""

from collections.abc import Mapping, Sequence

from apps.engine.grouptypes import (
    BeginOffset,
    HeartbeatRequest,
    HeartbeatResult,
    LockAnswer,
    QueuePlace,
)
from apps.engine.local.host import Host
from apps.engine.types import ConsumeFrom, OffsetCommit


class GroupVerbs:
    """The verbs of EngineAPI that members use."""

    _host: Host

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Join a group or stay in it; see EngineAPI."""
        host, broker = self._host, self._host.broker
        host.check_serving()
        deadline = host.loop.time() + request.wait_ms / 1000
        with host.writing():
            member = broker.membership.heartbeat(request)
        host.arm_timers()
        topics = tuple(sorted({wanted.topic for wanted in request.subscriptions}))
        seen = broker.sessions.waiting(request.group, request.client_id, topics)
        if broker.membership.answer(member, request.generation).generation == request.generation:
            try:
                # Cancelled here, its connection is gone, and the member is given a short grace.
                with seen, broker.members.waiting(member):
                    await host.park(
                        [(request.group,)],
                        deadline,
                        is_due=lambda: broker.membership.has_news(member, request.generation),
                    )
            finally:
                # The grace may end before anything the alarm was set for.
                host.arm_timers()
        broker.catalog.usable_group(request.group)
        answer = broker.membership.answer(member, request.generation)
        member.generation = answer.generation
        return await host.recorded(answer)

    async def leave(self, group: str, client_id: str) -> None:
        """Leave a group at once; see EngineAPI."""
        self._host.check_serving()
        with self._host.writing():
            self._host.broker.membership.leave(group, client_id)
        await self._host.recorded(None)

    async def acquire_locks(
        self, group: str, client_id: str, places: Sequence[QueuePlace]
    ) -> LockAnswer:
        """Take or renew locks of queues; see EngineAPI."""
        self._host.check_serving()
        with self._host.writing():
            answer = self._host.broker.locks.acquire(group, client_id, places)
        return await self._host.recorded(answer)

    async def release_locks(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        """Give locks back; see EngineAPI."""
        self._host.check_serving()
        with self._host.writing():
            answer = self._host.broker.locks.release(group, client_id, places, epochs=epochs)
        return await self._host.recorded(answer)

    async def commit_offsets(
        self,
        group: str,
        commits: Sequence[OffsetCommit],
        *,
        client_id: str = "",
        generation: int | None = None,
    ) -> None:
        """Set the group's progress; see EngineAPI."""
        broker = self._host.broker
        self._host.check_serving()
        with self._host.writing():
            broker.fencing.check_commit(group, commits, client_id=client_id, generation=generation)
            broker.offsets.commit(group, commits, client_id=client_id)
        await self._host.recorded(None)

    async def begin_offsets(
        self,
        group: str,
        places: Sequence[QueuePlace],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
    ) -> list[BeginOffset]:
        """Return where the group goes on in each queue; see EngineAPI."""
        self._host.check_serving()

        def begun(wait: bool) -> list[BeginOffset]:
            return self._host.broker.begin.offsets(
                group,
                places,
                consume_from=consume_from,
                consume_from_ms=consume_from_ms,
                wait=wait,
            )

        with self._host.writing():
            offsets = await self._host.patiently(begun)
        return await self._host.recorded(offsets)

    async def offset_at(self, topic: str, queue: int, time_ms: int) -> int:
        """Return the offset of the first message stored at or after a time; see EngineAPI."""
        self._host.check_serving()
        self._host.broker.catalog.readable(topic, queue)
        found = self._host.broker.queues.queue(topic, queue)
        times = self._host.broker.times
        return await self._host.patiently(lambda wait: times.first_since(found, time_ms, wait=wait))
