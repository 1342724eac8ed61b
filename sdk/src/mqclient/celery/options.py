"""What `broker_transport_options` may say about mqweb://. Knows numbers and names only."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from mqclient.errors import InvalidArgument
from mqclient.limits import WAIT_MS_MAX
from mqclient.names import checked_name
from mqclient.values import AckMode

# One request of the broker names at most so many topics.
TOPICS_MAX = 64
PRIORITY_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How lanes are written and read; raise InvalidName or InvalidArgument.

    `priority_steps`, ascending, are the priorities that have a queue of their own; a message goes
    to the highest step that is not above its priority. `ack` None leaves it to the store what a
    confirmed publish has reached. `publish_ahead` has publishes travel together, their answers read
    later. `timeout_s` bounds a request with its repetitions. An outage longer than `outage_s` is
    told to the consumer; a shorter one is not.
    """

    group: str = "celery"
    priority_steps: tuple[int, ...] = (0, 3, 6, 9)
    visibility_timeout_s: float = 60.0
    wait_ms: int = 20_000
    receive_max: int = 256
    ack: AckMode | None = None
    publish_ahead: bool = False
    timeout_s: float = 10.0
    outage_s: float = 30.0

    @classmethod
    def of(cls, transport_options: Mapping[str, Any]) -> Self:  # kombu's options have any type.
        """Take what is ours; kombu and other transports have options of their own beside it."""
        own = {field.name for field in fields(cls)}
        chosen = {name: value for name, value in transport_options.items() if name in own}
        if chosen.get("ack") is not None:
            chosen["ack"] = _ack_mode(chosen["ack"])
        if "priority_steps" in chosen:
            chosen["priority_steps"] = tuple(chosen["priority_steps"])
        return cls(**chosen)

    def __post_init__(self) -> None:
        checked_name(self.group, "group")
        steps = self.priority_steps
        if not steps or list(steps) != sorted(set(steps)) or not 0 <= steps[0] <= steps[-1] <= (
            PRIORITY_MAX
        ):  # fmt: skip
            raise InvalidArgument(f"priority_steps {steps} must ascend from 0 to {PRIORITY_MAX}")
        if not 0 < self.wait_ms <= WAIT_MS_MAX:
            raise InvalidArgument(f"wait_ms is 1 to {WAIT_MS_MAX}, not {self.wait_ms}")
        # Below a second, a lease would end while its extension is on the way.
        if self.visibility_timeout_s < 1:
            raise InvalidArgument("visibility_timeout_s must be 1 or more")
        if self.ack is AckMode.ONEWAY:
            raise InvalidArgument("ack is sync or async: a task is never sent without an answer")
        for name in ("receive_max", "timeout_s", "outage_s"):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} must be positive")

    @property
    def visibility_timeout_ms(self) -> int:
        """Return for how long a received message is this consumer's."""
        return int(self.visibility_timeout_s * 1000)


def _ack_mode(value: object) -> AckMode:
    try:
        return AckMode(str(value))
    except ValueError:
        raise InvalidArgument(f"ack is sync or async, not {value!r}") from None
