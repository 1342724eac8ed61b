"""kombu's channel: AMQP's methods as kombu calls them. Translates to the parts of its link.

Knows kombu's signatures; decides only whether a queue is a lane or private.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from amqp.exceptions import NotFound, PreconditionFailed
from amqp.protocol import queue_declare_ok_t
from kombu.transport import base
from kombu.utils.uuid import uuid

from mqclient.celery.broadcasts import Copy, PrivateQueue
from mqclient.celery.deliveries import Consumer, Deliveries, Delivery, Item
from mqclient.celery.holding import Held
from mqclient.celery.link import Declared, Link
from mqclient.celery.messages import Document, Message, prepared
from mqclient.celery.receiving import Fetcher
from mqclient.celery.routing import EXCHANGE_TYPES, FANOUT, ExchangeKind
from mqclient.errors import Closed, UnknownTopic, Unsupported

logger = logging.getLogger("mqclient")

# A lane for one consumer's answers, when nobody says how long it lives.
_TEMPORARY_LANE_MS = 3_600_000

_EXCHANGE_DECLARE = (40, 10)
_QUEUE_DECLARE = (50, 10)
_QUEUE_DELETE = (50, 40)
_BASIC_GET = (60, 70)

# kombu's arguments, and what comes with them in future versions, have any type.
Arguments = dict[str, Any]


class Channel(base.StdChannel):
    """A stream of consumers with one prefetch limit, on a connection."""

    def __init__(self, link: Link) -> None:
        """Open the channel; nothing is asked of the broker."""
        self.connection: Link | None = link
        self.channel_id = next(link.channel_ids)
        # kombu registers for returned messages here; none is ever returned.
        self.events: defaultdict[str, set[Callable[..., Any]]] = defaultdict(set)
        # Beyond `close`: an acknowledgement may come late, from any thread.
        self._news = link.news
        self._settler = link.settler
        self._broadcasts = link.broadcasts
        self._deliveries = Deliveries(link.tags, ahead_max=link.options.receive_max)
        self._fetcher = Fetcher(
            link.requests,
            link.lanes,
            self._deliveries,
            link.settler,
            client_id=link.client_id,
            news=link.news,
            on_failure=link.news.fail,
        )
        link.channels.append(self)

    # --- exchanges -----------------------------------------------------------------------------

    def exchange_declare(
        self,
        exchange: str | None = None,
        type: str | None = None,  # noqa: A002
        durable: bool = False,
        passive: bool = False,
        **_more: Any,
    ) -> None:
        """Remember an exchange; raise NotFound for an unknown passive one, or PreconditionFailed.

        Only its bindings are stored: an exchange without them has nothing to tell others.
        """
        link = self._link()
        name, kind = exchange or f"amq.{type or 'direct'}", ExchangeKind(type or "direct", durable)
        if passive:
            if name not in link.kinds and name not in link.bindings.look().kinds:
                raise NotFound(f"NOT_FOUND - no exchange {name!r}", _EXCHANGE_DECLARE)
            return
        if kind.type not in EXCHANGE_TYPES:
            raise Unsupported(f"exchanges are direct, topic or fanout, not {kind.type!r}")
        before = link.kinds.setdefault(name, kind)
        if before != kind:
            raise PreconditionFailed(
                f"PRECONDITION_FAILED - exchange {name!r} was declared as {before}, not {kind}",
                _EXCHANGE_DECLARE,
            )

    def exchange_delete(self, exchange: str, **_more: Any) -> None:
        """Forget an exchange with all its bindings."""
        link = self._link()
        link.kinds.pop(exchange, None)
        if exchange in link.bindings.look().kinds:
            link.bindings.forget_exchange(exchange)

    def exchange_bind(self, *_arguments: Any, **_more: Any) -> None:
        """Raise NotImplementedError: exchanges are not bound to each other."""
        raise NotImplementedError("mqweb:// binds queues to exchanges, not exchanges")

    exchange_unbind = exchange_bind

    # --- queues --------------------------------------------------------------------------------

    def prepare_queue_arguments(
        self, arguments: Arguments | None, expires: float | None = None, **_more: Any
    ) -> Arguments:
        """Return a queue's life, in seconds, under its AMQP name; nothing else is supported."""
        life = {} if expires is None else {"x-expires": int(expires * 1000)}
        return {**(arguments or {}), **life}

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        **_more: Any,
    ) -> queue_declare_ok_t:
        """Make a lane, or remember a queue that may become private; return what waits in it."""
        link = self._link()
        name = queue or f"amq.gen-{uuid()}"
        if passive:
            return queue_declare_ok_t(name, self._size(name, _QUEUE_DECLARE), 0)
        expires_ms = (arguments or {}).get("x-expires")
        link.declared[name] = Declared(
            is_durable=durable,
            is_exclusive=exclusive,
            is_auto_delete=auto_delete,
            expires_ms=None if expires_ms is None else int(expires_ms),
        )
        if exclusive or auto_delete:
            # Its bindings will say whether it is private; a lane is made when it is needed.
            waiting = link.private.get(name)
            return queue_declare_ok_t(name, 0 if waiting is None else len(waiting.inbox), 0)
        is_new = self._declare_lane(link, name)
        return queue_declare_ok_t(name, 0 if is_new else link.lanes.size(name), 0)

    def queue_bind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", **_more: Any
    ) -> None:
        """Have a queue get what is sent to an exchange from here on."""
        if not exchange:
            return
        link = self._link()
        kind = link.kind_of(exchange)
        declared = link.declared.get(queue)
        if declared is None or not declared.is_private(kind):
            self._declare_lane(link, queue)
            link.bindings.bind(exchange, kind, routing_key, queue)
            return
        if kind.type != FANOUT and kind.is_durable:
            link.bindings.mark_private(exchange, kind)
        private = link.private.setdefault(queue, PrivateQueue(queue))
        link.broadcasts.bind(private, exchange, kind, routing_key)

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", **_more: Any
    ) -> None:
        """Take a binding back."""
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            link.broadcasts.unbind(private, exchange or "", routing_key)
        elif exchange:
            link.bindings.unbind(exchange, routing_key, queue)

    def queue_purge(self, queue: str, **_more: Any) -> int:
        """Drop what waits in a queue, and return how many messages; raise NotFound."""
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            with link.news.lock:
                count = len(private.inbox)
                private.inbox.clear()
            return count
        try:
            return link.lanes.purge(queue)
        except UnknownTopic as error:
            raise NotFound(f"NOT_FOUND - no queue {queue!r}", _QUEUE_DELETE) from error

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_more: Any
    ) -> int:
        """Delete a queue, and return how many messages waited; raise PreconditionFailed.

        `if_unused` knows of the consumers of this connection only.
        """
        link = self._link()
        if if_unused and any(channel.consumes(queue) for channel in link.channels):
            raise PreconditionFailed(f"PRECONDITION_FAILED - {queue!r} is consumed", _QUEUE_DELETE)
        if if_empty and link.exists(queue) and self._size(queue, _QUEUE_DELETE):
            raise PreconditionFailed(f"PRECONDITION_FAILED - {queue!r} has messages", _QUEUE_DELETE)
        link.declared.pop(queue, None)
        private = link.private.pop(queue, None)
        if private is not None:
            count = len(private.inbox)
            link.broadcasts.end(private)
            return count
        count = link.lanes.delete(queue)
        if link.bindings.look().binds(queue):
            link.bindings.forget_queue(queue)
        return count

    def after_reply_message_received(self, queue: str) -> None:
        """Delete a queue that was made for one answer."""
        self.queue_delete(queue)

    # --- messages ------------------------------------------------------------------------------

    def prepare_message(
        self,
        body: str | bytes,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Arguments | None = None,
        properties: Arguments | None = None,
    ) -> Document:
        """Return what `basic_publish` sends."""
        return prepared(
            body,
            priority=priority,
            content_type=content_type,
            content_encoding=content_encoding,
            headers=headers,
            properties=properties,
        )

    def basic_publish(
        self,
        message: Document,
        exchange: str = "",
        routing_key: str = "",
        timeout: float | None = None,
        **_more: Any,
    ) -> None:
        """Send a message and wait until the broker has it; raise MqError."""
        self._link().publish(message, exchange or "", routing_key or "", timeout_s=timeout)

    def basic_consume(
        self,
        queue: str,
        no_ack: bool = False,
        callback: Callable[[Message], object] | None = None,
        consumer_tag: str = "",
        **_more: Any,
    ) -> str:
        """Have `callback` called with every message of a queue."""
        link = self._link()
        tag = consumer_tag or f"amq.ctag-{uuid()}"
        private = link.private.get(queue)
        if private is None:
            self._declare_lane(link, queue)
        consumer = Consumer(queue, callback or (lambda _message: None), bool(no_ack), private)
        with link.news.lock:
            self._deliveries.consumers[tag] = consumer
            if private is None:
                self._fetcher.start()
                self._fetcher.change_lanes()
            else:
                private.consumer_count += 1
        if private is not None:
            link.broadcasts.begin(private)
        return tag

    def basic_cancel(self, consumer_tag: str, **_more: Any) -> None:
        """Call back no more; what was received ahead is given back."""
        link = self.connection
        if link is None or link.is_foreign:
            return
        with link.news.lock:
            consumer, unwanted = self._deliveries.cancel(consumer_tag)
            if consumer is not None and consumer.private is None:
                self._fetcher.change_lanes()
        if unwanted:
            link.settler.give_back(unwanted)
        if consumer is not None and consumer.private is not None:
            self._leave_private(link, consumer.private)

    def basic_get(self, queue: str, no_ack: bool = False, **_more: Any) -> Message | None:
        """Return a message that is there now, None when there is none; raise NotFound."""
        link = self._link()
        item = self._taken(link, queue)
        if item is None:
            return None
        with link.news.lock:
            tag = next(link.tags) if no_ack else self._deliveries.remember(item)
        if no_ack and isinstance(item, Held):
            link.settler.ack(item)
        return self._message(item, tag)

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Settle a message for good, `multiple`: all delivered before it too."""
        for item in self._settled(delivery_tag, multiple=multiple):
            if isinstance(item, Held):
                self._settler.ack(item)

    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """Give a message back, or drop it for good."""
        items = self._settled(delivery_tag)
        if requeue:
            self._return(items)
            return
        for item in items:
            if isinstance(item, Held):
                self._settler.ack(item)

    def basic_recover(self, requeue: bool = False) -> None:
        """Give back every message that is not settled, whatever `requeue` says."""
        del requeue  # A message never stays with a consumer that asks this.
        with self._news.lock:
            items = self._deliveries.recover()
            self._fetcher.make_room()
        self._return(items)

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Limit how many messages may be unsettled; 0 is no limit. Size and scope do not count."""
        del prefetch_size, apply_global  # AMQP's other limits, which kombu leaves at their default.
        with self._news.lock:
            self._deliveries.prefetch_count = prefetch_count
            self._fetcher.make_room()
            self._news.tell()

    def flow(self, active: bool = True) -> None:
        """Raise NotImplementedError: limit the prefetch instead."""
        raise NotImplementedError("mqweb:// has no channel.flow")

    # --- what the link asks; its lock is held where said ----------------------------------------

    def consumes(self, queue: str) -> bool:
        """Tell whether a consumer of this channel reads a queue."""
        return any(one.queue == queue for one in self._deliveries.consumers.values())

    def next_delivery(self) -> Delivery | None:
        """Return the next message to deliver; the lock is held."""
        delivery = self._deliveries.next()
        if delivery is not None:
            self._fetcher.make_room()
            if isinstance(delivery.item, Copy):
                self._broadcasts.make_room(delivery.item.queue)
        return delivery

    def deliver(self, delivery: Delivery) -> None:
        """Hand a message to its consumer."""
        item = delivery.item
        if delivery.consumer.no_ack and isinstance(item, Held):
            self._settler.ack(item)
        delivery.consumer.callback(self._message(item, delivery.tag))

    def close(self) -> None:
        """Cancel every consumer and give back every unsettled message."""
        link, self.connection = self.connection, None
        if link is None or link.is_foreign:
            return
        self._fetcher.stop()
        for consumer_tag in list(self._deliveries.consumers):
            with link.news.lock:
                consumer, unwanted = self._deliveries.cancel(consumer_tag)
            link.settler.give_back(unwanted)
            if consumer is not None and consumer.private is not None:
                self._leave_private(link, consumer.private)
        self.basic_recover()
        if self in link.channels:
            link.channels.remove(self)

    def forget(self) -> None:
        """Close the copies of the sockets that a forked child has."""
        self._fetcher.forget()

    # --- within ---------------------------------------------------------------------------------

    def _link(self) -> Link:
        if self.connection is None:
            raise Closed("the channel is closed")
        self.connection.check()
        return self.connection

    def _declare_lane(self, link: Link, queue: str) -> bool:
        """Make a lane unless it is known; return whether it may be new."""
        declared = link.declared.get(queue)
        expires_ms = None if declared is None else declared.expires_ms
        if declared is not None and (declared.is_exclusive or declared.is_auto_delete):
            expires_ms = expires_ms or _TEMPORARY_LANE_MS
            if declared.is_exclusive:
                link.exclusive_lanes.add(queue)
        return link.lanes.declare(queue, expires_ms=expires_ms)

    def _size(self, queue: str, method: tuple[int, int]) -> int:
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            return len(private.inbox)
        try:
            return link.lanes.size(queue)
        except UnknownTopic as error:
            raise NotFound(f"NOT_FOUND - no queue {queue!r}", method) from error

    def _taken(self, link: Link, queue: str) -> Item | None:
        private = link.private.get(queue)
        if private is not None:
            link.broadcasts.look(private)
            with link.news.lock:
                return private.take()
        with link.news.lock:
            item = self._deliveries.take_ahead(queue)
        if item is not None:
            return item
        try:
            records = link.lanes.receive(
                queue, messages_max=1, invisible_ms=link.options.visibility_timeout_ms
            )
        except UnknownTopic as error:
            raise NotFound(f"NOT_FOUND - no queue {queue!r}", _BASIC_GET) from error
        readable = link.settler.admit((queue, record) for record in records)
        return readable[0] if readable else None

    def _message(self, item: Item, tag: int) -> Message:
        return Message(item.document, self, tag, is_redelivered=item.is_redelivered)

    def _settled(self, tag: int, *, multiple: bool = False) -> list[Item]:
        with self._news.lock:
            items = self._deliveries.settle(tag, multiple=multiple)
            self._fetcher.make_room()
            if self._deliveries.has_waiting:
                self._news.tell()
        if not items:
            # The channel was closed or recovered, and the message was given back then.
            logger.info("delivery %s is not ours any more; it is delivered again", tag)
        return items

    def _return(self, items: Iterable[Item]) -> None:
        items = list(items)
        self._settler.give_back(item for item in items if isinstance(item, Held))
        with self._news.lock:
            for item in reversed(items):
                if isinstance(item, Copy) and item.queue.consumer_count:
                    item.is_redelivered = True
                    item.queue.inbox.appendleft(item)
                    self._news.tell()

    def _leave_private(self, link: Link, private: PrivateQueue) -> None:
        with link.news.lock:
            private.consumer_count -= 1
            is_left = private.consumer_count > 0
        if not is_left:
            link.broadcasts.end(private)
