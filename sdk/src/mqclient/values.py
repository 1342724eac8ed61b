"""Small frozen values of the public interface. Knows no bytes, sockets or clocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from mqclient.names import lite_parts


class AckMode(StrEnum):
    """What an acknowledged send has reached."""

    SYNC = "sync"
    """The bytes are on the disk."""
    ASYNC = "async"
    """The bytes are in the system's cache."""
    ONEWAY = "oneway"
    """Nothing is promised."""


class PullStatus(StrEnum):
    """The four answers of a pull, as RocketMQ names them."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


class Settled(StrEnum):
    """What became of one receipt handle."""

    OK = "ok"
    EXPIRED = "expired"
    INVALID = "invalid"


class MessageModel(StrEnum):
    """Whether the members of a group share its messages, or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFrom(StrEnum):
    """Where a group begins in a queue it has no progress in."""

    FIRST = "first"
    LAST = "last"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Sql:
    """A filter over the properties of messages, in SQL92; the broker evaluates it."""

    expression: str


# A text is a filter over tags, such as "TagA || TagB".
Filter = str | Sql


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message on its way out, as interceptors and selectors see it.

    `queue` fixes the queue, and so does `priority`: the queue of that number, or the highest one.
    Otherwise messages of one `sharding_key` share a queue. At most one of the next three delays it:
    a level of the broker's, counted from 1, milliseconds from when the broker takes it, or a wall
    time in milliseconds. `message_id` and `born_time_ms` are for copies, which are to be known as
    what they are copies of; a message gets its own without them.
    """

    topic: str
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
    queue: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    message_id: str | None = None
    born_time_ms: int | None = None
    priority: int | None = None

    @property
    def is_delayed(self) -> bool:
        """Tell whether consumers get it later than it is stored."""
        return not (
            self.delay_level is None and self.delay_ms is None and self.deliver_at_ms is None
        )


# A tuple: results are made by the hundred thousand, and a frozen dataclass costs three times that.
class SendResult(NamedTuple):
    """Where a message lies. `queue_offset` and `store_time_ms` are None after a one-way send.

    A delayed message has no offset yet. `deliver_at_ms` is when it gets one, by the broker's wall
    clock, and `recall_handle` takes it back until then; one of a delay level has no handle.
    """

    message_id: str
    topic: str
    queue: int
    queue_offset: int | None
    store_time_ms: int | None
    recall_handle: str | None = None
    deliver_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt:
    """Where a batch lies: queue offsets from `queue_offset` on, None for a delayed batch.

    A delayed batch has a recall handle and a due time for each message, in order.
    """

    count: int
    queue_offset: int | None
    store_time_ms: int
    recall_handles: tuple[str | None, ...] = ()
    deliver_at_ms: tuple[int | None, ...] = ()


class Recalled(StrEnum):
    """What became of a delayed message that was to be taken back, or sent at once."""

    CANCELLED = "cancelled"
    """It will not be delivered."""
    DELIVERED = "delivered"
    """It is in its queue: it was due, or somebody sent it before its time."""
    UNKNOWN = "unknown"
    """The handle is not of this broker, or too old for it to know what became of the message."""


class Decision(StrEnum):
    """What the producer of a transaction says of it."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    """Not decided, or not known here: the broker asks again later."""


class SentBack(StrEnum):
    """What became of a message that its reader failed at."""

    RETRY = "retry"
    DEAD_LETTER = "dead_letter"
    ALREADY = "already"
    GONE = "gone"
    """The queue does not hold it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The answer for one message that was sent back; `outcome` None where it was refused."""

    index: int
    status: int
    outcome: SentBack | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A decided transaction; a committed message lies at the queue and offset.

    `outcome` is as the broker names it: committed, rolled_back or given_up. `is_repeat` says that
    it had been decided so before. The place is None where nothing was made visible, or the broker
    does not know it any more.
    """

    transaction_id: str
    outcome: str
    is_repeat: bool
    topic: str | None = None
    queue: int | None = None
    queue_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfMessage:
    """A message of an undecided transaction, as the listener of checks sees it."""

    topic: str
    body: bytes
    message_id: str
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
    born_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCheck:
    """The broker's question what became of a transaction: for the `number`th time of at most
    `checks_max`."""

    transaction_id: str
    number: int
    checks_max: int
    message: HalfMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One failed attempt at a message; `number` counts from 1, `at_ms` is wall time."""

    number: int
    at_ms: int
    reason: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message a group gave up, as lists show it. `letter_id` names it for resending."""

    letter_id: str
    topic: str
    message_id: str
    attempts: int
    reason: str
    state: str


class RetryPolicy(StrEnum):
    """How long a failed message of a group waits before it comes again."""

    LEVELS = "levels"
    """The broker's delay levels, from the third on."""
    EXPONENTIAL = "exponential"
    """5 s, doubled with every failure, 2 h at most."""
    CUSTOM = "custom"
    """The group's own delays; the last one repeats."""


