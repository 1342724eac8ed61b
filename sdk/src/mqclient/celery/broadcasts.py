"""Broadcasts: every private queue bound to an exchange gets its copy, read from one topic.

A private queue is a place in this process: it begins at the topic's end when it is bound, and
leaves nothing behind. What is sent in the very moment of binding may come or not. Knows pulls and
routing keys; no groups, leases or kombu.
"""

import copy
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mqclient.celery.client import PULL_BYTES_MAX, Client
from mqclient.celery.messages import Document, Packed, Unreadable, unpacked
from mqclient.celery.names import Names
from mqclient.celery.news import News
from mqclient.celery.outages import Outage
from mqclient.celery.routing import ExchangeKind
from mqclient.errors import MqError, UnknownTopic
from mqclient.protocol.calls import Call
from mqclient.transport.blocking import Pool
from mqclient.values import AckMode
from mqclient.wire.batches import Pulled
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

_PULL_MESSAGES_MAX = 256
_INBOX_MAX = 1_024
# What is sent to whoever happens to listen is not worth a longer stop of the sender.
_SEND_S = 3.0
_JOIN_S = 1.0


@dataclass(slots=True, eq=False)
class PrivateQueue:
    """A queue of this connection alone: its bindings, and what came by them."""

    name: str
    bindings: set[tuple[str, ExchangeKind, str]] = field(default_factory=set)
    inbox: "deque[Copy]" = field(default_factory=deque)
    consumer_count: int = 0

    def wants(self, exchange: str, routing_key: str) -> bool:
        """Tell whether a message of an exchange goes here."""
        return any(
            name == exchange and kind.routes(key, routing_key) for name, kind, key in self.bindings
        )

    def take(self) -> "Copy | None":
        """Return the oldest message, None when there is none."""
        return self.inbox.popleft() if self.inbox else None


@dataclass(slots=True, eq=False)
class Copy:
    """A private queue's copy of a broadcast."""

    document: Document
    queue: PrivateQueue
    is_redelivered: bool = False


class Reader:
    """Reads the broadcasts of one exchange for the private queues bound to it, in one thread."""

    def __init__(
        self,
        client: Client,
        exchange: str,
        topic: str,
        *,
        news: News,
        on_failure: Callable[[MqError], None],
    ) -> None:
        """Read nothing before `start`."""
        self._client = client
        self._exchange = exchange
        self._topic = topic
        self._news = news
        self._room = threading.Condition(news.lock)
        self._pool = Pool(client.endpoint, clock=client.clock)
        self._outage = Outage(client, f"broadcasts of {exchange}", on_failure=on_failure)
        # Where each queue begins.
        self._starts: dict[PrivateQueue, int] = {}
        self._position = 0
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def attach(self, queue: PrivateQueue, end_offset: int) -> None:
        """Deliver to a queue what is stored from an offset on; the lock is held."""
        if self._thread is None and not self._starts:
            self._position = end_offset
        self._starts.setdefault(queue, max(end_offset, self._position))

    def detach(self, queue: PrivateQueue) -> bool:
        """Deliver no more to a queue; return whether another is left. The lock is held."""
        self._starts.pop(queue, None)
        self._room.notify_all()
        return bool(self._starts)

    def has(self, queue: PrivateQueue) -> bool:
        """Tell whether a queue is attached; the lock is held."""
        return queue in self._starts

    def start(self) -> None:
        """Begin to read; the lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._loop, name=f"mqclient-celery-{self._exchange}", daemon=True
            )
            self._thread.start()

    def look(self) -> None:
        """Read what is there now, unless the thread does."""
        if self._thread is None:
            self._deliver(
                self._client.pull(self._topic, self._position, messages_max=_PULL_MESSAGES_MAX)
            )

    def make_room(self) -> None:
        """Take note that an inbox got emptier; the lock is held."""
        self._room.notify_all()

    def abort(self) -> None:
        """End the pull under way, and the thread with it."""
        with self._news.lock:
            self._is_stopped = True
            self._room.notify_all()
        self._outage.give_up()
        self._pool.abort()

    def join(self) -> None:
        """Wait for the thread's end after `abort`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def forget(self) -> None:
        """Close the copies of the sockets that a forked child has."""
        self._pool.forget()

    def _loop(self) -> None:
        timeout_s = (self._client.options.wait_ms / 1000) + self._client.options.timeout_s
        while self._wait_for_room():
            try:
                self._deliver(self._pool.call(self._pull(), timeout_s))
                self._outage.is_over()
            except UnknownTopic:
                self._begin_again()
            except MqError as error:
                if self._is_stopped or not self._outage.has_failed(error):
                    return

    def _pull(self) -> Call[Pulled]:
        return self._client.calls.pull(
            self._topic,
            0,
            self._position,
            messages_max=_PULL_MESSAGES_MAX,
            bytes_max=PULL_BYTES_MAX,
            wait_ms=self._client.options.wait_ms,
        )

    def _wait_for_room(self) -> bool:
        """Wait until no consumed inbox is full; return False when the reader was stopped."""
        with self._news.lock:
            while not self._is_stopped:
                full = [
                    queue
                    for queue in self._starts
                    if queue.consumer_count and len(queue.inbox) >= _INBOX_MAX
                ]
                if not full:
                    return True
                self._room.wait()
            return False

    def _deliver(self, pulled: Pulled) -> None:
        found = [
            (message.queue_offset, read)
            for message in pulled.messages
            if (read := self._read(message)) is not None
        ]
        with self._news.lock:
            self._position = pulled.next_offset
            for queue_offset, document in found:
                routing_key = document["delivery_info"]["routing_key"]
                for queue, start in self._starts.items():
                    if queue_offset >= start and queue.wants(self._exchange, routing_key):
                        # The application may change what it gets.
                        queue.inbox.append(Copy(copy.deepcopy(document), queue))
                        if len(queue.inbox) > _INBOX_MAX and not queue.consumer_count:
                            queue.inbox.popleft()
            self._news.tell()

    def _read(self, message: Message) -> Document | None:
        try:
            return unpacked(message.body)
        except Unreadable as error:
            logger.error("%r is passed over: %s", message, error)
            return None

    def _begin_again(self) -> None:
        """Make the topic that was deleted, and read on from its end."""
        try:
            self._client.run(self._client.calls.create_topic(self._topic, queue_count=1))
            self._position = self._client.end_offset(self._topic)
        except MqError as error:
            self._outage.has_failed(error)


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
