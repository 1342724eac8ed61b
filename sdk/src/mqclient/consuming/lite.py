"""The lite pull consumer, for threads and for asyncio: two faces of one core and its plans."""

import asyncio
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.lite_core import LitePullCore
from mqclient.consuming.lite_plans import LitePullPlans
from mqclient.consuming.settings import LitePullSettings
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.aio import AsyncPool
from mqclient.transport.blocking import Pool
from mqclient.transport.tasks import TaskDriver
from mqclient.transport.threads import ThreadDriver
from mqclient.values import TopicQueue
from mqclient.wire.records import Message


class LitePullConsumer:
    """Reads assigned queues by position, reading ahead in the background.

    Settings are those of LitePullSettings, by name. A position is where `poll` goes on; a poll
    says that everything returned before is done, and so may be committed by it.
    """

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
        self._pool = Pool(endpoint, clock=self._clock)
        self._core = LitePullCore(checked, calls, clock=self._clock)
        patience = Patience(clock=self._clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self._plans = LitePullPlans(checked, calls, self._core, patience)
        self._driver = ThreadDriver(
            self._core,
            self._pool,
            threads_max=checked.in_flight_max,
            clock=self._clock,
            name="mqclient-pull",
        )
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error nobody knows whether the last messages were dealt with.
        self.close(is_commit=error is None)

    def fetch_queues(self, topic: str) -> list[TopicQueue]:
        """Return the queues of a topic; raise UnknownTopic."""
        return self._pool.run(self._plans.queues(topic))

    def assign(self, queues: Iterable[TopicQueue]) -> None:
        """Replace the assignment; an added queue starts at the committed offset, else the first."""
        self._pool.run(self._plans.assign(queues))
        self._driver.kick_if_due()

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the assigned queues."""
        return self._core.assignment()

    def poll(self, timeout_s: float = 5.0, *, messages_max: int | None = None) -> list[Message]:
        """Return messages of one queue, in order; empty when none came in time. Raise MqError."""
        self._pool.run(self._plans.commit_if_due())
        limit = messages_max or self._core.settings.poll_messages_max
        deadline_s = self._clock.steady_s() + timeout_s
        while True:
            ready = threading.Event()
            messages = self._core.poll(limit, ready.set)
            self._driver.kick_if_due()
            if messages or not ready.wait(max(0.0, deadline_s - self._clock.steady_s())):
                return messages

    def seek(self, queue: TopicQueue, offset: int) -> None:
        """Go on at another offset of an assigned queue."""
        self._core.seek(queue, offset)
        self._driver.kick_if_due()

    def seek_to_begin(self, queue: TopicQueue) -> None:
        """Go on at the first offset the queue has."""
        self._pool.run(self._plans.seek_to_begin(queue))
        self._driver.kick_if_due()

    def seek_to_end(self, queue: TopicQueue) -> None:
        """Go on behind the last message the queue has."""
        self._pool.run(self._plans.seek_to_end(queue))
        self._driver.kick_if_due()

    def position(self, queue: TopicQueue) -> int:
        """Return the offset where `poll` goes on."""
        return self._core.position(queue)

    def committed(self, queue: TopicQueue) -> int | None:
        """Return the offset the group has committed, None without one."""
        return self._pool.run(self._plans.committed()).get(queue)

    def commit(self) -> None:
        """Commit the positions: what was returned by `poll` is done. Raise MqError."""
        self._pool.run(self._plans.commit())

    def pause(self, queues: Iterable[TopicQueue]) -> None:
        """Hold queues back until `resume`."""
        self._core.pause(queues, is_paused=True)

    def resume(self, queues: Iterable[TopicQueue]) -> None:
        """Let paused queues go on."""
        self._core.pause(queues, is_paused=False)
        self._driver.kick_if_due()

    def close(self, *, is_commit: bool = True) -> None:
        """Commit the positions where that is automatic, and end at once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if is_commit:
                self._pool.run(self._plans.commit_if_due(is_last=True))
        finally:
            self._core.close()
            # What is under way may be held by the broker for long.
            self._pool.abort()
            self._driver.stop()


class AsyncLitePullConsumer:
    """Reads assigned queues by position, on one event loop; see LitePullConsumer."""

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
        self._plans = LitePullPlans(checked, calls, self._core, patience)
        self._driver = TaskDriver(self._core, self._pool)
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
        await self.close(is_commit=error is None)

    async def fetch_queues(self, topic: str) -> list[TopicQueue]:
        """Return the queues of a topic; raise UnknownTopic."""
        return await self._pool.run(self._plans.queues(topic))

    async def assign(self, queues: Iterable[TopicQueue]) -> None:
        """Replace the assignment; an added queue starts at the committed offset, else the first."""
        await self._pool.run(self._plans.assign(queues))
        self._driver.kick()

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
            ready = asyncio.Event()
            messages = self._core.poll(limit, ready.set)
            self._driver.kick()
            if messages:
                return messages
            try:
                async with asyncio.timeout(max(0.0, deadline_s - self._clock.steady_s())):
                    await ready.wait()
            except TimeoutError:
                return []

    async def seek(self, queue: TopicQueue, offset: int) -> None:
        """Go on at another offset of an assigned queue."""
        self._core.seek(queue, offset)
        self._driver.kick()

    async def seek_to_begin(self, queue: TopicQueue) -> None:
        """Go on at the first offset the queue has."""
        await self._pool.run(self._plans.seek_to_begin(queue))
        self._driver.kick()

    async def seek_to_end(self, queue: TopicQueue) -> None:
        """Go on behind the last message the queue has."""
        await self._pool.run(self._plans.seek_to_end(queue))
        self._driver.kick()

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
            self._core.close()
            await self._driver.stop(is_abort=True)
            await self._pool.close()
