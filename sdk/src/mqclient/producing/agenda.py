"""Which lane may go, and when one is looked at again. Knows lanes and moments; not what they carry.

Not safe for several threads: whoever has the producer's lock may call it.
"""

import heapq
import itertools
from collections import deque

from mqclient.clock import Clock
from mqclient.producing.lanes import Lane, Topic, Waiter
from mqclient.producing.settings import ProducerSettings

# What comes behind a request waits so long for company, whether or not that is over sooner: to go
# at once then made more requests, and each message took longer (docs/BENCHMARKS.md).
_BEHIND_REQUEST_S = 0.002


class Agenda:
    """What is to be done now, and what at a later moment."""

    def __init__(self, settings: ProducerSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        linger_ms = settings.linger_ms
        self._lingers_alone = linger_ms is not None
        self.linger_s = _BEHIND_REQUEST_S if linger_ms is None else linger_ms / 1000
        self.to_ask: deque[Topic] = deque()
        self.ready: deque[Lane] = deque()
        self._timers: list[tuple[float, int, Waiter]] = []
        self._timer_numbers = itertools.count()
        self.in_flight_count = 0
        self.has_news = False

    @property
    def is_full(self) -> bool:
        """Tell whether as many requests are under way as may be."""
        return self.in_flight_count >= self._settings.in_flight_max

    @property
    def has_more(self) -> bool:
        """Tell whether `wait_s` is worth asking: something is to be done or to be waited for."""
        return bool(self.ready or self.to_ask or self._timers)

    def is_over(self, now_s: float) -> bool:
        """Tell whether something has waited for its moment, which has come."""
        return bool(self._timers and self._timers[0][0] <= now_s)

    def wait_s(self) -> float | None:
        """Return in how many seconds there may be something to do, None for not soon."""
        if self.is_full:
            return None
        if self.ready or self.to_ask:
            return 0.0
        while self._timers and self._timers[0][2].due_s != self._timers[0][0]:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self._clock.steady_s())

    def ask(self, topic: Topic) -> None:
        """Have a topic's queues asked for, unless that was done, or must wait after a failure."""
        if not topic.is_asking and self._clock.steady_s() >= topic.not_before_s:
            topic.is_asking = True
            self.to_ask.append(topic)
            self.has_news = True

    def added(self, lane: Lane, *, is_urgent: bool) -> None:
        """Note that a parcel was put into a lane; an urgent one does not linger."""
        # Without a request to wait behind, lingering is lost time.
        if is_urgent or self._is_idle():
            lane.is_urgent = True
        # What already waits for its moment, and is not full, needs no second look.
        if lane.is_urgent or lane.due_s is None or lane.is_full(self._settings):
            self.schedule(lane)

    def schedule(self, lane: Lane) -> None:
        """See to it that a lane is looked at when something of it may go."""
        if lane.is_busy or lane.is_ready:
            return
        if not lane.parcels:
            lane.is_urgent = False
            lane.due_s = None
            return
        now_s = self._clock.steady_s()
        is_waiting_over = lane.is_urgent or lane.is_full(self._settings)
        due_s = max(lane.not_before_s, now_s if is_waiting_over else lane.linger_until_s)
        if due_s <= now_s:
            lane.due_s = None
            lane.is_ready = True
            self.ready.append(lane)
            self.has_news = True
        else:
            self.arm(lane, min(due_s, max(now_s, lane.parcels[0].deadline_s)))

    def arm(self, waiter: Waiter, due_s: float) -> None:
        """Have something looked at again at a moment, and not at the one named before."""
        if waiter.due_s != due_s:
            waiter.due_s = due_s
            self.has_news = True
            heapq.heappush(self._timers, (due_s, next(self._timer_numbers), waiter))

    def fire(self, now_s: float) -> None:
        """Take up what has waited for its moment."""
        while self._timers and self._timers[0][0] <= now_s:
            due_s, _, waiter = heapq.heappop(self._timers)
            if waiter.due_s != due_s:
                continue
            waiter.due_s = None
            if isinstance(waiter, Topic):
                self.ask(waiter)
            elif isinstance(waiter, Lane) and not waiter.is_busy and not waiter.is_ready:
                waiter.is_ready = True
                self.ready.append(waiter)

    def _is_idle(self) -> bool:
        return not (self._lingers_alone or self.in_flight_count or self.ready)
