"""Clients of this door: who they are, what they said, and the stream they are reached by.

Knows clients and streams, no message and no engine. A restart begins with nobody; a client is known
again with its next call, and reached again with its next stream.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.http.rights import EVERYTHING, AnyRights, Everything
from apps.engine.clock import Clock
from apps.engine.limits import SESSIONS_MAX

# Clients send a heartbeat every ten seconds. Whoever was silent for longer works on nothing.
ALIVE_MS = 35_000
# A client that lost its stream opens another within seconds and may not say again what it reads
# for five minutes: so long what it said before holds.
REMEMBERED_MS = 6 * 60_000
# What one producer is known to send to; transactions of further topics are asked about elsewhere.
_TOPICS_MAX = 256

_LANGUAGES = frozenset(pb.Language.values())
# What a client says of itself is shown to people; more of it is nobody's version.
_SAID_CHARACTERS_MAX = 64

Write = Callable[[pb.TelemetryCommand], Awaitable[None]]


class Stream:
    """One telemetry stream, written to by one writer at a time.

    gRPC takes no second write, and no end, before a write is through. A writer that is cancelled
    gives up waiting for its write, which stays under way all the same.
    """

    __slots__ = ("_lock", "_write")

    def __init__(self, write: Write) -> None:
        """Write by `write`."""
        self._write = write
        self._lock = asyncio.Lock()

    async def send(self, command: pb.TelemetryCommand) -> None:
        """Write a command; raises whatever writing to a broken stream does."""
        await self._lock.acquire()
        write = asyncio.ensure_future(self._write(command))
        write.add_done_callback(self._written)
        await asyncio.shield(write)

    async def end(self, abort: Callable[[], Awaitable[None]]) -> None:
        """Call `abort` when no write is under way; who waits to write finds it ended."""
        async with self._lock:
            await abort()

    def _written(self, write: asyncio.Future[None]) -> None:
        self._lock.release()
        if not write.cancelled():
            # Its writer may be gone; then nobody else asks how it ended.
            write.exception()


class Session:
    """One client of one account."""

    __slots__ = (
        "account",
        "address",
        "client_id",
        "language",
        "last_ms",
        "lite",
        "namespace",
        "rights",
        "settings",
        "streams",
        "topics",
        "version",
    )

    def __init__(self, client_id: str, account: str) -> None:
        """Know nothing yet but its name."""
        self.client_id = client_id
        self.account = account
        self.rights: AnyRights = EVERYTHING
        self.settings: pb.Settings | None = None
        # Group and parent whose lite topics it has subscribed to, until it says that it ends.
        self.lite: tuple[str, str] | None = None
        self.streams: list[Stream] = []
        self.topics: OrderedDict[str, None] = OrderedDict()
        self.language = ""
        self.version = ""
        self.address = ""
        self.namespace = ""
        self.last_ms = 0

    @property
    def client_type(self) -> pb.ClientType:
        """Return what kind of client it says it is; unspecified while it has not."""
        if self.settings is None:
            return pb.CLIENT_TYPE_UNSPECIFIED
        return self.settings.client_type

    @property
    def software(self) -> str:
        """Return language and version for people, by its settings where it has sent them.

        Node calls its language HTTP in its headers, and by its name in its settings.
        """
        language, version = self.language, self.version
        if self.settings is not None and self.settings.user_agent.language:
            agent = self.settings.user_agent
            language = pb.Language.Name(agent.language) if agent.language in _LANGUAGES else ""
            version = _shown(agent.version) or version
        return f"{language} {version}".strip()

    def note(self, *, address: str, language: str, version: str, namespace: str) -> None:
        """Keep what the headers of a call say; what they leave out is kept as it was."""
        self.namespace = namespace or self.namespace
        self.address = address or self.address
        self.language = language or self.language
        self.version = version or self.version

    def sends_to(self, topic: str) -> None:
        """Note that it is a producer of a topic; the one it used longest ago may be forgotten."""
        self.topics[topic] = None
        self.topics.move_to_end(topic)
        if len(self.topics) > _TOPICS_MAX:
            self.topics.popitem(last=False)


class Sessions:
    """Sessions by account and client id, the longest silent first."""

    def __init__(self, clock: Clock, *, sessions_max: int = SESSIONS_MAX) -> None:
        """Know nobody; above `sessions_max` the longest silent without a stream is forgotten."""
        self._clock = clock
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the sessions, the longest silent first."""
        return iter(list(self._sessions.values()))

    def seen(self, client_id: str, rights: AnyRights) -> Session:
        """Return the session of a client that calls now, a new one where there is none."""
        account = "" if isinstance(rights, Everything) else rights.caller.principal.name
        key = (account, client_id)
        session = self._sessions.get(key)
        if session is None:
            self._make_room()
            session = self._sessions[key] = Session(client_id, account)
        else:
            self._sessions.move_to_end(key)
        session.last_ms = self._clock.monotonic_ms()
        session.rights = rights
        return session

    def is_alive(self, session: Session) -> bool:
        """Say whether a client called lately, and has not said since that it ends.

        A stream proves nothing: that of a machine which lost its power stays open for long.
        """
        is_known = self._sessions.get((session.account, session.client_id)) is session
        return is_known and session.last_ms >= self._clock.monotonic_ms() - ALIVE_MS

    def forget(self, session: Session) -> None:
        """Forget a client that says that it ends."""
        if self._sessions.get((session.account, session.client_id)) is session:
            del self._sessions[session.account, session.client_id]

    def _make_room(self) -> None:
        """Forget who is silent for long; where nobody is, the longest silent without a stream."""
        since_ms = self._clock.monotonic_ms() - REMEMBERED_MS
        for _ in range(len(self._sessions)):
            session = next(iter(self._sessions.values()))
            if session.last_ms >= since_ms:
                break
            if session.streams:
                # It is looked at again when its turn comes.
                self._sessions.move_to_end((session.account, session.client_id))
                continue
            self.forget(session)
        if len(self._sessions) >= self._sessions_max:
            silent = next((one for one in self._sessions.values() if not one.streams), None)
            if silent is not None:
                self.forget(silent)


def _shown(text: str) -> str:
    return text if len(text) <= _SAID_CHARACTERS_MAX and text.isprintable() else ""
