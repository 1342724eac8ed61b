"""What can be set about a mirror. Knows numbers and names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mqclient.errors import InvalidArgument, MqError
from mqclient.names import checked_name, lite_topic

# RocketMQ takes no shorter one.
_LEASE_S_MIN = 10
# Told of each message that is passed over: its id, its place or none, and why.
OnRefused = Callable[[str, MqError], None]
OnCopied = Callable[[int, int], None]
Start = Literal["earliest", "latest"] | int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """What is copied, and how; raise InvalidName or InvalidArgument.

    `group` keeps the position. `start` is where a group without one begins, at the first message
    without it: a time is in milliseconds since 1970 UTC. With `once` the mirror ends where the
    topic ended when it began. A batch is what may be copied twice after a crash. What is received
    from there is nobody else's for `lease_s`, 10 or more: after a crash it comes again no earlier.
    `on_refused` is told of a message that one side will never take, which is then passed over;
    without it the mirror ends there. `lites` are the lite topics to copy of a parent: in, those
    that are named and no others; out, all there are where none is named.
    """

    topic: str
    topic_there: str
    group: str
    lites: tuple[str, ...] = ()
    start: Start | None = None
    once: bool = False
    in_flight: int = 16
    batch: int = 256
    lease_s: float = 30.0
    rate: float | None = None
    patience_s: float = 60.0
    on_copied: OnCopied = lambda _messages, _size_bytes: None
    on_refused: OnRefused | None = None

    def __post_init__(self) -> None:
        checked_name(self.topic, "topic")
        checked_name(self.topic_there, "topic")
        checked_name(self.group, "group")
        for name in self.lites:
            lite_topic(self.topic, name)
        for name in ("in_flight", "batch", "patience_s"):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} must be positive")
        if self.lease_s < _LEASE_S_MIN:
            raise InvalidArgument(f"lease_s is {_LEASE_S_MIN} or more")
        if self.rate is not None and self.rate <= 0:
            raise InvalidArgument("rate must be positive")
