"""The lite pull consumer for asyncio: the other face of the core and its plans."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.interceptors import tell_received
from mqclient.consuming.lite_core import LitePullCore
from mqclient.consuming.lite_plans import LitePullPlans
from mqclient.consuming.polledwork import polled_work
from mqclient.consuming.settings import LitePullSettings
from mqclient.consuming.subscriptions import subscriptions_of
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.aio import AsyncPool
from mqclient.transport.tasks import TaskDriver
from mqclient.values import Filter, TopicQueue
from mqclient.wire.records import Message

OnQueues = Callable[[list[TopicQueue]], Awaitable[None] | None]


def _ignore(_queues: list[TopicQueue]) -> None:
    return


class AsyncLitePullConsumer:
    """Reads queues by position, on one event loop; see LitePullConsumer."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by LitePullSettings, field by field.
    ) -> None:
        self._clock = clock or SystemClock()
        checked = LitePullSettings(**settings)
        endpoint = Endpoint.of(server, token)
        calls = Calls(endpoint)
        self._pool = AsyncPool(endpoint, clock=self._clock)
        self._core = LitePullCore(checked, calls, clock=self._clock)
        patience = Patience(clock=self._clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self._work = polled_work(checked, endpoint, clock=self._clock)
        self._plans = LitePullPlans(checked, calls, self._core, patience, self._work)
        self._driver = TaskDriver(self._core, self._pool)
        self._on_assigned: OnQueues = _ignore
        self._on_revoked: OnQueues = _ignore
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error nobody knows whether the last messages were dealt with.
        if error is not None:
            self._work.failed(type(error).__name__)
        await self.close(is_commit=error is None)

    async def fetch_queues(self, topic: str) -> list[TopicQueue]:
        """Return the queues of a topic; raise UnknownTopic."""
        return await self._pool.run(self._plans.queues(topic))

    async def assign(self, queues: Iterable[TopicQueue]) -> None:
        """Replace the assignment; an added queue starts at the committed offset, else the first."""
        await self._pool.run(self._plans.assign(queues))
        self._driver.kick()

    async def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        subscriptions: Mapping[str, Filter] | None = None,
        on_assigned: OnQueues = _ignore,
        on_revoked: OnQueues = _ignore,
    ) -> None:
        """Join the group and read what the broker assigns; see LitePullConsumer.subscribe.

        A callback may be a coroutine function. Raise MqError when the broker refuses.
        """
        wanted = subscriptions_of(topics, subscriptions or {})
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        await self._pool.run(self._plans.join(wanted))
        self._driver.kick()

    async def unsubscribe(self) -> None:
        """Commit where that is automatic, leave the group, and read nothing more."""
        if self._core.is_subscribed:
            await self._pool.run(self._plans.commit_if_due(is_last=True))
            self._core.unsubscribe()
            await self._pool.run(self._plans.leave())

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the assigned queues."""
        return self._core.assignment()

    async def poll(
        self, timeout_s: float = 5.0, *, messages_max: int | None = None
    ) -> list[Message]:
        """Return messages of one queue, in order; empty when none came in time. Raise MqError."""
        await self._pool.run(self._plans.commit_if_due())
        limit = messages_max or self._core.settings.poll_messages_max
        deadline_s = self._clock.steady_s() + timeout_s
        while True:
            await self._follow()
            ready = asyncio.Event()
            messages = self._core.poll(limit, ready.set)
            self._driver.kick()
            if messages:
                tell_received(self._core.settings.interceptors, messages)
                self._work.given(messages)
                return messages
            try:
                async with asyncio.timeout(max(0.0, deadline_s - self._clock.steady_s())):
                    await ready.wait()
            except TimeoutError:
                return []

    async def seek(self, queue: TopicQueue, offset: int) -> None:
        """Go on at another offset of an assigned queue."""
        self._plans.seek(queue, offset)
        self._driver.kick()

    async def seek_to_begin(self, queue: TopicQueue) -> None:
        """Go on at the first offset the queue has."""
        await self._pool.run(self._plans.seek_to_begin(queue))
        self._driver.kick()

    async def seek_to_end(self, queue: TopicQueue) -> None:
        """Go on behind the last message the queue has."""
        await self._pool.run(self._plans.seek_to_end(queue))
        self._driver.kick()

    async def offset_for_time(self, queue: TopicQueue, time: datetime | int) -> int:
        """Return the offset of the first message stored at or after a time; the end without one.

        `time` has a time zone, or is in milliseconds since 1970 UTC.
        """
        return await self._pool.run(self._plans.offset_for_time(queue, time))

    def position(self, queue: TopicQueue) -> int:
        """Return the offset where `poll` goes on."""
        return self._core.position(queue)

    async def committed(self, queue: TopicQueue) -> int | None:
        """Return the offset the group has committed, None without one."""
        return (await self._pool.run(self._plans.committed())).get(queue)

    async def commit(self) -> None:
        """Commit the positions: what was returned by `poll` is done. Raise MqError."""
        await self._pool.run(self._plans.commit())

    async def pause(self, queues: Iterable[TopicQueue]) -> None:
        """Hold queues back until `resume`."""
        self._core.pause(queues, is_paused=True)

    async def resume(self, queues: Iterable[TopicQueue]) -> None:
        """Let paused queues go on."""
        self._core.pause(queues, is_paused=False)
        self._driver.kick()

    async def close(self, *, is_commit: bool = True) -> None:
        """Commit the positions where that is automatic, and end at once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if is_commit:
                await self._pool.run(self._plans.commit_if_due(is_last=True))
        finally:
            is_subscribed = self._core.is_subscribed
            self._core.close()
            await self._driver.stop(is_abort=True)
            if is_subscribed:
                await self._pool.run(self._plans.leave())
            await self._pool.close()
            if self._work.is_told:
                await asyncio.to_thread(self._work.close)

    async def _follow(self) -> None:
        """Give up and take over what the broker has assigned otherwise since the last poll."""
        if lost := self._core.lost():
            await _told(self._on_revoked(lost))
            await self._pool.run(self._plans.give_up(lost))
        if gained := self._core.gained():
            await self._pool.run(self._plans.take_over(gained))
            await _told(self._on_assigned(gained))


async def _told(answer: Awaitable[None] | None) -> None:
    if inspect.isawaitable(answer):
        await answer
