"""Everything that can go wrong, and what is known about it. Knows no sockets and no HTTP heads.

MqError
├── Refused                 the request cannot be carried out as asked; do not repeat it
│   ├── InvalidName
│   ├── InvalidArgument
│   ├── InvalidFilter
│   ├── UnknownTopic
│   ├── UnknownQueue
│   ├── NotFound
│   ├── NotPermitted
│   ├── Unauthenticated
│   ├── Forbidden
│   ├── DelayTooLong
│   ├── UnknownHandle
│   ├── UnknownTransaction
│   ├── Conflict
│   ├── AlreadyDelivered
│   ├── AlreadyCancelled
│   ├── SequenceTooOld
│   ├── TransactionDecided
│   ├── LockLost
│   ├── StaleGeneration
│   ├── HeadMoved
│   ├── NotOrdered
│   ├── OffsetsMoved
│   ├── MessageTooLarge
│   ├── BatchTooLarge
│   ├── RequestTooLarge
│   ├── MalformedBatch
│   ├── ChecksumMismatch
│   ├── MessageIllegal
│   ├── OffsetOutOfRange
│   ├── InvalidHandle
│   ├── HandleExpired
│   └── Unsupported
├── Busy                    right now; the same request may succeed later
│   ├── StoreFull
│   ├── Overloaded
│   ├── Stopping
│   ├── OutOfMeans
│   ├── SyncStuck
│   └── TooManyRequests
├── FlushTimeout            stored, and not yet confirmed to be on the disk
├── ServerFailed            the broker failed while it worked; the outcome is unknown
├── Unreachable             no whole answer came
│   ├── ConnectFailed       the request was never written: nothing happened
│   ├── ConnectionLost      it was written, perhaps carried out
│   ├── TimedOut            likewise
│   └── ProtocolViolation   an answer came that is none; likewise
├── TransactionUndecided    a decision did not reach the broker; it asks about it later
├── SendTimedOut            a send's whole time is over
├── EffectBusy              somebody else works at the same effect right now
├── BufferFull              the producer's buffer had no room in time
├── Closed                  the producer or consumer was closed
└── CorruptMessage          a consumed message is not what was produced
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

Outcome = Literal["failed", "unknown"]


class MqError(Exception):
    """The root. `outcome` is `failed` when surely nothing happened, else `unknown`."""

    code: ClassVar[str] = "mq_error"
    default_retriable: ClassVar[bool] = False
    default_outcome: ClassVar[Outcome] = "failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retriable: bool | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__(message)
        self.problem_code = code or self.code
        self.retriable = self.default_retriable if retriable is None else retriable
        self.outcome: Outcome = outcome or self.default_outcome
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class Refused(MqError):
    """The request cannot be carried out as asked."""

    code = "refused"


class InvalidName(Refused):
    """A topic, group or client name breaks the naming rule."""

    code = "invalid_name"


class InvalidArgument(Refused):
    """A value is outside its documented range."""

    code = "invalid_argument"


class InvalidFilter(InvalidArgument):
    """A subscription's filter is not one."""

    code = "invalid_filter"


class UnknownTopic(Refused):
    """There is no such topic."""

    code = "unknown_topic"


class UnknownQueue(Refused):
    """The topic exists and has no queue of that number."""

    code = "unknown_queue"


class NotFound(Refused):
    """Nothing is served at this address, or nothing has this name."""

    code = "not_found"


class NotPermitted(Refused):
    """The topic's permissions forbid the operation."""

    code = "not_permitted"


class Unauthenticated(Refused):
    """The request carries no token the broker knows."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The caller may not do this."""

    code = "forbidden"


class Conflict(Refused):
    """The state changed since the caller looked."""

    code = "conflict"


class DelayTooLong(Refused):
    """The message is to be delivered later than the broker can promise."""

    code = "delay_too_long"


class UnknownHandle(Refused):
    """A recall handle is not of this broker, or too old for it to know."""

    code = "unknown_handle"


class UnknownTransaction(Refused):
    """There is no transaction of this id, or it was decided too long ago."""

    code = "unknown_transaction"


class AlreadyDelivered(Conflict):
    """A delayed message is in its queue and cannot be taken back."""

    code = "already_delivered"


class AlreadyCancelled(Conflict):
    """A delayed message was taken back and will not be delivered."""

    code = "already_cancelled"


class SequenceTooOld(Conflict):
    """A numbered message is too old for the broker to know whether it is stored already."""

    code = "sequence_too_old"


class TransactionDecided(Conflict):
    """The transaction was decided otherwise before."""

    code = "transaction_decided"


class LockLost(Conflict):
    """The queue's lock belongs to another consumer."""

    code = "lock_lost"


class StaleGeneration(Conflict):
    """The queue is not assigned to this consumer, or not any more."""

    code = "stale_generation"


class HeadMoved(Conflict):
    """The message at the head of the queue is another one than was expected."""

    code = "head_moved"


class NotOrdered(Conflict):
    """The group does not read the queue in order, so none of its messages is the head."""

    code = "not_ordered"


class OffsetsMoved(Conflict):
    """The group is elsewhere in a queue by now than the reset allows for."""

    code = "offsets_moved"


class MessageTooLarge(Refused):
    """A body or a property section is longer than the limit."""

    code = "message_too_large"


class BatchTooLarge(Refused):
    """A batch has too many messages or bytes."""

    code = "batch_too_large"


class RequestTooLarge(Refused):
    """The request is longer than the broker takes."""

    code = "request_too_large"


