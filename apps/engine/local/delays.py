"""Verbs of delayed messages, for people: list, recall, send now. Knows when to wait."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from apps.engine.delaytypes import DelayedCopies, DelayedPage, DelayStatus, Recall
from apps.engine.local.host import Host


class DelayVerbs:
    """The verbs of EngineControl about delayed messages."""

    _host: Host

    async def delayed(
        self,
        *,
        level: int | None = None,
        topic: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        messages_max: int = 100,
    ) -> DelayedPage:
        """List delayed messages by due time; see EngineControl."""
        broker = self._host.broker
        if level is None:
            page = partial(
                broker.delaylist.page,
                topic=topic,
                from_ms=from_ms,
                to_ms=to_ms,
                cursor=cursor,
                messages_max=messages_max,
            )
            return await self._host.patiently(lambda wait: page(wait=wait))
        listing = partial(
            broker.levellist.page,
            level,
            topic=topic,
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=cursor,
            messages_max=messages_max,
        )
        return await self._host.patiently(lambda wait: listing(wait=wait))

    async def delayed_copies(self, message_id: str) -> DelayedCopies:
        """Find what waits of a message in delay levels; see EngineControl."""
        host = self._host
        host.check_serving()
        with host.writing():
            # What was taken in for the index is written first, where it was not.
            search = host.broker.levellist.search(message_id)
        while not search.is_done:
            await host.patiently(lambda wait: search.step(wait=wait))
            # A step at a time, so that nobody waits for more than one.
            await asyncio.sleep(0)
        return host.broker.levellist.still_waiting(search.result())

    def delay_status(self) -> DelayStatus:
        """Return the counters of messages with a delay of their own."""
        broker = self._host.broker
        status = broker.delaylist.status()
        lost = status.without_topic + broker.schedule.without_topic.total()
        return replace(status, without_topic=lost)

    async def recall(self, handle: str) -> Recall:
        """Cancel a delayed message; see EngineControl."""
        return await self._ended(
            lambda wait: self._host.broker.delaydelivery.recall(handle, wait=wait)
        )

    async def deliver_now(self, handle: str) -> Recall:
        """Deliver a delayed message before its time; see EngineControl."""
        return await self._ended(
            lambda wait: self._host.broker.delaydelivery.deliver_now(handle, wait=wait)
        )

    async def _ended(self, end: Callable[[bool], Recall]) -> Recall:
        """Carry out what ends a message; what it answers holds whatever happens then."""
        host = self._host
        host.check_serving()

        def once(wait: bool) -> Recall:
            host.check_serving()
            return end(wait)

        with host.writing():
            outcome = await host.patiently(once)
        # Whatever the store promises for sends: nobody asks twice whether a cancelled one comes.
        await host.commits.durable(host.broker.recorder.log_end)
        return outcome
