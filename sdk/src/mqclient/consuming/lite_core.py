"""What is read ahead of each assigned queue, and how far the caller is. Knows no sockets or loops.

One request is under way for a queue at a time. A seek makes what is under way worthless: its
answer is told by its ticket and dropped. A subscribed consumer learns of its queues here, and takes
them over in a poll of its caller's.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mqclient.clock import Clock
from mqclient.consuming.lite_queue import LiteQueue
from mqclient.consuming.membership import MemberIdentity, Membership
from mqclient.consuming.settings import LitePullSettings
from mqclient.consuming.subscriptions import tags_of
from mqclient.errors import Closed, InvalidArgument, MqError, StaleGeneration
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.work import Job
from mqclient.values import (
    Filter,
    MemberAnswer,
    PullStatus,
    QueueOffset,
    Reader,
    Subscription,
    TopicQueue,
)
from mqclient.wire.batches import Pulled
from mqclient.wire.filters import matching
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# With more queues than requests may be under way, a long hold of one would starve another.
_SHORT_HOLD_MS = 50
# After a refusal a repeat at once would be refused at once.
_REFUSED_PAUSE_S = 1.0
_STILL_PAUSE_S = 0.05


class LitePullCore:
    """The assignment of one consumer. Every method may be called from any thread."""

    def __init__(self, settings: LitePullSettings, calls: Calls, *, clock: Clock) -> None:
        self.settings = settings
        self._calls = calls
        self._clock = clock
        self._backoff = Backoff(first_s=0.05)
        self._subscribed: dict[str, Filter] = {}
        # Queues the broker has refused: until a heartbeat is answered, and from there on those that
        # were refused lately.
        self._refused: set[TopicQueue] = set()
        self._doubtful: set[TopicQueue] = set()
        self._heartbeat_ticket: object | None = None
        self._joining_ticket: object | None = None
        self._lock = threading.Lock()
        self._queues: dict[TopicQueue, LiteQueue] = {}
        self._in_flight_count = 0
        self._waiters: list[Callable[[], None]] = []
        self._error: MqError | None = None
        self._is_closed = False
        self._membership: Membership | None = None
        if settings.group is not None:
            identity = MemberIdentity(
                group=settings.group,
                client_id=settings.client_id,
                strategy=settings.strategy,
                site=settings.site,
                wait_ms=settings.heartbeat_wait_ms,
            )
            self._membership = Membership(
                identity, calls, clock=clock, on_assigned=lambda _places: None
            )

    @property
    def is_subscribed(self) -> bool:
        """Tell whether the broker says which queues are read."""
        return bool(self._subscribed)

    @property
    def generation(self) -> int | None:
        """Return the number of the assignment, None without a subscription."""
        return self._membership.generation if self._membership and self._subscribed else None

    def subscribe(self, subscriptions: Iterable[Subscription]) -> Call[MemberAnswer]:
        """Want these topics; return the heartbeat that says so, whose answer goes to `joined`.

        Raise InvalidArgument without a group, and where queues were assigned by hand.
        """
        with self._lock:
            if self._membership is None:
                raise InvalidArgument("a consumer without a group cannot subscribe")
            if self._queues and not self._subscribed:
                raise InvalidArgument(
                    "queues are assigned by hand; subscribe is for a new consumer"
                )
            wanted = tuple(subscriptions)
            self._subscribed = {item.topic: item.filter for item in wanted}
            self._membership.subscribe(wanted)
            self._joining_ticket = self._heartbeat_ticket = object()
            return self._membership.begin(self._clock.steady_s())

    def joined(self, answer: MemberAnswer) -> None:
        """Take the answer to the heartbeat of `subscribe`, unless a later one is under way."""
        with self._lock:
            is_newest = self._heartbeat_ticket is self._joining_ticket
            if self._membership is not None and is_newest:
                self._membership.done(answer, None, self._clock.steady_s())

    def unsubscribe(self) -> None:
        """Want nothing more and forget every queue."""
        with self._lock:
            self._subscribed = {}
            self._queues = {}
            self._refused.clear()
            self._doubtful.clear()
            self._heartbeat_ticket = None
            if self._membership is not None:
                self._membership.subscribe(())

    def lost(self) -> list[TopicQueue]:
        """Return the queues that are read here and are another's by now."""
        with self._lock:
            if self._membership is None or not self._subscribed:
                return []
            mine = self._membership.queues
            return [
                place
                for place, queue in self._queues.items()
                if queue.is_stale or place not in mine or place.topic not in self._subscribed
            ]

    def gained(self) -> list[TopicQueue]:
        """Return the queues that are this member's and not read here."""
        with self._lock:
            if self._membership is None or not self._subscribed:
                return []
            return sorted(
                place
                for place in self._membership.queues - self._queues.keys()
                # Taken over again only if the broker still says so after it has refused it.
                if place.topic in self._subscribed and place not in self._refused
            )

    def give_up(self, places: Iterable[TopicQueue]) -> None:
        """Forget queues."""
        with self._lock:
            for place in places:
                self._queues.pop(place, None)

    def take_over(self, starts: Mapping[TopicQueue, int]) -> None:
        """Read queues that are this member's still."""
        with self._lock:
            mine = self._membership.queues if self._membership is not None else frozenset()
            for place, start in starts.items():
                if place in mine and place not in self._queues:
                    queue = self._queues[place] = LiteQueue(place, start)
                    if place in self._doubtful:
                        # The assignment was older than the refusal; it may be so still.
                        queue.not_before_s = self._clock.steady_s() + _REFUSED_PAUSE_S
            self._doubtful.difference_update(starts)

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the assigned queues."""
        with self._lock:
            return tuple(self._queues)

    def assign(self, places: Iterable[TopicQueue], starts: Mapping[TopicQueue, int]) -> None:
        """Replace the assignment; queues that stay go on where they are, others at `starts`.

        Raise InvalidArgument where the broker assigns.
        """
        with self._lock:
            if self._subscribed:
                raise InvalidArgument("the consumer is subscribed; assign is for another one")
            before = self._queues
            self._queues = {
                place: before.get(place) or LiteQueue(place, starts[place]) for place in places
            }

    def take(self) -> Job | None:
        """Return the next pull to carry out, None when none is due."""
        with self._lock:
            if self._is_closed:
                return None
            now_s = self._clock.steady_s()
            beat_s = None if self._membership is None else self._membership.next_s()
            if beat_s is not None and beat_s <= now_s:
                return self._heartbeat(now_s)
            if self._in_flight_count >= self.settings.in_flight_max:
                return None
            for queue in self._queues.values():
                if self._is_hungry(queue) and queue.not_before_s <= now_s:
                    # The next look begins behind this queue, so that each gets its turn.
                    self._queues[queue.place] = self._queues.pop(queue.place)
                    return self._job(queue)
            return None

    def wait_s(self) -> float | None:
        """Return in how many seconds a pull may be due, None for not before an event."""
        with self._lock:
            if self._is_closed:
                return None
            moments = []
            if self._in_flight_count < self.settings.in_flight_max:
                moments += [
                    queue.not_before_s for queue in self._queues.values() if self._is_hungry(queue)
                ]
            beat_s = None if self._membership is None else self._membership.next_s()
            if beat_s is not None:
                moments.append(beat_s)
            if not moments:
                return None
            return max(0.0, min(moments) - self._clock.steady_s())

    def poll(self, messages_max: int, when_ready: Callable[[], None]) -> list[Message]:
        """Return messages of one queue; when there are none, call `when_ready` back later.

        Raise the error of a pull that cannot be repeated, once each time it occurs, and Closed.
        """
        with self._lock:
            if self._is_closed:
                raise Closed("the consumer is closed")
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            for queue in self._queues.values():
                if queue.chunks and not queue.is_paused and not queue.is_stale:
                    self._queues[queue.place] = self._queues.pop(queue.place)
                    return queue.hand_out(messages_max)
            self._waiters.append(when_ready)
            return []

    def seek(self, place: TopicQueue, offset: int) -> None:
        """Go on at another offset; raise InvalidArgument for a queue that is not assigned."""
        with self._lock:
            queue = self._queue(place)
            queue.move(offset)
            queue.not_before_s = 0.0

    def position(self, place: TopicQueue) -> int:
        """Return the offset of the next message `poll` may return."""
        with self._lock:
            return self._queue(place).position

    def pause(self, places: Iterable[TopicQueue], *, is_paused: bool) -> None:
        """Hold queues back from `poll` and from reading ahead, or let them go on."""
        with self._lock:
            for place in places:
                self._queue(place).is_paused = is_paused
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def uncommitted(self, places: Iterable[TopicQueue]) -> list[QueueOffset]:
        """Return the positions of queues that moved since they were committed."""
        with self._lock:
            return [
                QueueOffset(topic=place.topic, queue=place.queue, committed=queue.position)
                for place in places
                if (queue := self._queues.get(place)) and queue.position != queue.committed
            ]

    def note_committed(self, offsets: Iterable[QueueOffset]) -> None:
        """Remember what was committed."""
        with self._lock:
            for item in offsets:
                queue = self._queues.get(TopicQueue(item.topic, item.queue))
                if queue is not None:
                    queue.committed = item.committed

    def close(self) -> None:
        """Ask for nothing more; whoever polls learns it."""
        with self._lock:
            self._is_closed = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def _queue(self, place: TopicQueue) -> LiteQueue:
        queue = self._queues.get(place)
        if queue is None:
            raise InvalidArgument(f"{place} is not assigned")
        return queue

    def _is_hungry(self, queue: LiteQueue) -> bool:
        return (
            queue.ticket is None
            and not queue.is_paused
            and not queue.is_stale
            and queue.count < self.settings.cached_messages_max
            and queue.bytes < self.settings.cached_bytes_max
        )

    def _job(self, queue: LiteQueue) -> Job:
        settings = self.settings
        is_crowded = len(self._queues) > settings.in_flight_max
        call = self._calls.pull(
            queue.place.topic,
            queue.place.queue,
            queue.fetch_offset,
            messages_max=settings.pull_messages_max,
            bytes_max=settings.pull_bytes_max,
            wait_ms=min(settings.hold_ms, _SHORT_HOLD_MS) if is_crowded else settings.hold_ms,
            wanted=self._subscribed.get(queue.place.topic, settings.filter_text),
            reader=self._reader(),
        )
        ticket = queue.ticket = object()
        self._in_flight_count += 1
        timeout_s = settings.timeout_s + call.wait_ms / 1000
        return Job(call, timeout_s, partial(self._pulled, queue, ticket))

    def _reader(self) -> Reader | None:
        if self._membership is None or not self._subscribed:
            return None
        member = self._membership
        return Reader(
            group=member.identity.group,
            client_id=member.identity.client_id,
            generation=member.generation,
        )

    def _heartbeat(self, now_s: float) -> Job:
        assert self._membership is not None
        call = self._membership.begin(now_s)
        ticket = self._heartbeat_ticket = object()
        timeout_s = self.settings.timeout_s + call.wait_ms / 1000
        return Job(call, timeout_s, partial(self._beaten, ticket))

    def _beaten(self, ticket: object, answer: MemberAnswer | None, error: MqError | None) -> None:
        with self._lock:
            if self._heartbeat_ticket is not ticket or self._membership is None or self._is_closed:
                return
            before = self._membership.queues
            self._membership.done(answer, error, self._clock.steady_s())
            waiters: list[Callable[[], None]] = []
            is_cleared = answer is not None and bool(self._refused)
            if is_cleared:
                self._doubtful |= self._refused
                self._refused.clear()
            if is_cleared or self._membership.queues != before:
                # Whoever polls has queues to give up or to take over.
                waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def _pulled(
        self, queue: LiteQueue, ticket: object, pulled: Pulled | None, error: MqError | None
    ) -> None:
        waiters: list[Callable[[], None]] = []
        with self._lock:
            self._in_flight_count -= 1
            # One that was given up may be read again by now: as another object, with its own pull.
            is_read = self._queues.get(queue.place) is queue
            if not is_read or queue.ticket is not ticket or self._is_closed:
                return
            queue.ticket = None
            if pulled is None:
                self._failed(queue, error or MqError("no answer"))
            else:
                queue.attempt = 0
                self._arrived(queue, pulled)
            if queue.chunks or queue.is_stale or self._error is not None:
                waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def _arrived(self, queue: LiteQueue, pulled: Pulled) -> None:
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "%s: offset %d is not between %d and %d; going on at %d",
                queue.place, queue.fetch_offset, pulled.min_offset, pulled.max_offset,
                pulled.next_offset,
            )  # fmt: skip
            # The answer is obeyed even where it changes nothing, but not in a tight loop.
            queue.not_before_s = self._clock.steady_s() + self._backoff.pause_s(1)
        wanted = self._subscribed.get(queue.place.topic, self.settings.filter_text)
        is_still = pulled.next_offset == queue.fetch_offset
        queue.keep(matching(pulled.messages, tags_of(wanted)), pulled.next_offset)
        if is_still and self._subscribed:
            # A queue that its old owner has not let go yet brings nothing, and at once.
            queue.not_before_s = self._clock.steady_s() + _STILL_PAUSE_S

    def _failed(self, queue: LiteQueue, error: MqError) -> None:
        if isinstance(error, StaleGeneration) and self._membership is not None:
            queue.is_stale = True
            self._refused.add(queue.place)
            self._membership.hurry()
            return
        queue.attempt += 1
        now_s = self._clock.steady_s()
        if error.retriable:
            if queue.attempt == 1:
                logger.warning("%s cannot be read, trying on: %s", queue.place, error)
            queue.not_before_s = now_s + self._backoff.pause_s(queue.attempt, error)
        else:
            self._error = error
            queue.not_before_s = now_s + _REFUSED_PAUSE_S
