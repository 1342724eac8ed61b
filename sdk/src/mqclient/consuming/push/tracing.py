"""What is told of deliveries to a listener. Knows deliveries and messages, no requests."""

from collections.abc import Callable, Iterable, Iterator

from mqclient.clock import Clock
from mqclient.consuming.push.listening import Consumed, Delivery
from mqclient.consuming.traces import TRACE_TOPIC, Ended, Work, work_of

Tell = Callable[[Iterable[Work]], None]


class DeliveryTrace:
    """Tells how each message of a delivery ended, but for those the listener did not try."""

    def __init__(self, tell: Tell, *, clock: Clock) -> None:
        self._tell = tell
        self._clock = clock

    def begun(self, delivery: Delivery) -> None:
        """Note when a listener began."""
        delivery.started_ms = self._clock.wall_ms()

    def ended(self, delivery: Delivery, result: object) -> None:
        """Tell of the messages; before the delivery is settled, which counts a failure."""
        if result is Consumed.NOT_NOW and not delivery.error_class:
            return
        self._tell(list(self._works(delivery, result)))

    def _works(self, delivery: Delivery, result: object) -> Iterator[Work]:
        took_s = self._clock.steady_s() - delivery.started_s
        ended_ms = delivery.started_ms + round(took_s * 1000)
        attempts = delivery.snapshot.attempts
        done_count = delivery.done_count(result)
        for index, message in enumerate(delivery.messages):
            if message.stored_topic == TRACE_TOPIC:
                continue
            yield work_of(
                message,
                attempt=message.reconsume_times + attempts.get(message.queue_offset, 0) + 1,
                started_ms=delivery.started_ms,
                ended_ms=ended_ms,
                result=Ended.OK if index < done_count else _failed(delivery),
                error_class=delivery.error_class,
            )


def _failed(delivery: Delivery) -> Ended:
    if delivery.is_cut_off:
        return Ended.TIMEOUT
    return Ended.ERROR if delivery.error_class else Ended.LATER
