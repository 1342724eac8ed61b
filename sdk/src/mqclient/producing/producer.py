"""The producer for threads. Knows the core, the thread driver and the caller's patience."""

import os
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.errors import BufferFull, Closed
from mqclient.producing.core import ProducerCore
from mqclient.producing.drafting import Drafting, outgoing
from mqclient.producing.parcels import Parcel, SendFuture, wait_for
from mqclient.producing.recalls import deliver_now, recall
from mqclient.producing.settings import ProducerSettings
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.blocking import Pool
from mqclient.transport.lane import LanePool
from mqclient.transport.threads import ThreadDriver
from mqclient.values import AckMode, OutgoingMessage, Recalled, SendResult


class Producer:
    """Sends messages from any number of threads.

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
        in_flight_max = self._settings.in_flight_max
        pool = LanePool if self._settings.lane else Pool
        self._pool = pool(endpoint, clock=self._clock, idle_max=in_flight_max)
        self._calls = Calls(endpoint)
        self._core = ProducerCore(
            self._settings, self._calls, clock=self._clock, rng=rng or random.Random()
        )
        self._patience = Patience(
            clock=self._clock, backoff=Backoff(), timeout_s=self._settings.timeout_s
        )
        self._drafting = Drafting(self._settings, clock=self._clock, lock=self._core.lock)
        self._driver = ThreadDriver(
            self._core,
            self._pool,
            threads_max=in_flight_max,
            clock=self._clock,
            name="mqclient-producer",
        )
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send(
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
        """Send one message and wait until it is acknowledged; raise MqError.

        Messages of one `sharding_key` share a queue; `queue` names one. `priority` is for topics of
        that type, from 0, the lowest, on; the topic's highest is what all above count as.
        `delay_level`, `delay_ms` or `deliver_at`, a time with a zone or in milliseconds since 1970
        UTC, has it delivered later. An error's `outcome` says whether the message may be stored
        all the same.
        """
        parcel = self._drafting.draft(
            topic, body, tag, keys, properties, sharding_key,
            queue, priority, delay_level, delay_ms, deliver_at,
        )  # fmt: skip
        # The caller waits anyway, so it carries the message itself unless another thread does.
        job = self._core.put_alone(parcel) if self._pid == os.getpid() else None
        if job is None:
            self._put(parcel, is_urgent=True)
        else:
            self._driver.carry_out(job)
        while not parcel.is_done and self._driver.run_one():
            pass
        if self._core.has_more:
            self._driver.kick_if_due()
        wait_for(parcel, None)
        return parcel.result()

    def send_async(
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
        """Put one message into the buffer; the future has its result.

        Waits while the buffer is full; raise BufferFull when it stays so for `buffer_timeout_s`.
        """
        parcel = self._drafting.draft(
            topic, body, tag, keys, properties, sharding_key,
            queue, priority, delay_level, delay_ms, deliver_at,
        )  # fmt: skip
        self._put(parcel)
        if self._core.has_news:
            self._wake()
        return SendFuture(parcel)

    def send_message(self, message: OutgoingMessage) -> SendFuture:
        """Put a message into the buffer, as `send_async` does."""
        parcel = self._drafting.parcel(message)
        self._put(parcel)
        self._wake()
        return SendFuture(parcel)

    def send_oneway(
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
        self._put(self._drafting.parcel(message, AckMode.ONEWAY))
        self._wake()

    def send_many(
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
        """Send messages that differ in the body only, in whole batches; wait for all of them.

        Results are in the order of the bodies. The first error is raised when all are settled.
        """
        message = outgoing(
            topic, b"", tag=tag, sharding_key=sharding_key, queue=queue, priority=priority,
            delay_level=delay_level, delay_ms=delay_ms, deliver_at=deliver_at,
        )  # fmt: skip
        parcels = []
        # The caller waits anyway, so it carries the batches itself, several under way at once.
        # The next one is packed when one of them may go: in the buffer its time would run out.
        carrier = self._driver.carrier()
        for parcel in self._drafting.parcels(bodies, message):
            parcels.append(parcel)
            self._put(parcel, is_urgent=True)
            while not carrier.begin() and carrier.finish():
                pass
        while carrier.begin() or carrier.finish():
            pass
        self._driver.kick_if_due()
        for parcel in parcels:
            wait_for(parcel, None)
        return [result for parcel in parcels for result in parcel.results()]

    def recall(self, handle: str) -> Recalled:
        """Take a delayed message back; raise MqError where the broker does not answer.

        CANCELLED is for good, DELIVERED is too late, UNKNOWN is a handle the broker does not know.
        """
        return self._pool.run(recall(self._calls, handle, self._patience))

    def deliver_now(self, handle: str) -> Recalled:
        """Have a delayed message delivered before its time; DELIVERED when it is in its queue.

        CANCELLED and UNKNOWN change nothing. Raise MqError where the broker does not answer.
        """
        return self._pool.run(deliver_now(self._calls, handle, self._patience))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is in the buffer and wait for it; return False when the time is over first."""
        deadline_s = None if timeout_s is None else self._clock.steady_s() + timeout_s
        outstanding = self._core.outstanding()
        self._core.hurry()
        self._driver.kick_if_due()
        for parcel in outstanding:
            left_s = None if deadline_s is None else max(0.0, deadline_s - self._clock.steady_s())
            if not wait_for(parcel, left_s):
                return False
        return True

    def close(self) -> None:
        """Send what is in the buffer, for at most the time-out of each message, and end."""
        self._core.close()
        if self._pid == os.getpid():
            self.flush()
            self._driver.stop()
        self._pool.close()

    def _wake(self) -> None:
        if self._core.take_news():
            self._driver.kick()

    def _put(self, parcel: Parcel, *, is_urgent: bool = False) -> None:
        if self._pid != os.getpid():
            raise Closed("the producer belongs to the process that made it; make one after a fork")
        if not self._core.put(parcel, is_urgent=is_urgent):
            self._put_when_room(parcel, is_urgent=is_urgent)

    def _put_when_room(self, parcel: Parcel, *, is_urgent: bool) -> None:
        wait_s = self._settings.buffer_timeout_s
        deadline_s = self._clock.steady_s() + wait_s
        room = threading.Event()
        while not self._core.put(parcel, is_urgent=is_urgent, when_room=room.set):
            self._core.hurry()
            self._driver.kick_if_due()
            if not room.wait(max(0.0, deadline_s - self._clock.steady_s())):
                raise BufferFull(f"the buffer had no room for {wait_s} s")
            room.clear()
