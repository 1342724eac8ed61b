"""Broadcasts: every private queue bound to an exchange gets its copy, read from one topic.

A private queue begins at the topic's end when it is bound, and leaves nothing behind. What is sent
in the very moment of binding may come or not. Knows exchanges and their readers; no kombu.
"""

import logging
from collections.abc import Callable, Iterable

from mqclient.celery.client import Client
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.celery.news import News
from mqclient.celery.private import PrivateQueue
from mqclient.celery.reading import Reader
from mqclient.celery.routing import ExchangeKind
from mqclient.errors import MqError, UnknownTopic
from mqclient.values import AckMode

logger = logging.getLogger("mqclient")

# What is sent to whoever happens to listen is not worth a longer stop of the sender.
_SEND_S = 3.0


class Broadcasts:
    """Sends broadcasts, and has one reader for each exchange that private queues are bound to."""

    def __init__(
        self,
        client: Client,
        names: Names,
        *,
        news: News,
        on_failure: Callable[[MqError], None],
    ) -> None:
        """Have no reader yet."""
        self._client = client
        self._names = names
        self._news = news
        self._on_failure = on_failure
        self._readers: dict[str, Reader] = {}

    def send(self, exchange: str, message: Packed) -> None:
        """Store a broadcast for whoever listens; nobody does where there is no topic."""
        topic = self._names.broadcasts(exchange)
        try:
            self._client.put(topic, 0, message.body, ack=AckMode.ASYNC, timeout_s=_SEND_S)
        except UnknownTopic:
            logger.debug("nobody ever listened to %s", exchange)

    def bind(
        self, queue: PrivateQueue, exchange: str, kind: ExchangeKind, routing_key: str
    ) -> None:
        """Bind a private queue: it gets what is sent from here on."""
        binding = (exchange, kind, routing_key)
        if binding in queue.bindings:
            return
        end_offset = self._end_of(self._names.broadcasts(exchange))
        with self._news.lock:
            queue.bindings.add(binding)
            self._reader(exchange).attach(queue, end_offset)
            if queue.consumer_count:
                self._readers[exchange].start()

    def unbind(self, queue: PrivateQueue, exchange: str, routing_key: str) -> None:
        """Take a binding back."""
        with self._news.lock:
            queue.bindings = {
                one for one in queue.bindings if (one[0], one[2]) != (exchange, routing_key)
            }
            is_bound = any(one[0] == exchange for one in queue.bindings)
            ended = [] if is_bound else self._detach(queue, [exchange])
        _end(ended)

    def begin(self, queue: PrivateQueue) -> None:
        """Read for a private queue that has been bound; a cancelled one begins anew."""
        exchanges = {one[0] for one in queue.bindings}
        with self._news.lock:
            unread = [name for name in exchanges if not self._is_attached(queue, name)]
        for exchange in unread:
            end_offset = self._end_of(self._names.broadcasts(exchange))
            with self._news.lock:
                self._reader(exchange).attach(queue, end_offset)
        with self._news.lock:
            for exchange in exchanges:
                self._readers[exchange].start()

    def look(self, queue: PrivateQueue) -> None:
        """Read what is there now for a queue that nobody reads for."""
        for exchange in {one[0] for one in queue.bindings}:
            reader = self._readers.get(exchange)
            if reader is not None:
                reader.look()

    def end(self, queue: PrivateQueue) -> None:
        """Read no more for a private queue, and forget what came."""
        with self._news.lock:
            queue.inbox.clear()
            ended = self._detach(queue, {one[0] for one in queue.bindings})
        _end(ended)

    def make_room(self, queue: PrivateQueue) -> None:
        """Take note that a message was taken from a queue; the lock is held."""
        for exchange, _, _ in queue.bindings:
            if exchange in self._readers:
                self._readers[exchange].make_room()

    def close(self) -> None:
        """End every reader."""
        with self._news.lock:
            ended = list(self._readers.values())
            self._readers.clear()
        _end(ended)

    def forget(self) -> None:
        """Close the copies of the sockets that a forked child has."""
        for reader in self._readers.values():
            reader.forget()

    def _is_attached(self, queue: PrivateQueue, exchange: str) -> bool:
        return exchange in self._readers and self._readers[exchange].has(queue)

    def _reader(self, exchange: str) -> Reader:
        if exchange not in self._readers:
            self._readers[exchange] = Reader(
                self._client,
                exchange,
                self._names.broadcasts(exchange),
                news=self._news,
                on_failure=self._on_failure,
            )
        return self._readers[exchange]

    def _detach(self, queue: PrivateQueue, exchanges: Iterable[str]) -> list[Reader]:
        """Detach a queue; return the readers that have no queue any more. The lock is held."""
        return [
            self._readers.pop(exchange)
            for exchange in exchanges
            if self._is_attached(queue, exchange) and not self._readers[exchange].detach(queue)
        ]

    def _end_of(self, topic: str) -> int:
        try:
            return self._client.end_offset(topic)
        except UnknownTopic:
            self._client.run(self._client.calls.create_topic(topic, queue_count=1))
            return self._client.end_offset(topic)


def _end(readers: Iterable[Reader]) -> None:
    readers = list(readers)
    for reader in readers:
        reader.abort()
    for reader in readers:
        reader.join()
