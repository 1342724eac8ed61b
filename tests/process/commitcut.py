"""A way to PostgreSQL on which a chosen commit is cut off. Knows its wire protocol, no product.

Whoever commits through it is never told what came of it: the connection is reset either before the
server was asked (`LOST`) or when the server has done it and its answer is on the way (`APPLIED`).

A commit is the statement COMMIT, and any write outside a transaction, asked for by the simple or
the extended protocol. Which commit is meant is said by what its transaction had asked before.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from io import BufferedIOBase
from typing import Any, NamedTuple, Self

_LENGTH = struct.Struct("!I")
_STARTUP = struct.Struct("!II")
_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104
_COMMIT = re.compile(rb"\s*(COMMIT|END)\b", re.IGNORECASE)
_WRITE = re.compile(rb"\s*(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
# Closed so, a socket says that it was reset, and nothing that was sent is waited for.
_RESET = struct.pack("ii", 1, 0)

Address = str | tuple[str, int]
"""The path of a Unix socket, or host and port."""


class Fate(StrEnum):
    """What becomes of the commit that nobody hears of."""

    APPLIED = "applied"
    LOST = "lost"


def server_address(database: Mapping[str, Any]) -> Address:
    """Return where the server is that Django's settings of a database name."""
    port = int(database.get("PORT") or 5432)
    host: str = database["HOST"]
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


class _Message(NamedTuple):
    kind: bytes
    body: bytes

    @property
    def wire(self) -> bytes:
        return self.kind + _LENGTH.pack(len(self.body) + _LENGTH.size) + self.body


class Trap:
    """Waits for one commit; `has_fired` is set when its client's connection was reset."""

    def __init__(self, pattern: bytes, fate: Fate) -> None:
        """Wait for a transaction in which this was asked, values included."""
        self.pattern = re.compile(pattern, re.DOTALL)
        self.fate = fate
        self.has_fired = threading.Event()


class CommitCut:
    """Listens on a port of this machine and passes everything on. Use it as a context."""

    def __init__(self, upstream: Address) -> None:
        """Listen; the server is asked when somebody comes."""
        self.upstream = upstream
        self.fired_count = 0
        self._trap: Trap | None = None
        self._lock = threading.Lock()
        self._sessions: set[_Session] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing it alone wakes nobody who accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.reset()

    def arm(self, pattern: bytes, fate: Fate) -> Trap:
        """Cut the next commit of a transaction in which a pattern was asked; one at a time."""
        with self._lock:
            assert self._trap is None, "the trap before has not fired"
            self._trap = Trap(pattern, fate)
            return self._trap

    def disarm(self, trap: Trap) -> None:
        """Take a trap off that must not have fired."""
        with self._lock:
            assert self._trap is trap, "it has fired"
            self._trap = None

    def trap_for(self, asked: bytes) -> Trap | None:
        """Take the trap off when it is meant for a transaction in which this was asked."""
        with self._lock:
            trap = self._trap
            if trap is None or trap.pattern.search(asked) is None:
                return None
            self._trap = None
            return trap

    def put_back(self, trap: Trap) -> None:
        """Arm a trap again whose commit the server refused: that is known, and no fault."""
        with self._lock:
            assert self._trap is None
            self._trap = trap

    def fire(self, trap: Trap, session: "_Session") -> None:
        """Reset the connection that a trap was for."""
        # First, so that whoever hears of the reset finds it written down.
        with self._lock:
            self.fired_count += 1
        trap.has_fired.set()
        session.reset()

    def forget(self, session: "_Session") -> None:
        """Let go of a connection that has ended."""
        with self._lock:
            self._sessions.discard(session)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # It was shut down.
                return
            try:
                server = _connected(self.upstream)
            except OSError:
                client.close()
                continue
            session = _Session(self, client, server)
            with self._lock:
                self._sessions.add(session)
            session.start()


