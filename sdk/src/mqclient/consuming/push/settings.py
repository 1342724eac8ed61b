"""What can be set about a push consumer. Knows numbers and names only; defaults are RocketMQ's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqclient.consuming.interceptors import ConsumerInterceptor
from mqclient.consuming.membership import MemberIdentity
from mqclient.consuming.settings import new_client_id
from mqclient.consuming.subscriptions import subscriptions_of
from mqclient.consuming.tracer import is_trace_wanted
from mqclient.errors import InvalidArgument
from mqclient.limits import KIB, MIB, WAIT_MS_MAX
from mqclient.names import checked_name
from mqclient.values import ConsumeFrom, Filter, MessageModel, Subscription
from mqclient.wire.records import RETRY_PREFIX

# RocketMQ's clamp of a suspension: shorter is a busy loop, longer hides the queue from operators.
SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000

_POSITIVE = (
    "attempts_max", "cached_bytes_max", "cached_messages_max", "commit_s", "consume_batch_max",
    "consume_timeout_s", "continuous_s", "listeners_max", "lock_ask_s", "lock_renew_s",
    "lock_valid_s", "pull_bytes_max", "pull_messages_max", "pulls_max", "retry_delay_ms",
    "span_max", "timeout_s",
)  # fmt: skip
_NOT_NEGATIVE = ("loss_wait_s", "stop_wait_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """How a push consumer reads and listens; raise InvalidName or InvalidArgument.

    A queue is read ahead until `cached_messages_max` messages or `cached_bytes_max` bytes of it are
    here, or, unless ordered, the first and the last of them are `span_max` offsets apart.
    `listeners_max` listeners run at once, each with up to `consume_batch_max` messages of one
    queue; one that runs for `consume_timeout_s` is reported, and cancelled where that is possible.

    `consume_from` is this member's wish where the group begins in a queue; the group's own setting
    wins, and without either it is the first message. TIMESTAMP goes with `consume_from_ms`.

    A message a listener could not deal with is sent back to the broker; what that does not take
    comes again here after `retry_delay_ms`. With `ordered` the whole queue waits for `suspend_ms`
    instead, and after `attempts_max` attempts (None follows the group, which by default has no
    limit) its message is given up: skipped where `is_skipping`, else made a dead letter, or where
    `is_burying` is False the queue stands still. A queue is worked on for `continuous_s` before
    another gets the listener.

    `interceptors` see messages as they arrive, queue by queue in order. With `trace` the broker is
    told of each message a listener had, and how that ended.

    A queue's lock is asked for every `lock_ask_s` until it is had, renewed every `lock_renew_s` and
    trusted for `lock_valid_s`, never for more than half of what the broker grants.

    A queue that is lost waits `loss_wait_s` for its listeners; `close` waits `stop_wait_s`.
    A broadcasting consumer keeps its offsets under `offsets_folder`, by client id and group, and so
    needs a `client_id` that outlives it.
    """

    group: str
    subscriptions: tuple[Subscription, ...]
    ordered: bool = False
    model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom | None = None
    consume_from_ms: int | None = None
    strategy: str | None = None
    site: str = ""
    listeners_max: int = 20
    consume_batch_max: int = 1
    consume_timeout_s: float = 900.0
    pull_messages_max: int = 32
    pull_bytes_max: int = 256 * KIB
    pulls_max: int = 64
    span_max: int = 2_000
    cached_messages_max: int = 1_000
    cached_bytes_max: int = 100 * MIB
    hold_ms: int = 15_000
    heartbeat_wait_ms: int = 10_000
    commit_s: float = 5.0
    retry_delay_ms: int = 5_000
    suspend_ms: int = 1_000
    attempts_max: int | None = None
    is_skipping: bool = False
    is_burying: bool = True
    continuous_s: float = 60.0
    lock_ask_s: float = 1.0
    lock_renew_s: float = 20.0
    lock_valid_s: float = 30.0
    loss_wait_s: float = 20.0
    stop_wait_s: float = 30.0
    timeout_s: float = 10.0
    client_id: str = field(default_factory=new_client_id)
    interceptors: Sequence[ConsumerInterceptor] = ()
    trace: bool = field(default_factory=is_trace_wanted)
    offsets_folder: Path = field(default_factory=lambda: Path.home() / ".mqclient" / "offsets")

    def __post_init__(self) -> None:
        checked_name(self.group, "group")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidArgument(f"{name} must be positive")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} must be 0 or more")
        for name in ("hold_ms", "heartbeat_wait_ms"):
            if not 0 <= getattr(self, name) <= WAIT_MS_MAX:
                raise InvalidArgument(f"{name} is 0 to {WAIT_MS_MAX}")
        if not SUSPEND_MS_MIN <= self.suspend_ms <= SUSPEND_MS_MAX:
            raise InvalidArgument(f"suspend_ms is {SUSPEND_MS_MIN} to {SUSPEND_MS_MAX}")
        if (self.consume_from is ConsumeFrom.TIMESTAMP) != (self.consume_from_ms is not None):
            raise InvalidArgument("consume_from TIMESTAMP goes with consume_from_ms")
        if not self.client_id:
            raise InvalidArgument("client_id must not be empty")

    @property
    def is_broadcasting(self) -> bool:
        """Tell whether this member reads every queue, with offsets of its own."""
        return self.model is MessageModel.BROADCASTING

    @property
    def is_locking(self) -> bool:
        """Tell whether a queue needs the broker's lock before it may be read."""
        return self.ordered and not self.is_broadcasting

    @property
    def wanted(self) -> tuple[Subscription, ...]:
        """Return what is subscribed: the topics, and where failed messages come again.

        An ordered member tries again in place, and a broadcasting one not at all.
        """
        if self.ordered or self.is_broadcasting:
            return self.subscriptions
        return (*self.subscriptions, Subscription(topic=f"{RETRY_PREFIX}{self.group}"))

    @property
    def identity(self) -> MemberIdentity:
        """Return who this member is to the broker."""
        return MemberIdentity(
            group=self.group,
            client_id=self.client_id,
            model=self.model,
            ordered=self.ordered,
            strategy=self.strategy,
            site=self.site,
            wait_ms=self.heartbeat_wait_ms,
        )


def checked_settings(
    topics: str | Iterable[str], subscriptions: Mapping[str, Filter] | None, fields: dict[str, Any]
) -> PushSettings:
    """Build settings of what a caller wrote; raise InvalidName or InvalidArgument."""
    is_broadcasting = fields.get("model") == MessageModel.BROADCASTING
    if is_broadcasting and "client_id" not in fields:
        raise InvalidArgument("a broadcasting consumer needs a client_id that outlives it")
    return PushSettings(subscriptions=subscriptions_of(topics, subscriptions or {}), **fields)
