"""What a listener is given and what it says. Knows messages only."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from mqclient.consuming.push.snapshot import Snapshot
from mqclient.values import TopicQueue
from mqclient.wire.records import Message


class Consumed(StrEnum):
    """What a listener says of the messages it was given. Anything else means RETRY_LATER."""

    SUCCESS = "success"
    RETRY_LATER = "retry_later"
    """They failed, and come again to any member of the group."""
    NOT_NOW = "not_now"
    """They were not tried: they come again here after a while, or to their queue's next owner."""


@dataclass(slots=True, kw_only=True)
class ListenerContext:
    """Where messages come from, and what a listener may say besides its result.

    `attempt` counts from 1, for the first of the messages; `epoch` is that of the queue's lock
    where there is one: what a listener writes elsewhere can be fenced with it. With SUCCESS,
    `ack_index` is the index of the last message that is done, and those after it come again; None
    is all are done. `suspend_ms` is how long an ordered queue waits, instead of the setting.

    Of messages that come again otherwise, `delay_level` says when: None leaves it to the group, a
    number from 1 on is a level of the broker's, and -1 has them come never: they are dead letters.
    `reason` is kept with them, instead of what the listener raised.
    """

    queue: TopicQueue
    attempt: int
    epoch: int | None = None
    ack_index: int | None = None
    suspend_ms: int | None = None
    delay_level: int | None = None
    reason: str = ""


Listener = Callable[[list[Message], ListenerContext], Consumed | None]
AsyncListener = Callable[[list[Message], ListenerContext], Awaitable[Consumed | None]]


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """Messages of one queue on their way to a listener; it is the queue's owner until settled."""

    snapshot: Snapshot
    messages: list[Message]
    context: ListenerContext
    started_s: float = 0.0
    started_ms: int = 0
    error_class: str = ""
    """Of the exception that ended the listener; `is_cut_off` where it was its time."""
    is_cut_off: bool = False
    is_reported: bool = False
    is_untried: bool = False

    def done_count(self, result: object) -> int:
        """Return how many of the messages are done, from the first on."""
        if result is not Consumed.SUCCESS:
            return 0
        index = self.context.ack_index
        count = len(self.messages)
        return count if index is None else max(0, min(index + 1, count))
