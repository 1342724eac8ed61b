"""What can be set about a consumer. Knows numbers and names only."""

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from mqclient.consuming.interceptors import ConsumerInterceptor
from mqclient.consuming.subscriptions import tags_of
from mqclient.consuming.tracer import is_trace_wanted
from mqclient.errors import InvalidArgument
from mqclient.limits import MIB, WAIT_MS_MAX
from mqclient.names import checked_name
from mqclient.values import ConsumeFrom, Filter


def new_client_id() -> str:
    """Return the name of a consumer: of this machine and process, and of no other consumer."""
    return f"{socket.gethostname()[:128]}@{os.getpid()}#{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerSettings:
    """Whose messages are received, and how; raise InvalidName or InvalidArgument.

    `timeout_s` bounds a request with its attempts, beyond the time the broker may hold it.
    `high_queue_first` empties a topic's queues from the highest number down: a queue's number is
    the priority of its messages. With `trace` the broker is told of each message that was handed
    out, and how that ended.
    """

    group: str
    topics: tuple[str, ...]
    filter_text: Filter = "*"
    messages_max: int = 32
    wait_ms: int = 20_000
    invisible_ms: int = 60_000
    ordered: bool = False
    high_queue_first: bool = False
    timeout_s: float = 10.0
    interceptors: Sequence[ConsumerInterceptor] = ()
    trace: bool = field(default_factory=is_trace_wanted)
    client_id: str = field(default_factory=new_client_id)

    def __post_init__(self) -> None:
        checked_name(self.group, "group")
        if not self.topics:
            raise InvalidArgument("a consumer needs a topic")
        for topic in self.topics:
            checked_name(topic, "topic")
        tags_of(self.filter_text)
        if not 0 <= self.wait_ms <= WAIT_MS_MAX:
            raise InvalidArgument(f"wait_ms is 0 to {WAIT_MS_MAX}, not {self.wait_ms}")
        for name in ("messages_max", "invisible_ms", "timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullSettings:
    """How queues are read ahead; raise InvalidName or InvalidArgument.

    `group` None reads without a group: nothing is committed. `filter_text` is that of assigned
    queues; a subscription has its own. `strategy`, `site` and `consume_from` are wishes of a
    subscribed member; where a group begins its own setting wins, and without either it is the
    first message. With `trace` and a group the broker is told of each message a poll returned, and
    how that ended.
    """

    group: str | None = None
    filter_text: Filter = "*"
    is_auto_commit: bool = True
    auto_commit_s: float = 5.0
    poll_messages_max: int = 500
    pull_messages_max: int = 4_096
    pull_bytes_max: int = 4 * MIB
    cached_messages_max: int = 8_192
    cached_bytes_max: int = 32 * MIB
    in_flight_max: int = 16
    hold_ms: int = 20_000
    heartbeat_wait_ms: int = 10_000
    strategy: str | None = None
    site: str = ""
    consume_from: ConsumeFrom | None = None
    consume_from_ms: int | None = None
    timeout_s: float = 10.0
    interceptors: Sequence[ConsumerInterceptor] = ()
    trace: bool = field(default_factory=is_trace_wanted)
    client_id: str = field(default_factory=new_client_id)

    def __post_init__(self) -> None:
        if self.group is not None:
            checked_name(self.group, "group")
        tags_of(self.filter_text)
        for name in ("hold_ms", "heartbeat_wait_ms"):
            if not 0 <= getattr(self, name) <= WAIT_MS_MAX:
                raise InvalidArgument(f"{name} is 0 to {WAIT_MS_MAX}")
        if (self.consume_from is ConsumeFrom.TIMESTAMP) != (self.consume_from_ms is not None):
            raise InvalidArgument("consume_from TIMESTAMP goes with consume_from_ms")
        for name in (
            "auto_commit_s", "poll_messages_max", "pull_messages_max", "pull_bytes_max",
            "cached_messages_max", "cached_bytes_max", "in_flight_max", "timeout_s",
        ):  # fmt: skip
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} must be positive")
