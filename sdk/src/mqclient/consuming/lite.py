"""The lite pull consumer for threads: a face of the core and its plans."""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.consuming.interceptors import tell_received
from mqclient.consuming.lite_core import LitePullCore
from mqclient.consuming.lite_plans import LitePullPlans
from mqclient.consuming.polledwork import polled_work
from mqclient.consuming.settings import LitePullSettings
from mqclient.consuming.subscriptions import subscriptions_of
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.blocking import Pool
from mqclient.transport.threads import ThreadDriver
from mqclient.values import Filter, TopicQueue
from mqclient.wire.records import Message

# A heartbeat, and one that overtakes it.
_HEARTBEATS_MAX = 2

OnQueues = Callable[[list[TopicQueue]], None]


def _ignore(_queues: list[TopicQueue]) -> None:
    return


class LitePullConsumer:
    """Reads queues by position, reading ahead in the background.

    Its caller assigns the queues, or subscribes and lets the broker share them out among the
    members of the group; a consumer does one or the other. Settings are those of LitePullSettings,
    by name. A position is where `poll` goes on; a poll says that everything returned before is
    done, and so may be committed by it. A subscribed member moves its group forward only.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by LitePullSettings, field by field.
    ) -> None:
        self._clock = clock or SystemClock()
        checked = LitePullSettings(**settings)
        endpoint = Endpoint.of(server, token)
        calls = Calls(endpoint)
        self._pool = Pool(endpoint, clock=self._clock)
        # What is under way at the end is cut off; leaving is not.
        self._gate = Pool(endpoint, clock=self._clock)
        self._core = LitePullCore(checked, calls, clock=self._clock)
        patience = Patience(clock=self._clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self._work = polled_work(checked, endpoint, clock=self._clock)
        self._plans = LitePullPlans(checked, calls, self._core, patience, self._work)
        self._driver = ThreadDriver(
            self._core,
            self._pool,
            threads_max=checked.in_flight_max + _HEARTBEATS_MAX,
            clock=self._clock,
            name="mqclient-pull",
        )
        self._on_assigned: OnQueues = _ignore
        self._on_revoked: OnQueues = _ignore
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error nobody knows whether the last messages were dealt with.
        if error is not None:
            self._work.failed(type(error).__name__)
        self.close(is_commit=error is None)

    def fetch_queues(self, topic: str) -> list[TopicQueue]:
        """Return the queues of a topic; raise UnknownTopic."""
        return self._pool.run(self._plans.queues(topic))

    def assign(self, queues: Iterable[TopicQueue]) -> None:
        """Replace the assignment; an added queue starts at the committed offset, else the first."""
        self._pool.run(self._plans.assign(queues))
        self._driver.kick_if_due()

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        subscriptions: Mapping[str, Filter] | None = None,
        on_assigned: OnQueues = _ignore,
        on_revoked: OnQueues = _ignore,
    ) -> None:
        """Join the group and read what the broker assigns; again with other topics to change them.

        `topics` are read whole, `subscriptions` are filters by topic: tags, or `Sql("...")`. `poll`
        calls back, in its thread: `on_revoked` before a lost queue is forgotten, when `commit` and
        `position` still know it, and `on_assigned` when a new one is here and `seek` may be used.
        Raise MqError when the broker refuses; nothing is subscribed then.
        """
        wanted = subscriptions_of(topics, subscriptions or {})
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._pool.run(self._plans.join(wanted))
        self._driver.kick_if_due()

    def unsubscribe(self) -> None:
        """Commit where that is automatic, leave the group, and read nothing more."""
        if self._core.is_subscribed:
            self._pool.run(self._plans.commit_if_due(is_last=True))
            self._core.unsubscribe()
            self._pool.run(self._plans.leave())

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the assigned queues."""
        return self._core.assignment()

    def poll(self, timeout_s: float = 5.0, *, messages_max: int | None = None) -> list[Message]:
        """Return messages of one queue, in order; empty when none came in time. Raise MqError."""
        self._pool.run(self._plans.commit_if_due())
        limit = messages_max or self._core.settings.poll_messages_max
        deadline_s = self._clock.steady_s() + timeout_s
        while True:
            self._follow()
            ready = threading.Event()
            messages = self._core.poll(limit, ready.set)
            self._driver.kick_if_due()
            tell_received(self._core.settings.interceptors, messages)
            self._work.given(messages)
            if messages or not ready.wait(max(0.0, deadline_s - self._clock.steady_s())):
                return messages

    def seek(self, queue: TopicQueue, offset: int) -> None:
        """Go on at another offset of an assigned queue."""
        self._plans.seek(queue, offset)
        self._driver.kick_if_due()

    def seek_to_begin(self, queue: TopicQueue) -> None:
        """Go on at the first offset the queue has."""
        self._pool.run(self._plans.seek_to_begin(queue))
        self._driver.kick_if_due()

    def seek_to_end(self, queue: TopicQueue) -> None:
        """Go on behind the last message the queue has."""
        self._pool.run(self._plans.seek_to_end(queue))
        self._driver.kick_if_due()

    def offset_for_time(self, queue: TopicQueue, time: datetime | int) -> int:
        """Return the offset of the first message stored at or after a time; the end without one.

        `time` has a time zone, or is in milliseconds since 1970 UTC.
        """
        return self._pool.run(self._plans.offset_for_time(queue, time))

    def position(self, queue: TopicQueue) -> int:
        """Return the offset where `poll` goes on."""
        return self._core.position(queue)

    def committed(self, queue: TopicQueue) -> int | None:
        """Return the offset the group has committed, None without one."""
        return self._pool.run(self._plans.committed()).get(queue)

    def commit(self) -> None:
        """Commit the positions: what was returned by `poll` is done. Raise MqError."""
        self._pool.run(self._plans.commit())

    def pause(self, queues: Iterable[TopicQueue]) -> None:
        """Hold queues back until `resume`."""
        self._core.pause(queues, is_paused=True)

    def resume(self, queues: Iterable[TopicQueue]) -> None:
        """Let paused queues go on."""
        self._core.pause(queues, is_paused=False)
        self._driver.kick_if_due()

    def close(self, *, is_commit: bool = True) -> None:
        """Commit the positions where that is automatic, and end at once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if is_commit:
                self._pool.run(self._plans.commit_if_due(is_last=True))
        finally:
            is_subscribed = self._core.is_subscribed
            self._core.close()
            # What is under way may be held by the broker for long.
            self._pool.abort()
            if is_subscribed:
                self._gate.run(self._plans.leave())
            self._gate.close()
            self._driver.stop()
            self._work.close()

    def _follow(self) -> None:
        """Give up and take over what the broker has assigned otherwise since the last poll."""
        if lost := self._core.lost():
            self._on_revoked(lost)
            self._pool.run(self._plans.give_up(lost))
        if gained := self._core.gained():
            self._pool.run(self._plans.take_over(gained))
            self._on_assigned(gained)
