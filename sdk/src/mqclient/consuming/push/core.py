"""One push consumer without sockets, threads or loops: its queues behind one lock.

Drivers of requests ask `take`, workers of listeners ask `next_delivery` and `finish`; nobody waits
in here for anything but the lock. `on_ready` is called when there is something for a listener,
`on_work` when there may be a request to make or an earlier moment to look at; both without the
lock.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from mqclient.clock import Clock
from mqclient.consuming.errands import Errand
from mqclient.consuming.interceptors import tell_begun, tell_received
from mqclient.consuming.push.listening import Consumed, Delivery
from mqclient.consuming.push.queues import Queues
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.push.tracing import DeliveryTrace
from mqclient.errors import MqError
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.work import Job
from mqclient.values import BlockedHead, MemberAnswer, TopicQueue
from mqclient.wire.batches import Pulled
from mqclient.wire.records import RETRY_PREFIX

logger = logging.getLogger("mqclient")

# Of the time a listener may take: how late it can be noticed that one takes longer.
_WATCH_PART = 1 / 10


def _nothing() -> None:
    return None


class PushCore:
    """The work of one member. Any thread may call any method."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        clock: Clock,
        kept: Mapping[TopicQueue, int] | None = None,
        trace: DeliveryTrace | None = None,
    ) -> None:
        self.settings = settings
        self.on_ready: Callable[[], None] = _nothing
        self.on_work: Callable[[], None] = _nothing
        self._clock = clock
        self._trace = trace
        self._lock = threading.Lock()
        self._queues = Queues(settings, calls, clock=clock, kept=kept or {})
        self._errands = self._queues.errands()
        self._tickets: dict[int, object] = {}
        self._running: set[Delivery] = set()
        self._when_idle: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self._is_work_new = False
        self._is_stopping = False
        self._is_closed = False
        self._watch_listeners()

    def take(self) -> Job | None:
        """Return the next request to make, None when none is due."""
        with self._change():
            if self._is_closed:
                return None
            now_s = self._clock.steady_s()
            self._queues.timers.run(now_s)
            for index, errand in enumerate(self._errands):
                moment_s = errand.next_s()
                if moment_s is not None and moment_s <= now_s:
                    call = errand.begin(now_s)
                    if call is not None:
                        return self._errand_job(index, errand, call)
            snapshot = None if self._is_stopping else self._queues.reading.next(now_s)
            return None if snapshot is None else self._pull_job(snapshot, now_s)

    def wait_s(self) -> float | None:
        """Return in how many seconds a request or a timer may be due, None for not by itself."""
        with self._lock:
            if self._is_closed:
                return None
            now_s = self._clock.steady_s()
            moments = [errand.next_s() for errand in self._errands]
            moments.append(self._queues.timers.next_s())
            if not self._is_stopping:
                moments.append(self._queues.reading.next_s(now_s))
            known = [moment for moment in moments if moment is not None]
            return max(0.0, min(known) - now_s) if known else None

    @property
    def has_ready(self) -> bool:
        """Tell whether a worker may find something to do."""
        return self._queues.dispatch.has_line and not self._is_stopping

    @property
    def failure(self) -> MqError | None:
        """Return what keeps this member from its group at the moment, None when nothing does."""
        return self._queues.membership.failure

    @property
    def is_member(self) -> bool:
        """Tell whether the broker has taken this member into its group."""
        return self._queues.membership.generation > 0

    def next_delivery(self) -> Delivery | None:
        """Take messages for a listener, to be given to `begin`; None when there are none."""
        with self._change():
            return self._next(self._clock.steady_s())

    def begin(self, delivery: Delivery) -> bool:
        """Look once more, right before the listener runs; after False it must not run."""
        with self._lock:
            now_s = self._clock.steady_s()
            may_begin = self._queues.dispatch.may_begin(delivery.snapshot, now_s)
            if may_begin and not self._is_stopping:
                delivery.started_s = now_s
                if self._trace is not None:
                    self._trace.begun(delivery)
                self._running.add(delivery)
                # Nobody is called back here: the listener must follow the look at the clock.
                return True
        self.give_back(delivery)
        return False

    def finish(self, delivery: Delivery, result: object, failure: str = "") -> Delivery | None:
        """Take what a listener said of its messages; return what its worker does next."""
        if self._trace is not None:
            self._trace.ended(delivery, result)
        with self._change():
            now_s = self._clock.steady_s()
            snapshot = delivery.snapshot
            self._running.discard(delivery)
            snapshot.is_overdue = False
            was_full = self._queues.reading.is_waiting_for_room(snapshot)
            done_count = delivery.done_count(result)
            delivery.is_untried = result is Consumed.NOT_NOW
            following = self._queues.dispatch.settle(delivery, done_count, failure, now_s)
            # Room to read on, and a moment at which a message comes again.
            self._is_work_new = was_full or done_count < len(delivery.messages)
            self._settled(snapshot)
            if self._is_stopping and following is not None:
                self._queues.dispatch.give_back(following)
                following = None
            return following or self._next(now_s)

    def give_back(self, delivery: Delivery | None) -> None:
        """Take back what a worker cannot go on with."""
        if delivery is not None:
            with self._change():
                self._queues.dispatch.give_back(delivery)
                self._settled(delivery.snapshot)

    def offer_again_in(self, seconds: float) -> None:
        """Call `on_ready` after a while, since no worker could be had."""
        with self._change():
            self._queues.timers.at(self._clock.steady_s() + seconds, _nothing)
            self._is_work_new = True

    def pause(self, *, is_paused: bool) -> None:
        """Pull nothing more, or go on; what is here already is still listened to."""
        with self._change():
            self._queues.reading.is_paused = is_paused
            self._is_work_new = True

    def revive(self, place: TopicQueue, *, is_skipping: bool) -> None:
        """Let a queue that stands still go on; raise InvalidArgument for one that does not."""
        with self._change():
            self._queues.revive(place, is_skipping=is_skipping)

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the queues of this member, but for the one in which failed messages come again."""
        with self._lock:
            return tuple(
                sorted(
                    place
                    for place in self._queues.snapshots
                    if not place.topic.startswith(RETRY_PREFIX)
                )
            )

    def blocked(self) -> list[BlockedHead]:
        """Return the queues that do not get on."""
        with self._lock:
            return self._queues.blocked()

    def positions(self) -> dict[TopicQueue, int]:
        """Return the smallest unfinished offset of each queue."""
        with self._lock:
            return self._queues.positions()

    def join(self) -> Call[MemberAnswer]:
        """Make the first heartbeat; `joined` takes its answer."""
        with self._lock:
            return self._queues.membership.begin(self._clock.steady_s())

    def joined(self, answer: MemberAnswer) -> None:
        """Take the answer to the first heartbeat."""
        with self._change():
            self._queues.membership.done(answer, None, self._clock.steady_s())
            self._is_work_new = True

    def stop(self, when_idle: Callable[[], None]) -> None:
        """Pull and begin nothing more; call back once no listener runs.

        Membership and locks are kept meanwhile: a listener that runs is still this member's.
        """
        with self._change():
            self._is_stopping = True
            self._when_idle.append(when_idle)
            self._look_whether_idle()

    def close(self) -> bool:
        """Make no more requests; return whether a listener still runs."""
        with self._lock:
            self._is_closed = True
            return bool(self._running)

    def last_words(self) -> list[list[Call[None]]]:
        """Return what is still to be committed: requests, and each again queue by queue."""
        with self._lock:
            return self._queues.last_words()

    def idle_places(self) -> list[TopicQueue]:
        """Return the queues that no listener has."""
        with self._lock:
            return [place for place, item in self._queues.snapshots.items() if not item.running]

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._lock:
            yield
            calls, self._after = self._after, []
            if self._is_work_new:
                self._is_work_new = False
                calls.append(self.on_work)
            if self.has_ready:
                calls.append(self.on_ready)
        for call in calls:
            call()

    def _next(self, now_s: float) -> Delivery | None:
        return None if self._is_stopping else self._queues.dispatch.next(now_s)

    def _settled(self, snapshot: Snapshot) -> None:
        self._queues.settled(snapshot)
        self._is_work_new = self._is_work_new or snapshot.is_dropped
        if self._is_stopping:
            self._look_whether_idle()

    def _look_whether_idle(self) -> None:
        if not self._running and self._queues.returning.is_idle(self._clock.steady_s()):
            self._after += self._when_idle
            self._when_idle = []

    def _errand_job(self, index: int, errand: Errand, call: Call[Any]) -> Job:
        ticket = self._tickets[index] = object()
        timeout_s = self.settings.timeout_s
        if errand is self._queues.locks:
            # A renewal that hangs must leave time for another while the lock is trusted.
            timeout_s = min(timeout_s, self.settings.lock_valid_s / 6)
        done = partial(self._errand_done, index, ticket)
        return Job(call, timeout_s + call.wait_ms / 1000, done)

    def _errand_done(
        self, index: int, ticket: object, answer: Any, error: MqError | None
    ) -> None:  # The answer's type is the call's.
        with self._change():
            if not self._is_closed and self._tickets[index] is ticket:
                self._errands[index].done(answer, error, self._clock.steady_s())
                if self._is_stopping:
                    self._look_whether_idle()

    def _pull_job(self, snapshot: Snapshot, now_s: float) -> Job:
        call, ticket = self._queues.reading.begin(snapshot, now_s)
        timeout_s = self.settings.timeout_s + call.wait_ms / 1000
        return Job(call, timeout_s, partial(self._pulled, snapshot, ticket))

    def _pulled(
        self, snapshot: Snapshot, ticket: object, pulled: Pulled | None, error: MqError | None
    ) -> None:
        if pulled is not None and self.settings.interceptors:
            self._show(snapshot, ticket, pulled)
        with self._change():
            now_s = self._clock.steady_s()
            if self._is_closed:
                # Cut off by this side: its failure means nothing.
                snapshot.ticket = None
            if self._queues.reading.done(snapshot, ticket, pulled, error, now_s):
                self._queues.dispatch.line_up(snapshot)

    def _show(self, snapshot: Snapshot, ticket: object, pulled: Pulled) -> None:
        """Let interceptors see what arrived; one queue has one pull at a time, so in its order."""
        with self._lock:
            if snapshot.ticket is not ticket or self._is_closed:
                return
            is_known, snapshot.is_known = snapshot.is_known, True
            messages = self._queues.reading.wanted(snapshot.place, pulled.messages)
        if not is_known:
            tell_begun(self.settings.interceptors, snapshot.place)
        tell_received(self.settings.interceptors, messages)

    def _watch_listeners(self) -> None:
        now_s = self._clock.steady_s()
        timeout_s = self.settings.consume_timeout_s
        for delivery in self._running:
            if not delivery.is_reported and now_s - delivery.started_s >= timeout_s:
                delivery.is_reported = True
                delivery.snapshot.is_overdue = True
                delivery.snapshot.blocked_reason = f"a listener runs for over {timeout_s:.0f} s"
                logger.warning(
                    "a listener runs for over %.0f s with %r", timeout_s, delivery.messages[0]
                )
        self._queues.timers.at(now_s + timeout_s * _WATCH_PART, self._watch_listeners)
