"""Everything the engine can refuse, and why. Knows no status codes of any door.

EngineError
├── Refused                 the request cannot be carried out as asked; do not repeat it
│   ├── InvalidName
│   ├── InvalidArgument
│   ├── InvalidFilter
│   ├── UnknownTopic
│   ├── UnknownQueue
│   ├── NotPermitted
│   ├── MessageTooLarge
│   ├── BatchTooLarge
│   ├── MalformedBatch
│   ├── ChecksumMismatch
│   ├── MessageIllegal
│   ├── InvalidLiteTopic
│   ├── LiteTopicsExhausted
│   ├── LiteSubscriptionsExhausted
│   ├── OffsetOutOfRange
│   ├── InvalidHandle
│   ├── HandleExpired
│   ├── LockLost
│   ├── StaleGeneration
│   ├── HeadMoved
│   ├── NotOrdered
│   ├── OffsetsMoved
│   ├── DelayTooLong
│   ├── SequenceTooOld
│   ├── UnknownTransaction
│   ├── TransactionDecided
│   └── Unsupported
├── Busy                    right now; the same request may succeed later
│   ├── StoreFull
│   ├── OutOfMeans
│   ├── Overloaded
│   ├── QueueDamaged        what a queue's file lacks is being made again from the log
│   ├── SyncStuck
│   ├── FlushTimeout        stored, and not said to be on the disk
│   ├── Stopping
│   └── Unreachable
├── CannotOpen              the store cannot be opened by this process
│   ├── StoreLocked
│   └── UnknownFormat
└── Damaged                 bytes on disk are not what was written; a person must look
    ├── StoreDamaged
    ├── ForeignSegment
    ├── WriteFailed
    └── SyncFailed
"""

from typing import ClassVar


class EngineError(Exception):
    """The root: every engine error has a stable `code` and says whether a retry can help."""

    code: ClassVar[str] = "engine_error"
    retriable: ClassVar[bool] = False


class Refused(EngineError):
    """The request cannot be carried out as asked."""

    code = "refused"


class InvalidName(Refused):
    """A topic, group or client name breaks the naming rule."""

    code = "invalid_name"


class InvalidArgument(Refused):
    """A value is outside its documented range."""

    code = "invalid_argument"


class InvalidFilter(Refused):
    """A subscription's filter is not one; the detail says at which character."""

    code = "invalid_filter"


class UnknownTopic(Refused):
    """The catalog snapshot has no such topic."""

    code = "unknown_topic"


class UnknownQueue(Refused):
    """The topic exists and has no queue of that number."""

    code = "unknown_queue"


class NotPermitted(Refused):
    """The topic's permissions forbid the operation, or the group is disabled."""

    code = "not_permitted"


class MessageTooLarge(Refused):
    """A body or a property section is longer than the limit."""

    code = "message_too_large"


class BatchTooLarge(Refused):
    """A batch has too many messages or bytes."""

    code = "batch_too_large"


class MalformedBatch(Refused):
    """A batch's sizes, record fields or properties do not agree with each other."""

    code = "malformed_batch"


class ChecksumMismatch(Refused):
    """A batch or a body does not have the checksum it was sent with."""

    code = "checksum_mismatch"


class MessageIllegal(Refused):
    """A message is not of the kind its topic takes: without a key, or a lite one with a delay."""

    code = "message_illegal"


class InvalidLiteTopic(Refused):
    """A lite topic's name is none, or too long together with its parent's."""

    code = "lite_topic_illegal"


class LiteTopicsExhausted(Refused):
    """The store has as many lite topics as it may; those without new messages go in time."""

    code = "lite_topics_exhausted"


class LiteSubscriptionsExhausted(Refused):
    """A client, or all of them, would be subscribed to more lite topics than they may."""

    code = "lite_subscriptions_exhausted"


class OffsetOutOfRange(Refused):
    """A queue offset lies outside what the queue holds."""

    code = "offset_out_of_range"


class InvalidHandle(Refused):
    """A receipt handle was not issued by this store for this group."""

    code = "invalid_handle"


class HandleExpired(Refused):
    """A receipt handle's time is over; the message belongs to the next receiver."""

    code = "handle_expired"


class LockLost(Refused):
    """The queue's lock is not the caller's, or not any more."""

    code = "lock_lost"


class StaleGeneration(Refused):
    """The queue is not assigned to the caller, or not any more."""

    code = "stale_generation"


class HeadMoved(Refused):
    """The message at the head of the queue is another one than was expected."""

    code = "head_moved"


class NotOrdered(Refused):
    """The group does not read the queue in order, so none of its messages is the head."""

    code = "not_ordered"


class OffsetsMoved(Refused):
    """The group is elsewhere in a queue by now than the reset allows for."""

    code = "offsets_moved"


class DelayTooLong(Refused):
    """A message asks for a longer delay than the store allows."""

    code = "delay_too_long"


class SequenceTooOld(Refused):
    """A producer's sequence number lies below all that is remembered of it."""

    code = "sequence_too_old"


class UnknownTransaction(Refused):
    """A transaction id is none of this store's, or was decided too long ago to remember."""

    code = "unknown_transaction"


class TransactionDecided(Refused):
    """The transaction was decided otherwise before."""

    code = "transaction_decided"


class Unsupported(Refused):
    """The contract names this feature and the engine does not have it."""

    code = "unsupported"


class Busy(EngineError):
    """Not now; the same request may succeed later."""

    code = "busy"
    retriable = True


class StoreFull(Busy):
    """The disk has no room for another message; reads and acknowledgements go on."""

    code = "store_full"


class OutOfMeans(Busy):
    """The process can open no more files, or has no memory left; nothing was changed."""

    code = "out_of_means"


class QueueDamaged(Busy):
    """A file of the queue is not what was written; it is being made again from the log."""

    code = "queue_damaged"


class SyncStuck(Busy):
    """The disk has not finished a sync for too long; nothing more is taken until it has."""

    code = "sync_stuck"


class FlushTimeout(Busy):
    """The message is stored and not yet confirmed: the disk took too long to say that it has it."""

    code = "flush_timeout"


class Overloaded(Busy):
    """A bounded table of the engine is full."""

    code = "overloaded"


class Stopping(Busy):
    """The engine is shutting down, or not open."""

    code = "stopping"


class Unreachable(Busy):
    """The engine is in another process, which does not answer."""

    code = "unreachable"


class CannotOpen(EngineError):
    """The store cannot be opened by this process."""

    code = "cannot_open"


class StoreLocked(CannotOpen):
    """Another process owns the store; `owner` says which."""

    code = "store_locked"

    def __init__(self, message: str, *, owner: dict[str, object]) -> None:
        super().__init__(message)
        self.owner = owner


class UnknownFormat(CannotOpen):
    """The store was written by a format version this engine does not know."""

    code = "unknown_format"


class Damaged(EngineError):
    """Bytes on disk are not what was written."""

    code = "damaged"


class StoreDamaged(Damaged):
    """A record below the synced offset, or a file of state, does not verify."""

    code = "store_damaged"


class ForeignSegment(Damaged):
    """A segment belongs to another store, or lies at another place than it was written for."""

    code = "foreign_segment"


class WriteFailed(Damaged):
    """The operating system refused a write for another reason than space."""

    code = "write_failed"


class SyncFailed(Damaged):
    """A sync failed; what it covered is unknown, and the process must end."""

    code = "sync_failed"
