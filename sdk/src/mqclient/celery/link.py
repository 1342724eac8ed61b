"""One connection of kombu: what its channels share. Knows every part; kombu only as an owner.

It belongs to the process that made it: in a forked child it is closed, and touches nothing.
"""

import atexit
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from mqclient.celery import messages
from mqclient.celery.bindings import Bindings
from mqclient.celery.broadcasts import Broadcasts
from mqclient.celery.client import Client
from mqclient.celery.deliveries import Delivery
from mqclient.celery.lanes import Lanes
from mqclient.celery.names import Names, client_id
from mqclient.celery.news import News
from mqclient.celery.options import Options
from mqclient.celery.private import PrivateQueue
from mqclient.celery.routing import EXCHANGE_TYPES, FANOUT, ExchangeKind
from mqclient.celery.settling import Settler
from mqclient.clock import Clock
from mqclient.errors import Closed, MqError
from mqclient.protocol.endpoint import Endpoint

if TYPE_CHECKING:
    from mqclient.celery.channel import Channel

logger = logging.getLogger("mqclient")

# What is not acknowledged or given back in this time at the end is so in the background.
_FLUSH_S = 2.0
# An event loop has other things to do between so many messages.
_DELIVERIES_MAX = 64

_LINKS: "WeakSet[Link]" = WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a queue was declared as on this connection."""

    is_durable: bool
    is_exclusive: bool
    is_auto_delete: bool
    expires_ms: int | None

    def is_private(self, kind: ExchangeKind) -> bool:
        """Tell whether a queue bound to such an exchange is its consumer's own.

        One that lives as long as its consumer, and is not shared: a fan-out gives every consumer
        a copy, so there it is private even when it calls itself durable.
        """
        return self.is_exclusive or (
            self.is_auto_delete and (not self.is_durable or kind.type == FANOUT)
        )


class Link:
    """Everything one connection has: requests, lanes, bindings, broadcasts, settling, channels."""

    def __init__(
        self,
        client: Any,  # kombu's connection, which has no types.
        endpoint: Endpoint,
        options: Options,
        *,
        virtual_host: str,
        clock: Clock,
    ) -> None:
        """Connect to nothing yet."""
        self.client = client
        self.options = options
        names = Names(virtual_host)
        self.requests = Client(endpoint, options, clock=clock)
        self.news = News()
        self.settler = Settler(self.requests, on_failure=self.news.fail)
        self.lanes = Lanes(self.requests, names)
        self.bindings = Bindings(self.requests, names)
        self.broadcasts = Broadcasts(
            self.requests, names, news=self.news, on_failure=self.news.fail
        )
        self.channels: list[Channel] = []
        self.kinds = {f"amq.{type_}": ExchangeKind(type_) for type_ in EXCHANGE_TYPES}
        self.declared: dict[str, Declared] = {}
        self.private: dict[str, PrivateQueue] = {}
        self.exclusive_lanes: set[str] = set()
        self.client_id = client_id()
        self.tags = count(1)
        self.channel_ids = count(1)
        self._pid = os.getpid()
        self._turn = 0
        self._is_closed = False
        self._leave_loop: Callable[[], None] | None = None
        _LINKS.add(self)

    @property
    def is_foreign(self) -> bool:
        """Tell whether this process is a fork of the one the link belongs to."""
        return self._pid != os.getpid()

    @property
    def is_usable(self) -> bool:
        """Tell whether requests may succeed."""
        return not (self._is_closed or self.is_foreign or self.news.has_failed)

    def check(self) -> None:
        """Raise Closed when the link was closed or belongs to another process."""
        if self._is_closed or self.is_foreign:
            raise Closed("the connection was closed, or belongs to the process that forked this")

    def kind_of(self, exchange: str) -> ExchangeKind:
        """Return what an exchange was declared as, here or by whoever bound a queue to it."""
        kind = self.kinds.get(exchange) or self.bindings.look().kinds.get(exchange)
        return kind or ExchangeKind()

    def publish(
        self,
        message: messages.Document,
        exchange: str,
        routing_key: str,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message to every queue its exchange routes it to; raise MqError."""
        self.check()
        packed = messages.packed(message, exchange, routing_key)
        priority = message["properties"].get("priority")
        if not exchange:
            self.lanes.put(routing_key, packed, priority, timeout_s=timeout_s)
            return
        table = self.bindings.look()
        kind = self.kinds.get(exchange) or table.kinds.get(exchange) or ExchangeKind()
        for lane in table.lanes(exchange, kind, routing_key):
            self.lanes.put(lane, packed, priority, timeout_s=timeout_s)
        if kind.type == FANOUT or not kind.is_durable or exchange in table.private:
            self.broadcasts.send(exchange, packed)

    def drain(self, timeout_s: float | None) -> None:
        """Deliver one message, waiting for it; raise TimeoutError when none came in time."""
        self.check()
        clock = self.requests.clock
        deadline_s = None if timeout_s is None else clock.steady_s() + timeout_s
        with self.news.lock:
            while True:
                self.news.check()
                delivery = self._next_delivery()
                if delivery is not None:
                    break
                self.check()
                left_s = None if deadline_s is None else deadline_s - clock.steady_s()
                if (left_s is not None and left_s <= 0) or not self.news.wait(left_s):
                    raise TimeoutError("no message came in time")
        self._deliver(*delivery)

    def join_loop(self, loop: Any) -> None:  # kombu's hub, which has no types.
        """Have an event loop deliver messages as they come."""
        self.leave_loop()
        descriptor = self.news.open()
        loop.add_reader(descriptor, self.deliver_ready)
        self._leave_loop = lambda: loop.remove_reader(descriptor)

    def leave_loop(self) -> None:
        """Have the event loop deliver no more."""
        leave, self._leave_loop = self._leave_loop, None
        if leave is not None:
            leave()

    def deliver_ready(self) -> None:
        """Deliver what is there, up to a bound; the loop calls again until nothing is left."""
        self.news.check()
        for _ in range(_DELIVERIES_MAX):
            with self.news.lock:
                delivery = self._next_delivery()
                if delivery is None:
                    self.news.clear()
                    return
            self._deliver(*delivery)

    def close(self) -> None:
        """Give back what is not settled, send what waits to be sent, and end every thread."""
        if self._is_closed or self.is_foreign:
            return
        self._is_closed = True
        _LINKS.discard(self)
        self.leave_loop()
        for channel in list(self.channels):
            channel.close()
        self.broadcasts.close()
        self.lanes.end()
        if self.settler.flush(_FLUSH_S):
            self._delete_exclusive_lanes()
            self.requests.pool.abort()
            self.settler.stop()
        else:
            # The broker is away, and its leases are not: a next connection must not run again what
            # was acknowledged on this one.
            self.settler.go_on_alone(self.requests.pool.close)
        with self.news.lock:
            self.news.tell()
        self.news.close()

    def forget(self) -> None:
        """Close the copies of the sockets that a forked child has; nothing else is its to use."""
        self.requests.pool.forget()
        self.broadcasts.forget()
        self.news.forget()
        for channel in self.channels:
            channel.forget()

    def exists(self, queue: str) -> bool:
        """Tell whether there is such a queue, here or at the broker."""
        return queue in self.private or self.lanes.exists(queue)

    def _delete_exclusive_lanes(self) -> None:
        try:
            for lane in self.exclusive_lanes:
                self.lanes.delete(lane)
        except MqError as error:
            # They were made with a life of their own, so they end all the same.
            logger.info("an exclusive queue was not deleted: %s", error)

    def _next_delivery(self) -> "tuple[Channel, Delivery] | None":
        channels = self.channels
        # Each look begins one channel further on, so that none starves behind a busy one.
        self._turn += 1
        for number in range(len(channels)):
            channel = channels[(self._turn + number) % len(channels)]
            delivery = channel.next_delivery()
            if delivery is not None:
                return channel, delivery
        return None

    def _deliver(self, channel: "Channel", delivery: Delivery) -> None:
        channel.deliver(delivery)


def _close_all() -> None:
    for link in list(_LINKS):
        link.close()


def _forget_all() -> None:
    for link in list(_LINKS):
        link.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
