"""What a handler is given: the door's own state and one request. Knows no verb."""

import itertools
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import isawaitable
from typing import Any, TypeVar

from apps.access.gate import Gate
from apps.doors.http.inflight import InFlight, Share
from apps.doors.http.rights import AnyRights
from apps.doors.http.settings import DoorSettings
from apps.engine.api import EngineAPI, Later
from apps.engine.clock import Clock
from apps.engine.codec.ids import MessageIds, host_bytes
from apps.engine.types import TopicSpec, TopicType

# ASGI's own types: an event is a mapping of whatever its kind defines.
Event = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

_Value = TypeVar("_Value")

# What a caller may choose as request id: it is written into logs and headers.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Name requests: the caller's own name where it is harmless, else prefix and counter."""

    def __init__(self) -> None:
        """Choose a prefix that no other process has."""
        self._prefix = secrets.token_hex(5).encode()
        self._counter = itertools.count(1)

    def of(self, offered: bytes | None) -> bytes:
        """Return the id of a request that came with this X-Request-Id, or with None."""
        if offered is not None and _REQUEST_ID.fullmatch(offered):
            return offered
        return b"%s-%x" % (self._prefix, next(self._counter))


def no_metrics(_in_flight: InFlight) -> Iterable[Any]:
    """Have no figures to tell."""
    return ()


@dataclass(slots=True, kw_only=True)
class Door:
    """What lives as long as the door does."""

    settings: DoorSettings
    clock: Clock
    own_metrics: Callable[[InFlight], Iterable[Any]] = no_metrics
    """What stands around the door and has figures of its own: families of `metrics.Metric`."""
    gate: Gate | None = None
    """Who decides what callers may; None where access is off, and everybody may everything."""
    message_ids: MessageIds = field(default_factory=MessageIds)
    request_ids: RequestIds = field(default_factory=RequestIds)
    in_flight: InFlight = field(init=False)
    """What requests and answers under way hold of the memory."""
    turns: dict[str, int] = field(default_factory=dict)
    """Round robin: how many requests without a key each known topic has had."""

    def __post_init__(self) -> None:
        """Count from nothing; raise ValueError for a door that would be open by mistake."""
        if (self.settings.auth == "off") != (self.gate is None):
            raise ValueError("a door has a gate exactly where access is on")
        self.in_flight = InFlight(self.settings.requests_bytes_max)

    def next_turn(self, topic: TopicSpec) -> int:
        """Return the queue whose turn it is; a request's messages without a key stay together.

        Where queues are priorities, a message without one has the lowest. Lite topics have one
        queue, and there are too many to remember each.
        """
        if topic.type in (TopicType.PRIORITY, TopicType.LITE):
            return 0
        turn = self.turns.get(topic.name, 0)
        self.turns[topic.name] = turn + 1
        return turn % topic.writable_count


class Call:
    """One request to one verb. A plain slotted class: it is made for every request."""

    __slots__ = (
        "client",
        "client_id",
        "engine",
        "fields",
        "name",
        "query",
        "queue",
        "receive",
        "request_id",
        "rights",
        "share",
        "token",
    )

    def __init__(
        self,
        engine: EngineAPI,
        name: str,
        queue: int,
        client_id: str,
        token: str,
        scope: Scope,
        fields: dict[bytes, bytes],
        receive: Receive,
        request_id: bytes,
        share: Share,
        rights: AnyRights,
    ) -> None:
        """Keep what handlers look at; `fields` are the headers by lower-case name.

        `name`, `queue`, `client_id` and `token` are those of the address.
        """
        self.engine = engine
        self.name = name
        self.queue = queue
        self.client_id = client_id
        self.token = token
        self.query: bytes = scope["query_string"]
        self.client: tuple[str, int] | None = scope.get("client")
        self.fields = fields
        self.receive = receive
        self.request_id = request_id
        self.share = share
        self.rights = rights

    def born_host(self) -> bytes:
        """Return the client's address and port as a record keeps them."""
        return host_of(self.client)


async def settled(answer: Later[_Value]) -> _Value:
    """Return the answer of a verb that may have to wait for the disk."""
    return await answer if isawaitable(answer) else answer


@lru_cache(maxsize=1024)
def host_of(client: tuple[str, int] | None) -> bytes:
    """Return an address and a port as a record keeps them; zeros for None."""
    return bytes(8) if client is None else host_bytes(client[0], client[1])
