"""Verbs of what failed or waits in a level: send back, resend, deliver. Knows when to wait."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from apps.engine.broker.schedule import Due
from apps.engine.delaytypes import LevelsDelivered
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.errors import InvalidArgument
from apps.engine.failuretypes import (
    FailedMessage,
    GroupRetries,
    ResendResult,
    ReturnResult,
)
from apps.engine.limits import CARE_MESSAGES_MAX, FETCH_MESSAGES_MAX
from apps.engine.local.host import Host
from apps.engine.types import QueueRange

_log = logging.getLogger(__name__)


class FailureVerbs:
    """The verbs of EngineAPI that move failed and delayed messages."""

    _host: Host
    # One that delivers is enough; another would read what the first one has delivered.
    _delivering: asyncio.Lock

    async def send_back(
        self,
        group: str,
        messages: Sequence[FailedMessage],
        *,
        client_id: str = "",
        delay_level: int | None = None,
        delay_ms: int | None = None,
        reason: str = "",
        generation: int | None = None,
    ) -> list[ReturnResult]:
        """Take over messages that a reader of queues failed at; see EngineAPI."""
        host, sendback = self._host, self._host.broker.sendback
        host.check_serving()
        request = sendback.begin(
            group,
            messages,
            client_id=client_id,
            delay_level=delay_level,
            delay_ms=delay_ms,
            reason=reason,
            generation=generation,
        )
        with host.broker.log.front.pins.held():
            for place in request.left:
                while len(request.left[place]):
                    read = await host.patiently(partial(sendback.read, request, place))
                    host.check_serving()
                    with host.writing():
                        sendback.store(request, place, read)
                    # A frame at a time, so that nobody waits for more than one.
                    await asyncio.sleep(0)
        return await host.recorded(request.results)

    async def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> list[ResendResult]:
        """Send dead letters of a group again; see EngineControl."""
        host, deadletters = self._host, self._host.broker.deadletters
        host.check_serving()
        request = deadletters.begin(group, queue_offsets, topic=topic, by=by)
        with host.broker.log.front.pins.held():
            while len(request.left):
                read = await host.patiently(lambda wait: deadletters.read(request, wait=wait))
                host.check_serving()
                with host.writing():
                    deadletters.store(request, read)
                await asyncio.sleep(0)
        return await host.recorded(request.answer())

    async def group_retries(self, group: str) -> GroupRetries:
        """Count by failures what is to come again; see EngineControl."""
        host, retrycounts = self._host, self._host.broker.retrycounts
        counting = retrycounts.begin(group)
        while counting.portions:
            await host.patiently(lambda wait: retrycounts.look(counting, wait=wait))
            # A portion at a time, so that nobody waits for more than one.
            await asyncio.sleep(0)
        return counting.answer()

    async def deliver_levels(self, messages_max: int = 1_000) -> LevelsDelivered:
        """Deliver what is due in the delay levels; see EngineControl."""
        if not 1 <= messages_max <= FETCH_MESSAGES_MAX:
            raise InvalidArgument(f"1 to {FETCH_MESSAGES_MAX} messages, not {messages_max}")
        host, schedule = self._host, self._host.broker.schedule
        host.check_serving()
        self._look_at_clock()
        delivered, left = 0, messages_max
        async with self._delivering:
            for queue in schedule.queues():
                while left > 0 and (due := await self._due(queue, left)) is not None:
                    delivered += self._deliver(due)
                    left -= len(due.records)
                    await asyncio.sleep(0)
        states = schedule.states()
        return await host.recorded(
            LevelsDelivered(delivered=delivered, more=schedule.is_due(), levels=states)
        )

    def delay_levels(self) -> LevelsDelivered:
        """Return where each level is, without delivering anything; see EngineControl."""
        schedule = self._host.broker.schedule
        return LevelsDelivered(delivered=0, more=schedule.is_due(), levels=schedule.states())

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        """Return what the engine's own topics hold; see EngineControl."""
        return self._host.broker.own_ranges(prefix)

    def _look_at_clock(self) -> None:
        # A clock that was set ahead must not make anything due.
        with self._host.writing():
            self._host.broker.delays.guard.look()

    async def _due(self, queue: ConsumeQueue, messages_max: int) -> Due | None:
        schedule = self._host.broker.schedule
        return await self._host.patiently(
            lambda wait: schedule.due(
                queue, messages_max=min(messages_max, CARE_MESSAGES_MAX), wait=wait
            )
        )

    def _deliver(self, due: Due) -> int:
        host, schedule = self._host, self._host.broker.schedule
        host.check_serving()
        self._look_at_clock()
        before = schedule.without_topic.copy()
        with host.writing():
            delivered = schedule.deliver(due)
        for topic, count in (schedule.without_topic - before).items():
            _log.warning("delayed_without_topic", extra={"topic": topic, "count": count})
        return delivered
