"""Receives messages of a channel's lanes ahead, by long polls in a thread of its own.

Knows polls and their interruption; what happens to messages afterwards is others' affair.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from mqclient.celery.client import Client
from mqclient.celery.deliveries import Deliveries
from mqclient.celery.lanes import Lanes
from mqclient.celery.news import News
from mqclient.celery.options import TOPICS_MAX
from mqclient.celery.outages import Outage
from mqclient.celery.settling import JOIN_S, Settler
from mqclient.errors import MqError, UnknownTopic
from mqclient.transport.blocking import Pool
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# A poll that is cut off when a message comes loses it until the lease ends. So lanes where
# messages come are polled for short times, which are waited for; each empty poll doubles the next.
_SHORT_WAIT_MS = 200
# The broker ends a poll at once when it is asked to; what is in between may not pass that on.
_HANG_UP_S = 2.0
# While half of the limit is at work, waiting for more room makes fewer and fuller polls.
_GATHER_S = 0.01


@dataclass(frozen=True, slots=True)
class _Poll:
    lanes: list[str]
    messages_max: int
    wait_ms: int
    pool: Pool

    @property
    def is_long(self) -> bool:
        """Tell whether its end is not worth waiting for."""
        return self.wait_ms > _SHORT_WAIT_MS


class Fetcher:
    """Polls while there are lanes to consume and room for their messages."""

    def __init__(
        self,
        client: Client,
        lanes: Lanes,
        deliveries: Deliveries,
        settler: Settler,
        *,
        client_id: str,
        news: News,
        on_failure: Callable[[MqError], None],
    ) -> None:
        """Poll nothing before `start`."""
        self._client = client
        self._options = client.options
        self._lanes = lanes
        self._deliveries = deliveries
        self._settler = settler
        self._client_id = client_id
        self._news = news
        self._changed = threading.Condition(news.lock)
        self._outage = Outage(client, "receiving", on_failure=on_failure)
        self._pool = Pool(client.endpoint, clock=client.clock)
        self._poll: _Poll | None = None
        self._wait_ms = _SHORT_WAIT_MS
        self._turn = 0
        self._is_restored = False
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin to poll; the lock is held."""
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(
                target=self._loop, name="mqclient-celery-receiving", daemon=True
            )
            self._thread.start()

    def make_room(self) -> None:
        """Take note that there may be room for messages; the lock is held."""
        self._changed.notify_all()

    def change_lanes(self) -> None:
        """Poll the lanes that are consumed now; the lock is held."""
        self._changed.notify_all()
        if self._poll is not None and self._poll.is_long:
            self._pool.hang_up()
            abort = threading.Timer(_HANG_UP_S, self._pool.abort)
            abort.daemon = True
            abort.start()
            self._pool = Pool(self._client.endpoint, clock=self._client.clock)

    def stop(self) -> None:
        """End the poll under way and the thread; what the poll still brings is taken care of."""
        with self._news.lock:
            self._is_stopped = True
            self._changed.notify_all()
            poll = self._poll
        self._outage.give_up()
        if poll is None or poll.is_long:
            self._pool.hang_up()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_HANG_UP_S)
            self._pool.abort()
            self._thread.join(JOIN_S)

    def forget(self) -> None:
        """Close the copies of the sockets that a forked child has."""
        self._pool.forget()

    def _loop(self) -> None:
        while (poll := self._next_poll()) is not None:
            try:
                messages = self._receive(poll)
            except UnknownTopic as error:
                self._restore(poll.lanes, error)
            except MqError as error:
                if poll.pool is self._pool and not self._is_stopped:
                    self._outage.has_failed(error)
            else:
                self._outage.is_over()
                self._is_restored = False
                self._wait_ms = _SHORT_WAIT_MS if messages else 2 * poll.wait_ms
                self._hand_over(messages)
            with self._news.lock:
                self._poll = None
                self._changed.notify_all()

    def _next_poll(self) -> _Poll | None:
        with self._news.lock:
            has_gathered = False
            while not self._is_stopped:
                lanes, room = self._deliveries.lanes, self._deliveries.room
                if not lanes or not room:
                    self._changed.wait()
                elif self._deliveries.is_nearly_full and not has_gathered:
                    self._changed.wait_for(self._has_gathered, _GATHER_S)
                    has_gathered = True
                else:
                    wait_ms = min(self._wait_ms, self._options.wait_ms)
                    if len(lanes) > TOPICS_MAX:
                        lanes, wait_ms = self._lanes_in_turn(lanes), _SHORT_WAIT_MS
                    messages_max = min(room, self._options.receive_max)
                    self._poll = _Poll(lanes, messages_max, wait_ms, self._pool)
                    return self._poll
            return None

    def _has_gathered(self) -> bool:
        return self._is_stopped or not self._deliveries.is_nearly_full

    def _lanes_in_turn(self, lanes: list[str]) -> list[str]:
        start = self._turn % len(lanes)
        self._turn += TOPICS_MAX
        return (lanes[start:] + lanes[:start])[:TOPICS_MAX]

    def _receive(self, poll: _Poll) -> list[tuple[str, Message]]:
        topics = {self._lanes.topic(lane): lane for lane in poll.lanes}
        call = self._client.calls.receive(
            self._options.group,
            list(topics),
            messages_max=poll.messages_max,
            wait_ms=poll.wait_ms,
            invisible_ms=self._options.visibility_timeout_ms,
            client_id=self._client_id,
            high_queue_first=True,
        )
        received = poll.pool.call(call, poll.wait_ms / 1000 + self._options.timeout_s)
        return [(topics[message.topic], message) for message in received.messages]

    def _hand_over(self, messages: list[tuple[str, Message]]) -> None:
        readable = self._settler.admit(messages)
        with self._news.lock:
            unwanted = self._deliveries.arrive(readable)
            if len(unwanted) < len(readable):
                self._news.tell()
        if unwanted:
            self._settler.give_back(unwanted)

    def _restore(self, lanes: list[str], error: UnknownTopic) -> None:
        """Make the lanes that somebody deleted while they are consumed; once, then it fails."""
        try:
            if self._is_restored:
                raise error
            for lane in lanes:
                self._lanes.restore(lane)
            self._is_restored = True
        except MqError as failure:
            if not self._is_stopped:
                self._outage.has_failed(failure)
