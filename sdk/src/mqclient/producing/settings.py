"""What can be set about a producer. Knows numbers and callables only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mqclient.errors import InvalidArgument, MqError
from mqclient.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KIB, MIB
from mqclient.values import AckMode, OutgoingMessage, SendResult

QueueSelector = Callable[[OutgoingMessage, int], int | None]
"""Chooses the queue of a message among so many, from 0 on; None leaves it to the producer."""


class Interceptor(Protocol):
    """Sees every message before it is sent and what became of it.

    What an interceptor raises is logged, and the send goes on without it.
    """

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        """Return the message to send, the same or another."""

    def after_send(
        self, message: OutgoingMessage, result: SendResult | None, error: MqError | None
    ) -> None:
        """See the result, or the error; called by the thread that learnt it, so be quick."""


@runtime_checkable
class QueueInterceptor(Interceptor, Protocol):
    """An interceptor that also says what a message carries because of the queue it goes to."""

    def for_queue(self, topic: str, queue: int) -> Mapping[str, str]:
        """Return properties to add, of 1 KiB at most, when a message's queue is settled.

        Called once a message, in the order of the queue; a repeat carries the same again. Delayed
        messages, which come in another order, and half messages have no part in it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer batches, waits and gives up; raise InvalidArgument for nonsense.

    `timeout_s` bounds a send with all its attempts, as RocketMQ's sendMsgTimeout. An attempt under
    way for the first time is left at least a third of it, so a message that waited long in the
    buffer may take up to a third longer. `buffer_timeout_s` bounds the wait for room in the buffer.

    `linger_ms` is how long a message waits for others to share its request. None: 2 ms behind a
    request of this producer that is under way, and not at all without one.

    `idempotent` has messages numbered, so that the broker stores each once, however often a lost
    answer has it sent. A batch whose outcome is unknown is then sent again exactly as it was, so
    its messages wait as long as the youngest of them may. It costs the broker a look at every
    message, and nothing is gained where duplicates are sorted out by the consumer, so it is off.

    `lane` has sends travel without HTTP, where the server takes them so, which costs the broker
    less; where it does not, or something in between does not, they go by HTTP and a log line says
    so. What a send means, and what its errors mean, is the same on both ways.
    """

    ack: AckMode = AckMode.SYNC
    timeout_s: float = 3.0
    batch_bytes_max: int = 256 * KIB
    batch_messages_max: int = 1_000
    linger_ms: float | None = None
    in_flight_max: int = 8
    buffer_messages_max: int = 100_000
    buffer_bytes_max: int = 64 * MIB
    buffer_timeout_s: float = 3.0
    route_refresh_s: float = 30.0
    idempotent: bool = False
    lane: bool = False
    selector: QueueSelector | None = None
    interceptors: Sequence[Interceptor] = ()

    def __post_init__(self) -> None:
        checks = {
            "timeout_s": self.timeout_s > 0,
            "batch_bytes_max": 0 < self.batch_bytes_max <= BATCH_BYTES_MAX // 2,
            "batch_messages_max": 0 < self.batch_messages_max <= BATCH_RECORDS_MAX,
            "linger_ms": self.linger_ms is None or self.linger_ms >= 0,
            "in_flight_max": self.in_flight_max > 0,
            "buffer_messages_max": self.buffer_messages_max > 0,
            "buffer_bytes_max": self.buffer_bytes_max > 0,
            "buffer_timeout_s": self.buffer_timeout_s >= 0,
            "route_refresh_s": self.route_refresh_s > 0,
        }
        for name, is_right in checks.items():
            if not is_right:
                raise InvalidArgument(f"{name} is out of range: {getattr(self, name)}")
