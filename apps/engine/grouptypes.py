"""Values of groups at work: members, assignments, locks, backlog. Knows no files, clock or door."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.engine.caretypes import Suspension
from apps.engine.types import FilterType, MessageModel, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """A queue by topic and number."""

    topic: str
    queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants of a topic."""

    topic: str
    filter: str = "*"
    filter_type: FilterType = FilterType.TAG


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedHead:
    """What a member says of a queue it cannot get on with: its head failed `attempts` times."""

    topic: str
    queue: int
    queue_offset: int
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A member is alive. Waits up to `wait_ms` while its `generation` is the group's.

    `generation` is the one last answered, 0 at first. `site` is the member's room.
    """

    group: str
    client_id: str
    subscriptions: tuple[Subscription, ...] = ()
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    strategy: Strategy | None = None
    site: str = ""
    generation: int = 0
    wait_ms: int = 0
    blocked: tuple[BlockedHead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The member's queues by topic, and within which time it must ask again.

    `retry_max` is the group's: how often a message that failed is tried again, None where nobody
    has decided about that.
    """

    generation: int
    assignment: Mapping[str, tuple[int, ...]]
    heartbeat_ms: int
    retry_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """A member as the broker knows it. Times are wall times; one that `is_waiting` is seen now.

    `generation` is the one the member has last been answered. `conflicts` are topics of which
    another member of the group wants something else.
    """

    group: str
    client_id: str
    subscriptions: tuple[Subscription, ...]
    model: MessageModel
    ordered: bool
    strategy: Strategy | None
    site: str
    generation: int
    joined_ms: int
    last_seen_ms: int
    is_waiting: bool
    assignment: Mapping[str, tuple[int, ...]]
    conflicts: tuple[str, ...] = ()
    blocked: tuple[BlockedHead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGrant:
    """A lock that is the caller's, for so long from the answer on."""

    topic: str
    queue: int
    epoch: int
    expires_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRefusal:
    """A lock that is another's: who holds it, or whose queue it is by assignment."""

    topic: str
    queue: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockAnswer:
    """What became of each lock that was asked for."""

    locked: tuple[LockGrant, ...]
    refused: tuple[LockRefusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLockState:
    """A lock in the broker's table. `expires_in_ms` is negative once its time is over."""

    group: str
    topic: str
    queue: int
    owner: str
    epoch: int
    acquired_ms: int
    expires_in_ms: int
    suspension: Suspension | None = None
    """In force: the queue gives the group nothing, whoever has its lock."""
    lease_ms: int = 0
    """How long a lock lasts after a renewal; 0 where that is not known."""


class LockChange(StrEnum):
    """Why a line of a lock's history was written."""

    ACQUIRED = "acquired"
    TAKEN_OVER = "taken_over"
    EXPIRED = "expired"
    RELEASED = "released"
    FORCED = "forced"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTransition:
    """A change of a lock's owner. `number` is that of its journal record, `at_ms` wall time.

    An expiry is a line, too: at `at_ms` it was noticed, and `reason` says where that was late. The
    lock is `previous_owner`'s until somebody takes it.
    """

    number: int
    at_ms: int
    group: str
    topic: str
    queue: int
    change: LockChange
    owner: str
    previous_owner: str
    epoch: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRefused:
    """How often in one minute the lock of a queue was refused to a client; times are wall times.

    `owner` had the lock, or was to have the queue. An empty `client_id` counts several clients
    together, where there were too many to tell them apart.
    """

    group: str
    topic: str
    queue: int
    owner: str
    client_id: str
    minute_ms: int
    count: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A new assignment of a group: when, why, who got what, and how many queues moved.

    `assignment` is queue numbers by topic by client id.
    """

    number: int
    at_ms: int
    group: str
    generation: int
    reason: str
    strategy: Strategy
    assignment: Mapping[str, Mapping[str, tuple[int, ...]]]
    queues_moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """Lines of history behind a number. `last` is where to go on.

    It `has_gap` where lines behind the number were forgotten before anybody asked.
    """

    transitions: tuple[LockTransition, ...]
    rebalances: tuple[Rebalance, ...]
    last: int
    has_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginOffset:
    """Where a group goes on in a queue. `is_new` says that it begins there now."""

    topic: str
    queue: int
    queue_offset: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBacklog:
    """What a group has left to do in a queue. What is not known is None, never 0.

    `delivered` is one past the newest message handed out or pulled. `oldest_age_ms` is the age of
    the oldest message not committed, None without one. `stalled_ms` is for how long `committed` has
    stood still although there was something to do, None while it moves. `head_attempts` says how
    often the message at `committed` was tried, where anybody counted.
    """

    group: str
    topic: str
    queue: int
    committed: int
    delivered: int
    max_offset: int
    in_flight: int
    oldest_age_ms: int | None
    stalled_ms: int | None
    head_attempts: int | None
    owner: str | None
    lock_epoch: int | None
    lock_expires_in_ms: int | None
    lost: int = 0
    """Messages that retention deleted before the group had settled them."""
    suspension: Suspension | None = None
    """In force: the queue gives the group nothing, by an operator's word."""
    refusals: int = 0
    """How often the queue's lock was refused to somebody since the store was opened."""
