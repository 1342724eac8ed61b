"""Messages that a poll handed out, and how that ended. Knows messages and traces, no requests."""

import threading
from collections.abc import Iterable

from mqclient.clock import Clock
from mqclient.consuming.settings import LitePullSettings
from mqclient.consuming.tracer import Tracer
from mqclient.consuming.traces import TRACE_TOPIC, Ended, Teller, Work, work_of
from mqclient.protocol.endpoint import Endpoint
from mqclient.values import TopicQueue
from mqclient.wire.records import Message

# Failures of so many messages are remembered, to count attempts; then the oldest is forgotten.
FAILED_MAX = 10_000


class PolledWork:
    """Notes what a caller was given, and tells how it ended. Any thread may call it.

    A message is at work from the poll that returned it until its caller says more: all messages of
    a poll have the same times. Without `tracer` nothing is noted.
    """

    def __init__(self, tracer: Tracer | None, *, clock: Clock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._lock = threading.Lock()
        self._given: list[Message] = []
        self._started_ms = 0
        self._started_s = 0.0
        self._failures: dict[tuple[TopicQueue, int], int] = {}

    @property
    def is_told(self) -> bool:
        """Tell whether anybody is told, so that closing may take time."""
        return self._tracer is not None

    def given(self, messages: Iterable[Message]) -> None:
        """Take that the caller has messages now; what it had before is done."""
        if self._tracer is None:
            return
        self.done()
        with self._lock:
            self._given = [one for one in messages if one.stored_topic != TRACE_TOPIC]
            self._started_ms, self._started_s = self._clock.wall_ms(), self._clock.steady_s()

    def done(self) -> None:
        """Take that the caller is done with all it had."""
        self._end(Ended.OK)

    def sought(self, queue: TopicQueue, offset: int) -> None:
        """Take that the caller goes on at an offset: what it had from there on it wants again."""
        self._end(Ended.LATER, place=queue, from_offset=offset)

    def failed(self, error_class: str) -> None:
        """Take that the caller ended with an error."""
        self._end(Ended.ERROR, error_class=error_class)

    def close(self) -> None:
        """Tell what is left to tell, and what nobody said is done; wait until it is sent."""
        self._end(Ended.TIMEOUT)
        if self._tracer is not None:
            self._tracer.close()

    def _end(
        self,
        result: Ended,
        *,
        error_class: str = "",
        place: TopicQueue | None = None,
        from_offset: int = 0,
    ) -> None:
        if self._tracer is None or not self._given:
            return
        with self._lock:
            ended: list[Message] = []
            kept: list[Message] = []
            for one in self._given:
                is_meant = place is None or (
                    _place(one) == place and one.queue_offset >= from_offset
                )
                (ended if is_meant else kept).append(one)
            self._given = kept
            took_ms = round((self._clock.steady_s() - self._started_s) * 1000)
            works = [self._work(one, took_ms, result, error_class) for one in ended]
        self._tracer.tell(works)

    def _work(self, message: Message, took_ms: int, result: Ended, error_class: str) -> Work:
        name = (_place(message), message.queue_offset)
        failures = self._failures.pop(name, 0)
        if result is not Ended.OK:
            self._failures[name] = failures + 1
            if len(self._failures) > FAILED_MAX:
                self._failures.pop(next(iter(self._failures)))
        return work_of(
            message,
            attempt=message.reconsume_times + failures + 1,
            started_ms=self._started_ms,
            ended_ms=self._started_ms + took_ms,
            result=result,
            error_class=error_class,
        )


def polled_work(settings: LitePullSettings, endpoint: Endpoint, *, clock: Clock) -> PolledWork:
    """Return where a consumer's work is noted; without a group nobody is told of it."""
    tracer = None
    if settings.trace and settings.group is not None:
        teller = Teller(group=settings.group, client_id=settings.client_id, mode=None)
        tracer = Tracer(endpoint, teller, clock=clock)
    return PolledWork(tracer, clock=clock)


def _place(message: Message) -> TopicQueue:
    return TopicQueue(message.stored_topic, message.queue)
