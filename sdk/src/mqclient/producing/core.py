"""What is buffered, what may go, what came back. Knows no sockets, threads, tasks or bytes of HTTP.

At most one request is under way for a queue. A batch that failed goes back before everything that
waits for the queue, so a retry never changes the order of a queue.
"""

import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from mqclient.clock import Clock
from mqclient.errors import (
    BatchTooLarge,
    Closed,
    InvalidArgument,
    MalformedBatch,
    MessageTooLarge,
    MqError,
    RequestTooLarge,
    SendTimedOut,
    UnknownQueue,
)
from mqclient.producing import numbering
from mqclient.producing.agenda import Agenda
from mqclient.producing.lanes import Lane, Topic
from mqclient.producing.parcels import Parcel
from mqclient.producing.settings import ProducerSettings
from mqclient.producing.stamping import Stamping
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.work import Job
from mqclient.values import AckMode, BatchReceipt, TopicInfo
from mqclient.wire.hashing import queue_by_hash
from mqclient.wire.ids import local_address
from mqclient.wire.records import pack_record

logger = logging.getLogger("mqclient")

# One bad message must not fail the good ones it happened to travel with.
_SPLIT_ON = (BatchTooLarge, MalformedBatch, MessageTooLarge, RequestTooLarge)


class ProducerCore:
    """The buffer of a producer. Every method may be called from any thread."""

    def __init__(
        self, settings: ProducerSettings, calls: Calls, *, clock: Clock, rng: random.Random
    ) -> None:
        self.settings = settings
        self.lock = threading.Lock()
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(rng=rng)
        self._born_host = local_address() + bytes(4)
        self._stamping = Stamping(settings.interceptors)
        self._is_stamping = settings.idempotent or bool(settings.interceptors)
        self._topics: dict[str, Topic] = {}
        self._agenda = Agenda(settings, clock=clock)
        self._message_count = 0
        self._size_bytes = 0
        self._room_waiters: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._is_closed = False

    def put(
        self, parcel: Parcel, *, is_urgent: bool, when_room: Callable[[], None] | None = None
    ) -> bool:
        """Take a parcel; return False when the buffer is full, and call `when_room` back later.

        An urgent parcel does not linger. Raise Closed.
        """
        with self.lock:
            if self._is_closed:
                raise Closed("the producer is closed")
            if self._message_count and not self._has_room(parcel):
                if when_room is not None:
                    self._room_waiters.append(when_room)
                return False
            self._message_count += len(parcel.ids)
            self._size_bytes += parcel.size_bytes
            topic = self._topic(parcel.topic)
            now_s = self._clock.steady_s()
            if now_s - topic.fetched_s >= self.settings.route_refresh_s:
                self._agenda.ask(topic)
            # Parcels that wait for the queues to be known keep their place in the order.
            if topic.queue_count and not topic.waiting:
                self._route(topic, parcel, now_s, is_urgent=is_urgent)
            else:
                topic.waiting.append(parcel)
                self._agenda.ask(topic)
        if self._callbacks:
            self._call_back()
        return True

    def put_alone(self, parcel: Parcel) -> Job | None:
        """Take a parcel of one message that can go at once, and return the call that carries it.

        None, and nothing is taken, when anything else waits, or the queue is busy or not known:
        `put` and `take` are for that. What comes of the two ways is the same.
        """
        route = parcel.route
        with self.lock:
            topic = self._topics.get(parcel.topic)
            if topic is None or not topic.queue_count or topic.waiting or self._is_closed:
                return None
            agenda = self._agenda
            if agenda.ready or agenda.to_ask or agenda.is_full:
                return None
            now_s = self._clock.steady_s()
            if now_s - topic.fetched_s >= self.settings.route_refresh_s:
                return None
            if parcel.deadline_s <= now_s or agenda.is_over(now_s):
                return None
            if self._message_count and not self._has_room(parcel):
                return None
            lane = None if callable(route) else self._lane_of(topic, route)
            if lane is None or lane.is_busy or lane.parcels or now_s < lane.not_before_s:
                return None
            self._message_count += 1
            self._size_bytes += parcel.size_bytes
            batch = [parcel]
            timeout_s = self._fly(lane, batch, now_s)
        return self._sending(lane, batch, timeout_s)

    def take(self) -> Job | None:
        """Return the next call to carry out; None when nothing is due or enough is under way."""
        chosen = None
        with self.lock:
            agenda = self._agenda
            if not agenda.is_full:
                now_s = self._clock.steady_s()
                agenda.fire(now_s)
                if agenda.to_ask:
                    topic = agenda.to_ask.popleft()
                    agenda.in_flight_count += 1
                    chosen = partial(self._asking, topic)
                while chosen is None and agenda.ready:
                    lane = agenda.ready.popleft()
                    lane.is_ready = False
                    timeout_s = self._open(lane, now_s)
                    if timeout_s is not None:
                        chosen = partial(self._sending, lane, list(lane.flying), timeout_s)
        self._call_back()
        # Packing a batch takes a millisecond, and needs no lock.
        return None if chosen is None else chosen()

    def wait_s(self) -> float | None:
        """Return in how many seconds there may be a call to carry out, None for not soon."""
        with self.lock:
            return self._agenda.wait_s()

    @property
    def has_more(self) -> bool:
        """Tell whether `wait_s` is worth asking: something is to be done or to be waited for."""
        return self._agenda.has_more

    @property
    def has_news(self) -> bool:
        """Tell whether `take_news` would."""
        return self._agenda.has_news

    def take_news(self) -> bool:
        """Tell whether `take` has something to look at that it had not when last asked this.

        Waking a thread for every message of a batch would cost more than the batch.
        """
        has_news, self._agenda.has_news = self._agenda.has_news, False
        return has_news

    def outstanding(self) -> list[Parcel]:
        """Return every parcel that is not settled."""
        with self.lock:
            found: list[Parcel] = []
            for topic in self._topics.values():
                found += topic.waiting
                for lane in topic.lanes.values():
                    found += lane.flying
                    found += lane.parcels
            return found

    def hurry(self) -> None:
        """Let nothing linger that is in the buffer."""
        with self.lock:
            for topic in self._topics.values():
                for lane in topic.lanes.values():
                    lane.is_urgent = True
                    self._agenda.schedule(lane)

    def close(self) -> None:
        """Refuse everything that comes later."""
        with self.lock:
            self._is_closed = True
            self._callbacks += self._room_waiters
            self._room_waiters = []
        self._call_back()

    def _sending(self, lane: Lane, batch: list[Parcel], timeout_s: float) -> Job:
        topic, queue, born_host = lane.topic.packed_name, lane.queue, self._born_host
        name = lane.topic.name
        records = [
            pack_record(topic, queue, body, properties, parcel.born_ms, born_host)
            for parcel in batch
            for body, properties in (
                self._stamping.drafts(parcel, name, queue) if self._is_stamping else parcel.drafts
            )
        ]
        # Numbered or not, it is repeated here and nowhere below: whether an attempt may have been
        # carried out must not be lost.
        call = self._calls.send_batch(
            name, queue, records, batch[0].ack, is_delayed=batch[0].is_delayed
        )
        return Job(call, timeout_s, partial(self._sent, lane, batch))

    def _asking(self, topic: Topic) -> Job:
        call = self._calls.describe_topic(topic.name)
        return Job(call, self.settings.timeout_s, partial(self._answered, topic))

    def _sent(
        self, lane: Lane, batch: list[Parcel], receipt: BatchReceipt | None, error: MqError | None
    ) -> None:
        with self.lock:
            self._agenda.in_flight_count -= 1
            lane.is_busy = False
            lane.flying = []
            if error is None:
                lane.attempt = 0
                lane.messages_max = None
                index = 0
                for parcel in batch:
                    self._callbacks += parcel.settle(lane.queue, receipt, index)
                    index += len(parcel.ids)
                    self._release(parcel)
            else:
                self._failed(lane, batch, error)
            self._agenda.schedule(lane)
        self._call_back()

    def _failed(self, lane: Lane, batch: list[Parcel], error: MqError) -> None:
        if error.outcome == "unknown":
            for parcel in batch:
                parcel.may_be_stored = True
        now_s = self._clock.steady_s()
        if isinstance(error, UnknownQueue):
            self._reroute(lane, batch, error, now_s)
            return
        is_repeat = numbering.is_repeat(batch)
        if isinstance(error, _SPLIT_ON) and len(batch) > 1 and not is_repeat:
            numbering.forget_numbers(batch)
            lane.messages_max = max(1, sum(len(parcel.ids) for parcel in batch) // 2)
            lane.push_back(batch)
            lane.is_urgent = True
            return
        lane.messages_max = None
        if not error.retriable or batch[0].ack is AckMode.ONEWAY:
            lane.attempt = 0
            for parcel in batch:
                self._fail(parcel, error)
            return
        lane.attempt += 1
        lane.not_before_s = now_s + self._backoff.pause_s(lane.attempt, error)
        if is_repeat:
            numbering.share_deadline(batch)
        else:
            numbering.forget_numbers(batch)
        kept = []
        for parcel in batch:
            if parcel.deadline_s > lane.not_before_s:
                kept.append(parcel)
            else:
                self._fail(parcel, error)
        lane.push_back(kept)
        lane.repeat_count = len(kept) if is_repeat else 0
        # It has lingered before it went for the first time.
        lane.is_urgent = lane.is_urgent or bool(kept)

    def _reroute(self, lane: Lane, batch: list[Parcel], error: MqError, now_s: float) -> None:
        """Give what waits for a queue that is gone to the topic, in order, to be routed anew."""
        topic = lane.topic
        parcels = [*batch, *(lane.pop() for _ in range(len(lane.parcels)))]
        # Elsewhere a numbered batch would not stay together.
        lost_count = len(batch) if numbering.is_repeat(batch) else 0
        numbering.forget_numbers(parcels[lost_count:])
        for index, parcel in enumerate(parcels):
            if isinstance(parcel.route, int) or index < lost_count:
                self._fail(parcel, error)
            else:
                parcel.stamp = None
                topic.waiting.append(parcel)
        topic.queue_count = 0
        topic.attempt += 1
        topic.not_before_s = now_s + self._backoff.pause_s(topic.attempt, error)
        lane.attempt = 0
        self._agenda.arm(topic, topic.not_before_s)

    def _answered(self, topic: Topic, info: TopicInfo | None, error: MqError | None) -> None:
        with self.lock:
            self._agenda.in_flight_count -= 1
            topic.is_asking = False
            now_s = self._clock.steady_s()
            if info is not None and info.queues_to_write > 0:
                topic.fetched_s = now_s
                topic.has_priorities = info.has_priorities
                if topic.queue_count != info.queues_to_write:
                    topic.queue_count = info.queues_to_write
                    topic.sticky = self._rng.randrange(info.queues_to_write)
                while topic.waiting:
                    self._route(topic, topic.waiting.popleft(), now_s, is_urgent=True)
            else:
                error = error or InvalidArgument(f"topic {topic.name} has no queues")
                self._no_answer(topic, error, now_s)
        self._call_back()

    def _no_answer(self, topic: Topic, error: MqError, now_s: float) -> None:
        if topic.queue_count and not topic.waiting:
            logger.warning("topic %s cannot be refreshed: %s", topic.name, error)
            topic.fetched_s = now_s
            return
        topic.attempt += 1
        topic.not_before_s = now_s + self._backoff.pause_s(topic.attempt, error)
        # Asking stores nothing, whatever became of the question.
        error.outcome = "failed"
        waiting, topic.waiting = topic.waiting, deque()
        for parcel in waiting:
            if error.retriable and parcel.deadline_s > topic.not_before_s:
                topic.waiting.append(parcel)
            else:
                self._fail(parcel, error)
        if topic.waiting:
            self._agenda.arm(topic, topic.not_before_s)

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(name)
        return topic

    def _route(self, topic: Topic, parcel: Parcel, now_s: float, *, is_urgent: bool) -> None:
        route = parcel.route
        if callable(route):
            selected = self._selected_lane(topic, parcel, route)
            if selected is None:
                return
            lane = selected
        else:
            lane = self._lane_of(topic, route)
        if not lane.parcels:
            lane.linger_until_s = now_s + self._agenda.linger_s
        lane.push(parcel)
        self._agenda.added(lane, is_urgent=is_urgent)

    def _lane_of(self, topic: Topic, route: int | str | None) -> Lane:
        if route is None:
            return self._sticky_lane(topic)
        queue = route if isinstance(route, int) else queue_by_hash(route, topic.queue_count)
        return topic.lane(queue)

    def _selected_lane(
        self, topic: Topic, parcel: Parcel, select: Callable[[int], int | None]
    ) -> Lane | None:
        """Return the lane a selector chose; None, and the send has failed, where there is none."""
        queue_count = topic.queue_count
        try:
            queue = select(queue_count)
        except Exception as raised:
            # Foreign code: the send fails with what it raised, the producer goes on.
            logger.exception("the queue selector raised")
            self._fail(parcel, InvalidArgument(f"the queue selector raised {raised!r}"))
            return None
        if queue is None:
            return self._sticky_lane(topic)
        if not 0 <= queue < queue_count:
            self._fail(parcel, UnknownQueue(f"the selector chose queue {queue} of {queue_count}"))
            return None
        return topic.lane(queue)

    def _sticky_lane(self, topic: Topic) -> Lane:
        """Return the lane that collects messages for any queue; the next one once it is taken.

        Where queues are priorities, a message without one has the lowest.
        """
        if topic.has_priorities:
            return topic.lane(0)
        found = topic.lanes.get(topic.sticky)
        if found is not None and not found.is_busy and not found.is_full(self.settings):
            # Which it is for nearly every message, so it is looked at without a loop.
            return found
        for _ in range(topic.queue_count):
            lane = topic.lane(topic.sticky % topic.queue_count)
            if not lane.is_busy and not lane.is_full(self.settings):
                return lane
            topic.sticky = (topic.sticky + 1) % topic.queue_count
        # All have a batch to carry; one lane must not collect what the others could carry at once.
        lanes = (topic.lane(queue) for queue in range(topic.queue_count))
        return min(lanes, key=lambda lane: lane.size_bytes)

    def _open(self, lane: Lane, now_s: float) -> float | None:
        """Take a lane's next batch; return its time-out, None when nothing may go."""
        while lane.parcels and lane.parcels[0].deadline_s <= now_s:
            # What must be repeated together has one deadline, and so ends together.
            lane.repeat_count = 0
            self._fail(lane.pop(), SendTimedOut("the time was over before the message was sent"))
        if lane.is_busy or not lane.parcels or now_s < lane.not_before_s:
            self._agenda.schedule(lane)
            return None
        return self._fly(lane, lane.next_batch(self.settings), now_s)

    def _fly(self, lane: Lane, batch: list[Parcel], now_s: float) -> float:
        """Note that a batch goes; return its time-out."""
        settings = self.settings
        lane.flying = batch
        lane.is_busy = True
        if settings.idempotent and lane.flying[0].ack is not AckMode.ONEWAY:
            numbering.number(lane)
        lane.linger_until_s = now_s + self._agenda.linger_s
        if not lane.parcels:
            lane.is_urgent = False
        topic = lane.topic
        if topic.queue_count and topic.sticky == lane.queue:
            topic.sticky = (lane.queue + 1) % topic.queue_count
        self._agenda.in_flight_count += 1
        deadline_s = batch[0].deadline_s
        for parcel in batch:
            # Not `min`, which would take a generator for the one message of most sends.
            if parcel.deadline_s < deadline_s:
                deadline_s = parcel.deadline_s
        left_s = deadline_s - now_s
        return max(left_s, settings.timeout_s / 3 if lane.attempt == 0 else 0.001)

    def _fail(self, parcel: Parcel, error: MqError) -> None:
        if parcel.may_be_stored and error.outcome == "failed":
            # An earlier attempt may have stored it, whatever this one came to.
            error = SendTimedOut(f"an attempt had no answer; at last: {error}", outcome="unknown")
        if parcel.ack is AckMode.ONEWAY:
            logger.warning("a one-way message to %s is lost: %s", parcel.topic, error)
        self._callbacks += parcel.fail(error)
        self._release(parcel)

    def _has_room(self, parcel: Parcel) -> bool:
        return (
            self._message_count + len(parcel.ids) <= self.settings.buffer_messages_max
            and self._size_bytes + parcel.size_bytes <= self.settings.buffer_bytes_max
        )

    def _release(self, parcel: Parcel) -> None:
        self._message_count -= len(parcel.ids)
        self._size_bytes -= parcel.size_bytes
        if self._room_waiters:
            self._callbacks += self._room_waiters
            self._room_waiters = []

    def _call_back(self) -> None:
        """Call what waits; never under the lock, for it may be anybody's code."""
        if not self._callbacks:
            return
        with self.lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # Foreign code again; the other callbacks must be called all the same.
                logger.exception("a callback raised")