@dataclass(frozen=True, slots=True, order=True)
class TopicQueue:
    """One queue of a topic."""

    topic: str
    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """What a queue holds: offsets from `min_offset` up to, not with, `max_offset`.

    An offset is None while the broker does not know it. In a compacted topic `kept_messages` are
    those the last round kept, at `compacted_at`, RFC 3339; both are None before the first.
    """

    queue: int
    min_offset: int | None
    max_offset: int | None
    kept_messages: int | None = None
    compacted_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as the broker describes it. Lists leave `queues` empty.

    While their number changes only the first `write_queue_count` queues take messages; None is all.
    `retention_ms` None is the store's time; `cleanup` is `delete`, or `compact` where the newest
    message of each key is kept for ever.
    """

    topic: str
    type: str
    queue_count: int
    perm: str | int | None = None
    queues: tuple[QueueRange, ...] = ()
    write_queue_count: int | None = None
    retention_ms: int | None = None
    cleanup: str = "delete"

    @property
    def queues_to_write(self) -> int:
        """Return how many queues take messages, from 0 on."""
        return self.queue_count if self.write_queue_count is None else self.write_queue_count

    @property
    def has_priorities(self) -> bool:
        """Tell whether a queue's number is the priority of its messages."""
        return self.type == "PRIORITY"

    @property
    def is_parent(self) -> bool:
        """Tell whether its messages lie in lite topics; a lite topic itself has none."""
        return self.type == "LITE" and lite_parts(self.topic) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteTopic:
    """A lite topic of a parent; `topic` is what it is called wherever topics are read or sent to.

    It holds offsets from `min_offset` up to, not with, `max_offset`, in its one queue. `newest_at`
    is when its newest message was stored, RFC 3339, None while the broker does not know it.
    `subscribers` counts clients of all groups.
    """

    name: str
    topic: str
    min_offset: int
    max_offset: int
    newest_at: str | None
    subscribers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffset:
    """How far a group is in one queue; None is unknown, never 0."""

    topic: str
    queue: int
    committed: int | None
    delivered: int | None = None
    max_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLag:
    """What a group has left to do in one queue.

    `in_flight` messages are handed out now, `ready` ones are with nobody, None where that is not
    known. Messages settled out of turn are neither, and count in `lag` until those before them are
    settled too. `oldest_age_ms` is how old the oldest is, None without one or where nobody knows.
    """

    topic: str
    queue: int
    lag: int
    in_flight: int
    ready: int | None
    oldest_age_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteLag:
    """What a group has left to do in all lite topics of the parent `topic` together.

    `lag` messages, in `topics_behind` of them; the rest is as in QueueLag. All are None while a
    group that is new to many lite topics is counted, half a minute at most for 20,000 of them.
    """

    topic: str
    lag: int | None
    topics_behind: int | None
    in_flight: int | None
    ready: int | None
    oldest_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """What a group has left to do: by queue, by parent of lite topics, and in all.

    `retry_lag` is the part of `lag` that lies in the group's retry topic, one of the queues, and
    `lite_lag` the part in lite topics; that is None, and `lag` with it, where one of `lites` is not
    known. `oldest_age_ms` is as in QueueLag.
    """

    queues: tuple[QueueLag, ...]
    lites: tuple[LiteLag, ...]
    lag: int | None
    retry_lag: int
    lite_lag: int | None
    oldest_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of one handle; `receipt_handle` is the new one where an extension made it."""

    index: int
    status: Settled
    receipt_handle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants of a topic."""

    topic: str
    filter: Filter = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """On whose behalf a queue is pulled, and by what right.

    `generation` demands that the queue is assigned to the client, `epoch` that its lock has it.
    """

    group: str
    client_id: str
    generation: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedHead:
    """A queue that does not get on: the message at `queue_offset` failed `attempts` times."""

    topic: str
    queue: int
    queue_offset: int
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAnswer:
    """A member's queues, and within which time it must ask again.

    `retry_max` is how often the group has a message tried again, None where nobody decided that.
    """

    generation: int
    queues: frozenset[TopicQueue]
    heartbeat_ms: int
    retry_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGrant:
    """A queue's lock that is the caller's, for so long from the answer on."""

    place: TopicQueue
    epoch: int
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockAnswer:
    """What became of each lock that was asked for; refused ones with their owner."""

    locked: tuple[LockGrant, ...]
    refused: tuple[tuple[TopicQueue, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group with what it wants and what it has."""

    client_id: str
    subscriptions: tuple[tuple[str, str], ...]
    queues: tuple[TopicQueue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A group as the broker describes it; `generation` None where it has no assignment."""

    group: str
    generation: int | None
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCare:
    """A queue of a group after an operator's act; `head` is the first offset that is not done.

    `is_repeat` says that it was done before, and nothing now.
    """

    head: int
    is_repeat: bool
    is_suspended: bool
    dead_letter_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """Where a group is in a queue, and where it would go on; clamped where the queue ends."""

    topic: str
    queue: int
    current: int
    target: int
    was_clamped: bool = False

    @property
    def replay(self) -> int:
        """Return how many messages would come again."""
        return max(0, self.current - self.target)

    @property
    def skip(self) -> int:
        """Return how many messages would be passed over."""
        return max(0, self.target - self.current)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPreview:
    """What a reset of offsets would do; `token` applies just this, for an hour.

    `moved_max` is how far the group may have read on in a queue by then.
    """

    target: str
    queues: tuple[PlannedOffset, ...]
    is_online: bool
    moved_max: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMoved:
    """Where a group was in a queue, and where it went on."""

    topic: str
    queue: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReset:
    """A reset of offsets that was applied; `undo_id` undoes it."""

    undo_id: str
    target: str
    state: str
    queues: tuple[QueueMoved, ...]