class _Session:
    """One client's connection; a thread each way."""

    def __init__(self, cut: CommitCut, client: socket.socket, server: socket.socket) -> None:
        self._cut = cut
        self._client, self._server = client, server
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._asked: list[bytes] = []
        self._is_idle = True
        self._is_reset = False
        self._trap: Trap | None = None
        self._kept: list[_Message] = []

    def start(self) -> None:
        for work in (self._ask, self._answer):
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def reset(self) -> None:
        """End both sides at once; the server rolls back what it was not told to commit."""
        self._is_reset = True
        for one in (self._client, self._server):
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # Wakes the thread that reads it, which `close` alone does not.
            with suppress(OSError):
                one.shutdown(socket.SHUT_RD)
            one.close()

    def _run(self, work: Callable[[], None]) -> None:
        # A side that is gone ends the other, whoever of both threads sees it first.
        with suppress(OSError, EOFError):
            work()
        for one in (self._client, self._server):
            # Whatever was said last, a refusal for one, still arrives.
            with suppress(OSError):
                one.shutdown(socket.SHUT_RD if self._is_reset else socket.SHUT_RDWR)
            one.close()
        self._cut.forget(self)

    def _ask(self) -> None:
        """Pass on what the client asks, until it is what somebody waits for."""
        with self._client.makefile("rb") as stream:
            self._server.sendall(self._startup(stream))
            for message in _messages(stream):
                trap = self._trap_for(message)
                if trap is not None and trap.fate is Fate.LOST:
                    self._cut.fire(trap, self)
                    return
                # Before the server can answer.
                self._trap = self._trap or trap
                self._server.sendall(message.wire)

    def _startup(self, stream: BufferedIOBase) -> bytes:
        """Return the first message the server is to see; encryption is declined here."""
        while True:
            size, code = _STARTUP.unpack(_exactly(stream, _STARTUP.size))
            rest = _exactly(stream, size - _STARTUP.size)
            if code not in (_TLS, _GSS):
                return _STARTUP.pack(size, code) + rest
            self._client.sendall(b"N")

    def _trap_for(self, message: _Message) -> Trap | None:
        asked = self._statement(message)
        if asked is None:
            return None
        self._asked.append(asked)
        is_commit = _COMMIT.match(asked) or (self._is_idle and _WRITE.match(asked))
        return self._cut.trap_for(b"\n".join(self._asked)) if is_commit else None

    def _statement(self, message: _Message) -> bytes | None:
        """Return what the server is to carry out now, with its values; None for anything else."""
        if message.kind == b"Q":
            return message.body
        names = message.body.split(b"\0", 2)
        if message.kind == b"P":
            self._statements[names[0]] = names[1]
        elif message.kind == b"B":
            self._portals[names[0]] = self._statements[names[1]] + b" " + names[2]
        elif message.kind == b"E":
            return self._portals[names[0]]
        return None

    def _answer(self) -> None:
        """Pass on what the server answers, but to the commit that is cut."""
        with self._server.makefile("rb") as stream:
            for message in _messages(stream):
                is_ready = message.kind == b"Z"
                if is_ready:
                    self._is_idle = message.body == b"I"
                    if self._is_idle:
                        self._asked.clear()
                if self._trap is None:
                    self._client.sendall(message.wire)
                    continue
                self._kept.append(message)
                if is_ready and self._is_done():
                    return

    def _is_done(self) -> bool:
        """Cut when the commit is done; let the client hear of one that was refused."""
        assert self._trap is not None
        if all(message.kind != b"E" for message in self._kept):
            self._cut.fire(self._trap, self)
            return True
        self._cut.put_back(self._trap)
        refusal = b"".join(message.wire for message in self._kept)
        self._trap, self._kept = None, []
        self._client.sendall(refusal)
        return False


def _messages(stream: BufferedIOBase) -> Iterator[_Message]:
    while kind := stream.read(1):
        (size,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
        yield _Message(kind, _exactly(stream, size - _LENGTH.size))


def _exactly(stream: BufferedIOBase, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _connected(address: Address) -> socket.socket:
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        return connection
    return socket.create_connection(address)