class MalformedBatch(Refused):
    """A batch's sizes, record fields or properties do not agree with each other."""

    code = "malformed_batch"


class MessageIllegal(Refused):
    """The topic takes no such message: it is compacted, and the message has no key."""

    code = "message_illegal"


class ChecksumMismatch(Refused):
    """The broker received other bytes than were sent."""

    code = "checksum_mismatch"
    # The line spoilt the bytes, not the caller: sending them again can help.
    default_retriable = True


class OffsetOutOfRange(Refused):
    """A queue offset lies outside what the queue holds."""

    code = "offset_out_of_range"


class InvalidHandle(Refused):
    """A receipt handle was not issued by this store for this group."""

    code = "invalid_handle"


class HandleExpired(Refused):
    """A receipt handle's time is over; the message belongs to the next receiver."""

    code = "handle_expired"


class Unsupported(Refused):
    """The broker does not have this feature."""

    code = "unsupported"


class Busy(MqError):
    """Not now; the same request may succeed later."""

    code = "busy"
    default_retriable = True


class StoreFull(Busy):
    """The disk has no room for another message; reads and acknowledgements go on."""

    code = "store_full"


class Overloaded(Busy):
    """A bounded table of the broker is full."""

    code = "overloaded"


class OutOfMeans(Busy):
    """The broker can open no more files, or has no memory left; nothing was changed."""

    code = "out_of_means"


class SyncStuck(Busy):
    """The broker's disk does not finish a sync; nothing is taken until it has."""

    code = "sync_stuck"


class Stopping(Busy):
    """The broker is shutting down."""

    code = "stopping"


class TooManyRequests(Busy):
    """The caller asks more often than it may."""

    code = "too_many_requests"


class FlushTimeout(MqError):
    """Stored, and not confirmed in time to be on the disk. Sent again under its number, it is once.

    RocketMQ's FLUSH_DISK_TIMEOUT.
    """

    code = "flush_timeout"
    default_retriable = True
    default_outcome: ClassVar[Outcome] = "unknown"


class ServerFailed(MqError):
    """The broker failed while it worked on the request."""

    code = "server_failed"
    default_outcome: ClassVar[Outcome] = "unknown"


class Unreachable(MqError):
    """No whole answer came."""

    code = "unreachable"
    default_retriable = True
    default_outcome: ClassVar[Outcome] = "unknown"


class ConnectFailed(Unreachable):
    """No connection could be made; nothing was sent."""

    code = "connect_failed"
    default_outcome: ClassVar[Outcome] = "failed"


class ConnectionLost(Unreachable):
    """The connection ended before the answer was whole."""

    code = "connection_lost"


class TimedOut(Unreachable):
    """The answer did not come in time."""

    code = "timed_out"


class ProtocolViolation(Unreachable):
    """What came is no answer of a broker."""

    code = "protocol_violation"
    default_retriable = False


class TransactionUndecided(MqError):
    """Whether the broker took a decision is unknown. It asks the producer's group about it."""

    code = "transaction_undecided"
    default_outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, message: str, *, transaction_id: str) -> None:
        super().__init__(message)
        self.transaction_id = transaction_id


class EffectBusy(MqError):
    """Somebody else works at the same effect right now; look again later."""

    code = "effect_busy"
    default_retriable = True


class SendTimedOut(MqError):
    """The whole time of a send is over, attempts and pauses together."""

    code = "send_timed_out"
    default_retriable = True


class BufferFull(MqError):
    """The producer's buffer had no room in time; nothing was sent."""

    code = "buffer_full"
    default_retriable = True


class Closed(MqError):
    """The producer or consumer was closed, or belongs to another process."""

    code = "closed"


class CorruptMessage(MqError):
    """A consumed message does not have the checksum it was produced with."""

    code = "corrupt_message"

    def __init__(self, message: str, *, queue: int, queue_offset: int) -> None:
        super().__init__(message)
        self.queue = queue
        self.queue_offset = queue_offset


def _subclasses(kind: type[MqError]) -> Iterator[type[MqError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _subclasses(child)


BY_CODE: dict[str, type[MqError]] = {kind.code: kind for kind in _subclasses(MqError)}

# For answers without a problem document, as proxies give them.
BY_STATUS: dict[int, type[MqError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: HandleExpired,
    413: RequestTooLarge,
    429: TooManyRequests,
    501: Unsupported,
    503: Busy,
    507: StoreFull,
}
# A gateway that lost its server does not know what the server did, and a repeat can help.
RETRIABLE_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 507})


def error_class(code: str | None, status: int) -> type[MqError]:
    """Return the class of a problem's code, or the nearest class of its status."""
    kind = BY_CODE.get(code or "")
    if kind is not None:
        return kind
    return BY_STATUS.get(status) or (ServerFailed if status >= 500 else Refused)


def error_of(
    status: int,
    *,
    code: str | None = None,
    detail: str = "",
    retriable: bool | None = None,
    request_id: str | None = None,
    retry_after_s: float | None = None,
) -> MqError:
    """Build the error of an answer; what the problem document leaves open follows the status."""
    kind = error_class(code, status)
    if retriable is None:
        retriable = status in RETRIABLE_STATUSES or kind.default_retriable
    # A refusal and a "busy" are said before any work; other server errors may come after it.
    is_before_work = status < 500 or issubclass(kind, (Refused, Busy))
    return kind(
        detail or f"the broker answered {status}",
        code=code,
        retriable=retriable,
        status=status,
        request_id=request_id,
        retry_after_s=retry_after_s,
        outcome="failed" if is_before_work else "unknown",
    )
