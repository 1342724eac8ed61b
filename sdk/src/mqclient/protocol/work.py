"""What a driver drives: a core that hands out calls and takes their outcomes. Knows no threads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mqclient.errors import MqError
from mqclient.protocol.calls import Call


@dataclass(slots=True)
class Job:
    """One call to carry out. `done` takes the answer or the error, exactly once."""

    call: Call[Any]  # Its own `done` knows the type.
    timeout_s: float
    done: Callable[[Any, MqError | None], None]  # The answer's type is the call's.


class Work(Protocol):
    """A core. Every method is safe to call from any thread and never waits for the network."""

    def take(self) -> Job | None:
        """Return the next call to carry out, None when there is nothing to do just then."""

    def wait_s(self) -> float | None:
        """Return in how many seconds `take` is worth asking, None for not before an event."""
