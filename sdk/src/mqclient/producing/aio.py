"""The producer for asyncio. Knows the core, the task driver and the caller's patience."""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.errors import BufferFull
from mqclient.producing.core import ProducerCore
from mqclient.producing.drafting import Drafting, outgoing
from mqclient.producing.parcels import Parcel, SendFuture, settled
from mqclient.producing.recalls import deliver_now, recall
from mqclient.producing.settings import ProducerSettings
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.aio import AsyncPool
from mqclient.transport.lane_aio import AsyncLanePool
from mqclient.transport.tasks import TaskDriver
from mqclient.values import AckMode, OutgoingMessage, Recalled, SendResult


class AsyncProducer:
    """Sends messages from the tasks of one event loop.

    Settings are those of ProducerSettings, by name. Use it as a context manager, or `close` it:
    what is still in the buffer at the process's end is lost.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **settings: Any,  # Checked by ProducerSettings, field by field.
    ) -> None:
        self._settings = ProducerSettings(**settings)
        self._clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        pool = AsyncLanePool if self._settings.lane else AsyncPool
        self._pool = pool(endpoint, clock=self._clock, idle_max=self._settings.in_flight_max)
        self._calls = Calls(endpoint)
        self._core = ProducerCore(
            self._settings, self._calls, clock=self._clock, rng=rng or random.Random()
        )
        self._patience = Patience(
            clock=self._clock, backoff=Backoff(), timeout_s=self._settings.timeout_s
        )
        self._drafting = Drafting(self._settings, clock=self._clock, lock=self._core.lock)
        self._driver = TaskDriver(self._core, self._pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        delay_ms: int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> SendResult:
        """Send one message and await its acknowledgement; raise MqError.

        Tasks that send in the same turn of the loop share a batch. A cancelled task's message
        may be stored all the same.
        """
        parcel = self._drafting.draft(
            topic, body, tag, keys, properties, sharding_key,
            queue, priority, delay_level, delay_ms, deliver_at,
        )  # fmt: skip
        await self._put(parcel, is_urgent=True)
        await settled(parcel)
        return parcel.result()

    async def send_async(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        delay_ms: int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> SendFuture:
        """Put one message into the buffer; await the future for its result.

        Waits while the buffer is full; raise BufferFull when it stays so for `buffer_timeout_s`.
        """
        parcel = self._drafting.draft(
            topic, body, tag, keys, properties, sharding_key,
            queue, priority, delay_level, delay_ms, deliver_at,
        )  # fmt: skip
        await self._put(parcel)
        return SendFuture(parcel)

    async def send_message(self, message: OutgoingMessage) -> SendFuture:
        """Put a message into the buffer, as `send_async` does."""
        parcel = self._drafting.parcel(message)
        await self._put(parcel)
        return SendFuture(parcel)

    async def send_oneway(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        delay_ms: int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> None:
        """Put one message into the buffer; it is tried once, and a loss is only logged."""
        message = outgoing(
            topic, body, tag=tag, keys=keys, properties=properties, sharding_key=sharding_key,
            queue=queue, priority=priority, delay_level=delay_level, delay_ms=delay_ms,
            deliver_at=deliver_at,
        )  # fmt: skip
        await self._put(self._drafting.parcel(message, AckMode.ONEWAY))

    async def send_many(
        self,
        topic: str,
        bodies: Iterable[bytes | str],
        *,
        tag: str | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        delay_ms: int | None = None,
        deliver_at: datetime | int | None = None,
    ) -> list[SendResult]:
        """Send messages that differ in the body only, in whole batches; await all of them.

        Results are in the order of the bodies. The first error is raised when all are settled.
        """
        message = outgoing(
            topic, b"", tag=tag, sharding_key=sharding_key, queue=queue, priority=priority,
            delay_level=delay_level, delay_ms=delay_ms, deliver_at=deliver_at,
        )  # fmt: skip
        parcels = []
        under_way = self._settings.in_flight_max
        for parcel in self._drafting.parcels(bodies, message):
            parcels.append(parcel)
            await self._put(parcel, is_urgent=True)
            # In the buffer a batch's time would run out, so few wait there.
            if len(parcels) > 2 * under_way:
                await settled(parcels[-2 * under_way])
        for parcel in parcels:
            await settled(parcel)
        return [result for parcel in parcels for result in parcel.results()]

    async def recall(self, handle: str) -> Recalled:
        """Take a delayed message back; raise MqError where the broker does not answer.

        CANCELLED is for good, DELIVERED is too late, UNKNOWN is a handle the broker does not know.
        """
        return await self._pool.run(recall(self._calls, handle, self._patience))

    async def deliver_now(self, handle: str) -> Recalled:
        """Have a delayed message delivered before its time; DELIVERED when it is in its queue.

        CANCELLED and UNKNOWN change nothing. Raise MqError where the broker does not answer.
        """
        return await self._pool.run(deliver_now(self._calls, handle, self._patience))

    async def flush(self) -> None:
        """Send what is in the buffer and await it."""
        outstanding = self._core.outstanding()
        self._core.hurry()
        self._driver.kick()
        for parcel in outstanding:
            await settled(parcel)

    async def close(self) -> None:
        """Send what is in the buffer, for at most the time-out of each message, and end."""
        self._core.close()
        await self.flush()
        await self._driver.stop()
        await self._pool.close()

    async def _put(self, parcel: Parcel, *, is_urgent: bool = False) -> None:
        if not self._core.put(parcel, is_urgent=is_urgent):
            await self._put_when_room(parcel, is_urgent=is_urgent)
        self._driver.kick()

    async def _put_when_room(self, parcel: Parcel, *, is_urgent: bool) -> None:
        wait_s = self._settings.buffer_timeout_s
        room = asyncio.Event()
        try:
            async with asyncio.timeout(wait_s):
                while not self._core.put(parcel, is_urgent=is_urgent, when_room=room.set):
                    self._core.hurry()
                    self._driver.kick()
                    await room.wait()
                    room.clear()
        except TimeoutError as error:
            raise BufferFull(f"the buffer had no room for {wait_s} s") from error
