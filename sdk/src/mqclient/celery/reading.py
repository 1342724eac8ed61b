"""Reads the broadcasts of one exchange, by long pulls in a thread of its own.

Knows pulls and private queues; no groups, leases or kombu. A reader has its place in memory only.
"""

import copy
import logging
import threading
from collections.abc import Callable

from mqclient.celery.client import PULL_BYTES_MAX, Client
from mqclient.celery.messages import Document, Unreadable, unpacked
from mqclient.celery.news import News
from mqclient.celery.outages import Outage
from mqclient.celery.private import Copy, PrivateQueue
from mqclient.errors import MqError, UnknownTopic
from mqclient.protocol.calls import Call
from mqclient.transport.blocking import Pool
from mqclient.wire.batches import Pulled
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

_PULL_MESSAGES_MAX = 256
_INBOX_MAX = 1_024
_JOIN_S = 1.0


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
