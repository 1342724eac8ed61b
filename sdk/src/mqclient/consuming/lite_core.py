"""What is read ahead of each assigned queue, and how far the caller is. Knows no sockets or loops.

One request is under way for a queue at a time. A seek makes what is under way worthless: its
answer is told by its ticket and dropped.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mqclient.clock import Clock
from mqclient.consuming.settings import LitePullSettings
from mqclient.errors import Closed, InvalidArgument, MqError
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.work import Job
from mqclient.values import PullStatus, QueueOffset, TopicQueue
from mqclient.wire.batches import Pulled
from mqclient.wire.filters import matching, wanted_tags
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# With more queues than requests may be under way, a long hold of one would starve another.
_SHORT_HOLD_MS = 50
# After a refusal a repeat at once would be refused at once.
_REFUSED_PAUSE_S = 1.0


class _Queue:
    """One assigned queue."""

    __slots__ = (
        "attempt", "bytes", "chunks", "committed", "count", "fetch_offset", "is_paused",
        "not_before_s", "place", "position", "ticket",
    )  # fmt: skip

    def __init__(self, place: TopicQueue, offset: int) -> None:
        self.place = place
        self.is_paused = False
        self.attempt = 0
        self.not_before_s = 0.0
        self.committed: int | None = None
        self.move(offset)

    def move(self, offset: int) -> None:
        """Go on at another offset; forget what was read ahead and what is under way."""
        self.fetch_offset = offset
        self.position = offset
        self.chunks: deque[tuple[list[Message], int]] = deque()
        self.count = 0
        self.bytes = 0
        self.ticket: object | None = None

    def keep(self, messages: list[Message], next_offset: int) -> None:
        """Add what was read; offsets that held nothing wanted count as passed."""
        self.fetch_offset = next_offset
        self.chunks.append((messages, next_offset))
        self.count += len(messages)
        self.bytes += sum(len(message.body) for message in messages)
        self._pass_empty()

    def hand_out(self, messages_max: int) -> list[Message]:
        """Take messages of the first chunk and move the position behind them."""
        messages, next_offset = self.chunks.popleft()
        taken, rest = messages[:messages_max], messages[messages_max:]
        if rest:
            self.chunks.appendleft((rest, next_offset))
        self.position = rest[0].queue_offset if rest else next_offset
        self.count -= len(taken)
        self.bytes -= sum(len(message.body) for message in taken)
        self._pass_empty()
        return taken

    def _pass_empty(self) -> None:
        while self.chunks and not self.chunks[0][0]:
            self.position = self.chunks.popleft()[1]


class LitePullCore:
    """The assignment of one consumer. Every method may be called from any thread."""

    def __init__(self, settings: LitePullSettings, calls: Calls, *, clock: Clock) -> None:
        self.settings = settings
        self._calls = calls
        self._clock = clock
        self._backoff = Backoff(first_s=0.05)
        self._tags = wanted_tags(settings.filter_text)
        self._lock = threading.Lock()
        self._queues: dict[TopicQueue, _Queue] = {}
        self._in_flight_count = 0
        self._waiters: list[Callable[[], None]] = []
        self._error: MqError | None = None
        self._is_closed = False

    def assignment(self) -> tuple[TopicQueue, ...]:
        """Return the assigned queues."""
        with self._lock:
            return tuple(self._queues)

    def assign(self, places: Iterable[TopicQueue], starts: Mapping[TopicQueue, int]) -> None:
        """Replace the assignment; queues that stay go on where they are, others at `starts`."""
        with self._lock:
            before = self._queues
            self._queues = {
                place: before.get(place) or _Queue(place, starts[place]) for place in places
            }

    def take(self) -> Job | None:
        """Return the next pull to carry out, None when none is due."""
        with self._lock:
            if self._is_closed or self._in_flight_count >= self.settings.in_flight_max:
                return None
            now_s = self._clock.steady_s()
            for queue in self._queues.values():
                if self._is_hungry(queue) and queue.not_before_s <= now_s:
                    # The next look begins behind this queue, so that each gets its turn.
                    self._queues[queue.place] = self._queues.pop(queue.place)
                    return self._job(queue)
            return None

    def wait_s(self) -> float | None:
        """Return in how many seconds a pull may be due, None for not before an event."""
        with self._lock:
            if self._is_closed or self._in_flight_count >= self.settings.in_flight_max:
                return None
            moments = [
                queue.not_before_s for queue in self._queues.values() if self._is_hungry(queue)
            ]
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
                if queue.chunks and not queue.is_paused:
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

    def uncommitted(self) -> list[QueueOffset]:
        """Return the positions that moved since they were committed."""
        with self._lock:
            return [
                QueueOffset(
                    topic=queue.place.topic, queue=queue.place.queue, committed=queue.position
                )
                for queue in self._queues.values()
                if queue.position != queue.committed
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

    def _queue(self, place: TopicQueue) -> _Queue:
        queue = self._queues.get(place)
        if queue is None:
            raise InvalidArgument(f"{place} is not assigned")
        return queue

    def _is_hungry(self, queue: _Queue) -> bool:
        return (
            queue.ticket is None
            and not queue.is_paused
            and queue.count < self.settings.cached_messages_max
            and queue.bytes < self.settings.cached_bytes_max
        )

    def _job(self, queue: _Queue) -> Job:
        settings = self.settings
        is_crowded = len(self._queues) > settings.in_flight_max
        call = self._calls.pull(
            queue.place.topic,
            queue.place.queue,
            queue.fetch_offset,
            messages_max=settings.pull_messages_max,
            bytes_max=settings.pull_bytes_max,
            wait_ms=min(settings.hold_ms, _SHORT_HOLD_MS) if is_crowded else settings.hold_ms,
            filter_text=settings.filter_text,
        )
        ticket = queue.ticket = object()
        self._in_flight_count += 1
        timeout_s = settings.timeout_s + call.wait_ms / 1000
        return Job(call, timeout_s, partial(self._pulled, queue, ticket))

    def _pulled(
        self, queue: _Queue, ticket: object, pulled: Pulled | None, error: MqError | None
    ) -> None:
        waiters: list[Callable[[], None]] = []
        with self._lock:
            self._in_flight_count -= 1
            if queue.ticket is not ticket or self._is_closed:
                return
            queue.ticket = None
            if pulled is None:
                self._failed(queue, error or MqError("no answer"))
            else:
                queue.attempt = 0
                self._arrived(queue, pulled)
            if queue.chunks or self._error is not None:
                waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def _arrived(self, queue: _Queue, pulled: Pulled) -> None:
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "%s: offset %d is not between %d and %d; going on at %d",
                queue.place, queue.fetch_offset, pulled.min_offset, pulled.max_offset,
                pulled.next_offset,
            )  # fmt: skip
            # The answer is obeyed even where it changes nothing, but not in a tight loop.
            queue.not_before_s = self._clock.steady_s() + self._backoff.pause_s(1)
        queue.keep(matching(pulled.messages, self._tags), pulled.next_offset)

    def _failed(self, queue: _Queue, error: MqError) -> None:
        queue.attempt += 1
        now_s = self._clock.steady_s()
        if error.retriable:
            if queue.attempt == 1:
                logger.warning("%s cannot be read, trying on: %s", queue.place, error)
            queue.not_before_s = now_s + self._backoff.pause_s(queue.attempt, error)
        else:
            self._error = error
            queue.not_before_s = now_s + _REFUSED_PAUSE_S
