"""A private queue: a place in this process for copies of broadcasts. Knows routing keys only."""

from collections import deque
from dataclasses import dataclass, field

from mqclient.celery.messages import Document
from mqclient.celery.routing import ExchangeKind


@dataclass(slots=True, eq=False)
class PrivateQueue:
    """A queue of this connection alone: its bindings, and what came by them."""

    name: str
    bindings: set[tuple[str, ExchangeKind, str]] = field(default_factory=set)
    inbox: "deque[Copy]" = field(default_factory=deque)
    consumer_count: int = 0

    def wants(self, exchange: str, routing_key: str) -> bool:
        """Tell whether a message of an exchange goes here."""
        return any(
            name == exchange and kind.routes(key, routing_key) for name, kind, key in self.bindings
        )

    def take(self) -> "Copy | None":
        """Return the oldest message, None when there is none."""
        return self.inbox.popleft() if self.inbox else None


@dataclass(slots=True, eq=False)
class Copy:
    """A private queue's copy of a broadcast."""

    document: Document
    queue: PrivateQueue
    is_redelivered: bool = False
