"""The simple consumer, for threads and for asyncio: two faces of the same plans."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.openwork import OpenWork
from mqclient.consuming.settings import SimpleConsumerSettings
from mqclient.consuming.simple_plans import SimplePlans
from mqclient.consuming.tracer import Tracer
from mqclient.consuming.traces import Mode, Teller
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.aio import AsyncPool
from mqclient.transport.blocking import Pool
from mqclient.values import Filter
from mqclient.wire.records import Message


class _Parts:
    """What both faces are made of: plans, and where their work is told."""

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        topics: str | Iterable[str],
        group: str,
        settings: dict[str, Any],  # Checked by SimpleConsumerSettings, field by field.
    ) -> None:
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        checked = SimpleConsumerSettings(group=group, topics=names, **settings)
        self._tracer: Tracer | None = None
        self._work: OpenWork | None = None
        if checked.trace:
            mode = Mode.ORDERED if checked.ordered else Mode.CONCURRENT
            teller = Teller(group=group, client_id=checked.client_id, mode=mode)
            self._tracer = Tracer(endpoint, teller, clock=clock)
            self._work = OpenWork(self._tracer.tell, clock=clock)
        patience = Patience(clock=clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self.plans = SimplePlans(checked, Calls(endpoint), patience, self._work)

    @property
    def has_trace(self) -> bool:
        """Tell whether closing takes time."""
        return self._tracer is not None

    def close(self) -> None:
        """Tell what is left to tell."""
        if self._work is not None and self._tracer is not None:
            self._work.close()
            self._tracer.close()


class SimpleConsumer:
    """Receives messages for a while and settles each. Any number of threads may use it.

    A message neither acknowledged nor extended in its time goes to the next receiver. Settings
    are those of SimpleConsumerSettings, by name. As an iterator it yields message after message
    and never ends; what it has received ahead is given back on `close`.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        group: str,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by SimpleConsumerSettings, field by field.
    ) -> None:
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = Pool(endpoint, clock=clock)
        self._parts = _Parts(endpoint, clock, topics, group, settings)
        self._plans = self._parts.plans
        self._ahead: deque[Message] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while True:
            while self._ahead:
                message = self._ahead.popleft()
                self._plans.given((message,))
                yield message
            self._ahead.extend(self._pool.run(self._plans.receive()))

    def receive(
        self,
        messages_max: int | None = None,
        *,
        wait_ms: int | None = None,
        invisible_ms: int | None = None,
        filter_text: Filter | None = None,
    ) -> list[Message]:
        """Take messages, waiting up to `wait_ms` for the first; empty when none came.

        They are this receiver's for `invisible_ms`. `filter_text` is tags, or `Sql("...")`.
        Raise MqError.
        """
        messages = self._pool.run(
            self._plans.receive(
                messages_max=messages_max,
                wait_ms=wait_ms,
                invisible_ms=invisible_ms,
                filter_text=filter_text,
            )
        )
        self._plans.given(messages, invisible_ms)
        return messages

    def ack(self, messages: Message | Iterable[Message]) -> None:
        """Settle messages for good; raise HandleExpired when the time of some was over."""
        self._pool.run(self._plans.ack(messages))

    def nack(
        self,
        messages: Message | Iterable[Message],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
    ) -> None:
        """Give messages back as failed, to be received again later; raise HandleExpired.

        They come after `delay_ms`, 0 is at once, or that of a delay level, else when the group's
        retry policy says. After the group's last try, and with level -1, they are dead letters.
        """
        self._pool.run(
            self._plans.nack(messages, delay_ms=delay_ms, delay_level=delay_level, reason=reason)
        )

    def extend(self, messages: Message | Iterable[Message], *, invisible_ms: int) -> None:
        """Keep messages for `invisible_ms` from here on; raise HandleExpired."""
        self._pool.run(self._plans.extend(messages, invisible_ms=invisible_ms))

    def close(self) -> None:
        """Give back what was received ahead, and end."""
        ahead, self._ahead = list(self._ahead), deque()
        try:
            if ahead:
                self.nack(ahead, delay_ms=0, reason="the consumer was closed")
        finally:
            self._parts.close()
            self._pool.close()


class AsyncSimpleConsumer:
    """Receives messages for a while and settles each, on one event loop; see SimpleConsumer."""

    def __init__(
        self,
        topics: str | Iterable[str],
        group: str,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by SimpleConsumerSettings, field by field.
    ) -> None:
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = AsyncPool(endpoint, clock=clock)
        self._parts = _Parts(endpoint, clock, topics, group, settings)
        self._plans = self._parts.plans
        self._ahead: deque[Message] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            while self._ahead:
                message = self._ahead.popleft()
                self._plans.given((message,))
                yield message
            self._ahead.extend(await self._pool.run(self._plans.receive()))

    async def receive(
        self,
        messages_max: int | None = None,
        *,
        wait_ms: int | None = None,
        invisible_ms: int | None = None,
        filter_text: Filter | None = None,
    ) -> list[Message]:
        """Take messages, waiting up to `wait_ms` for the first; empty when none came.

        They are this receiver's for `invisible_ms`. `filter_text` is tags, or `Sql("...")`.
        Raise MqError.
        """
        messages = await self._pool.run(
            self._plans.receive(
                messages_max=messages_max,
                wait_ms=wait_ms,
                invisible_ms=invisible_ms,
                filter_text=filter_text,
            )
        )
        self._plans.given(messages, invisible_ms)
        return messages

    async def ack(self, messages: Message | Iterable[Message]) -> None:
        """Settle messages for good; raise HandleExpired when the time of some was over."""
        await self._pool.run(self._plans.ack(messages))

    async def nack(
        self,
        messages: Message | Iterable[Message],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
    ) -> None:
        """Give messages back as failed, to be received again later; raise HandleExpired.

        They come after `delay_ms`, 0 is at once, or that of a delay level, else when the group's
        retry policy says. After the group's last try, and with level -1, they are dead letters.
        """
        await self._pool.run(
            self._plans.nack(messages, delay_ms=delay_ms, delay_level=delay_level, reason=reason)
        )

    async def extend(self, messages: Message | Iterable[Message], *, invisible_ms: int) -> None:
        """Keep messages for `invisible_ms` from here on; raise HandleExpired."""
        await self._pool.run(self._plans.extend(messages, invisible_ms=invisible_ms))

    async def close(self) -> None:
        """Give back what was received ahead, and end."""
        ahead, self._ahead = list(self._ahead), deque()
        try:
            if ahead:
                await self.nack(ahead, delay_ms=0, reason="the consumer was closed")
        finally:
            if self._parts.has_trace:
                await asyncio.to_thread(self._parts.close)
            await self._pool.close()
