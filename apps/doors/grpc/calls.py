"""What a method is given: the door's state and one call, read from its headers. Knows no method."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from apps.doors.grpc import signatures
from apps.doors.grpc.checks import CheckBacks
from apps.doors.grpc.notices import Notices
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.renewals import Renewals
from apps.doors.grpc.sessions import Session, Sessions
from apps.doors.grpc.settings import GrpcSettings
from apps.doors.grpc.statuses import Illegal
from apps.doors.grpc.watching import Waits
from apps.doors.guard.clients import ClientLimits
from apps.doors.http.calls import Door
from apps.doors.http.inflight import Share
from apps.doors.http.rights import EVERYTHING, AnyRights
from apps.engine import limits
from apps.engine.api import EngineAPI
from apps.engine.codec.ids import host_bytes
from apps.engine.errors import Stopping

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
CLIENT_VERSION = "x-mq-client-version"
REQUEST_ID = "x-mq-request-id"
NAMESPACE = "x-mq-namespace"

# What a client says of itself is shown to people; more of it is nobody's name or version.
_SAID_CHARACTERS_MAX = 64


@dataclass(slots=True, kw_only=True)
class GrpcDoor:
    """What lives as long as the door does."""

    door: Door
    """What this door shares with the HTTP door: settings, gate, clock, memory, turns of queues."""
    engine_of: Callable[[], EngineAPI | None]
    settings: GrpcSettings = field(default_factory=GrpcSettings)
    client_limits: ClientLimits | None = None
    """What one client may ask for; None where nothing is limited."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How renewals wait for their time."""
    waits: Waits = field(default_factory=Waits)
    notices: Notices = field(default_factory=Notices)
    sessions: Sessions = field(init=False)
    renewals: Renewals = field(init=False)
    checks: CheckBacks = field(init=False)

    def __post_init__(self) -> None:
        """Know no client yet."""
        self.sessions = Sessions(self.door.clock)
        self.checks = CheckBacks(self.engine_of, self.sessions)
        self.renewals = Renewals(
            self.engine_of,
            self.sessions,
            clock=self.door.clock,
            invisible_ms=self.settings.invisible_ms,
            renewed_ms_max=self.settings.renewed_ms_max,
            sleep=self.sleep,
        )

    async def stop(self) -> None:
        """End what waits, and what goes on without a call."""
        self.waits.end()
        await self.notices.stop()
        await self.checks.stop()
        await self.renewals.stop()

    def engine(self) -> EngineAPI:
        """Return the engine; raise Stopping while none is open."""
        engine = self.engine_of()
        if engine is None:
            raise Stopping("the engine is not open")
        return engine


class Call:
    """One call to one method. A plain slotted class: one is made for every call."""

    __slots__ = (
        "client_id",
        "engine",
        "namespace",
        "peer",
        "request_id",
        "rights",
        "seconds_left",
        "session",
        "share",
    )

    def __init__(
        self,
        engine: EngineAPI,
        session: Session,
        peer: tuple[str, int] | None,
        namespace: str,
        request_id: str,
        rights: AnyRights,
        seconds_left: Callable[[], float | None],
        share: Share,
    ) -> None:
        """Keep what methods look at; `seconds_left` says how long the client still waits."""
        self.engine = engine
        self.session = session
        self.client_id = session.client_id
        self.peer = peer
        self.namespace = namespace
        self.request_id = request_id
        self.rights = rights
        self.seconds_left = seconds_left
        self.share = share

    def born_host(self) -> bytes:
        """Return the client's address and port as a record keeps them; zeros for none."""
        return bytes(8) if self.peer is None else host_bytes(*self.peer)


def call_of(
    door: GrpcDoor, context: Any, request_id: str, headers: Mapping[str, str], share: Share
) -> Call:
    """Return the call that a context and its headers tell of.

    Raises Illegal without a client id, Denied for a caller who is not let in, Stopping.
    """
    client_id = headers.get(CLIENT_ID, "")
    if not client_id:
        raise Illegal(pb.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
    if len(client_id) > limits.CLIENT_ID_CHARACTERS_MAX or not client_id.isprintable():
        raise Illegal(
            pb.CLIENT_ID_REQUIRED,
            f"a client id has at most {limits.CLIENT_ID_CHARACTERS_MAX} printable characters",
        )
    peer = peer_of(context.peer())
    rights = _rights_of(door, headers, peer)
    session = door.sessions.seen(client_id, rights)
    session.note(
        address=peer[0] if peer else "",
        language=_said(headers, LANGUAGE),
        version=_said(headers, CLIENT_VERSION),
        namespace=headers.get(NAMESPACE, ""),
    )
    return Call(
        door.engine(),
        session,
        peer,
        headers.get(NAMESPACE, ""),
        request_id,
        rights,
        context.time_remaining,
        share,
    )


def _rights_of(
    door: GrpcDoor, headers: Mapping[str, str], peer: tuple[str, int] | None
) -> AnyRights:
    gate = door.door.gate
    return EVERYTHING if gate is None else signatures.rights_of(gate, headers, peer)


def headers_of(context: Any) -> dict[str, str]:
    """Return the headers of a call by name; those that are no text are left out."""
    return {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }


@lru_cache(maxsize=4096)
def peer_of(peer: str) -> tuple[str, int] | None:
    """Return address and port of what gRPC says of a peer; None for anything but TCP."""
    kind, _, rest = peer.partition(":")
    address, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdigit():
        return None
    return address.strip("[]"), int(port)


def _said(headers: Mapping[str, str], name: str) -> str:
    text = headers.get(name, "")
    return text if len(text) <= _SAID_CHARACTERS_MAX and text.isprintable() else ""
