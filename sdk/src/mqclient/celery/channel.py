"""kombu's channel: what it consumes and publishes. Translates to the parts of its link.

Knows kombu's signatures; what is declared is the other half's affair.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from amqp.exceptions import NotFound
from kombu.utils.uuid import uuid

from mqclient.celery.declaring import Arguments, DeclaringChannel
from mqclient.celery.deliveries import Consumer, Deliveries, Delivery, Item
from mqclient.celery.holding import Held
from mqclient.celery.link import Link
from mqclient.celery.messages import Document, Message, prepared
from mqclient.celery.private import Copy, PrivateQueue
from mqclient.celery.receiving import Fetcher
from mqclient.errors import UnknownTopic

logger = logging.getLogger("mqclient")

_BASIC_GET = (60, 70)


class Channel(DeclaringChannel):
    """A stream of consumers with one prefetch limit, on a connection."""

    def __init__(self, link: Link) -> None:
        """Open the channel; nothing is asked of the broker."""
        super().__init__(link)
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
