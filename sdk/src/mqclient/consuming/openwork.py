"""Messages that a receiver's code has and has not settled, and how that ends. Knows no requests."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mqclient.clock import Clock
from mqclient.consuming.traces import TRACE_TOPIC, Ended, Work, work_of
from mqclient.wire.records import Message

# Who settles nothing must not be remembered for ever: beyond it the oldest end as timed out.
OPEN_MAX = 10_000
_LOOK_S = 1.0

Tell = Callable[[Iterable[Work]], None]


@dataclass(slots=True)
class _Open:
    message: Message
    attempt: int
    started_ms: int
    started_s: float
    deadline_s: float


class OpenWork:
    """Notes who was given what, and tells how it ended. Any thread may call it.

    A message's time is over for the broker before it is here, where it begins with the arrival.
    """

    def __init__(self, tell: Tell, *, clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int, int], _Open] = {}
        self._look_at_s = 0.0

    def given(self, messages: Iterable[Message], invisible_ms: int) -> None:
        """Take that the code has messages now, for so long."""
        now_s, now_ms = self._clock.steady_s(), self._clock.wall_ms()
        works = []
        with self._lock:
            works += self._over(now_s)
            for message in messages:
                if message.stored_topic == TRACE_TOPIC:
                    continue
                before = self._open.pop(_place(message), None)
                if before is not None:
                    works.append(_ended(before, Ended.TIMEOUT, now_s))
                deadline_s = now_s + invisible_ms / 1000
                attempt = message.delivery_attempt or 1
                self._open[_place(message)] = _Open(message, attempt, now_ms, now_s, deadline_s)
            while len(self._open) > OPEN_MAX:
                oldest = self._open.pop(next(iter(self._open)))
                works.append(_ended(oldest, Ended.TIMEOUT, now_s))
        self._tell(works)

    def extended(self, messages: Iterable[Message], invisible_ms: int) -> None:
        """Take that the code keeps messages for so long from now on."""
        deadline_s = self._clock.steady_s() + invisible_ms / 1000
        with self._lock:
            for message in messages:
                found = self._open.get(_place(message))
                if found is not None:
                    found.deadline_s = deadline_s

    def settled(self, messages: Iterable[Message], result: Ended) -> None:
        """Take that the code is done with messages; those that it does not have mean nothing."""
        now_s = self._clock.steady_s()
        with self._lock:
            found = [self._open.pop(_place(message), None) for message in messages]
            works = [_ended(item, result, now_s) for item in found if item is not None]
            works += self._over(now_s)
        self._tell(works)

    def close(self) -> None:
        """Tell of what is not settled: nobody will."""
        now_s = self._clock.steady_s()
        with self._lock:
            works = [_ended(item, Ended.TIMEOUT, now_s) for item in self._open.values()]
            self._open.clear()
        self._tell(works)

    def _over(self, now_s: float) -> list[Work]:
        if now_s < self._look_at_s:
            return []
        self._look_at_s = now_s + _LOOK_S
        over = [place for place, item in self._open.items() if item.deadline_s <= now_s]
        return [_ended(self._open.pop(place), Ended.TIMEOUT, now_s) for place in over]


def _place(message: Message) -> tuple[str, int, int]:
    return message.stored_topic, message.queue, message.queue_offset


def _ended(item: _Open, result: Ended, now_s: float) -> Work:
    end_s = min(now_s, item.deadline_s) if result is Ended.TIMEOUT else now_s
    return work_of(
        item.message,
        attempt=item.attempt,
        started_ms=item.started_ms,
        ended_ms=item.started_ms + round((end_s - item.started_s) * 1000),
        result=result,
    )
