"""The server's HTTP protocol with its connections watched. Knows uvicorn, and raw answers."""

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apps.doors.guard.connections import LOOK_EVERY_S, Connections, Refusal, Stage, Standing
from apps.doors.guard.rawanswers import raw_answer

# Of Linux' struct tcp_info: bytes the other side has acknowledged, and bytes that have come.
_TCP_INFO_BYTES = 136
_MOVED = struct.Struct("QQ")
_MOVED_AT = 120
# Who was turned away may say what it wanted first; else the answer is lost to it.
_LINGER_S = 1.0
# So many are answered at once; of more, each is closed without a word.
_TURNED_AWAY_MAX = 64
_NOTHING = Standing(Stage.OTHER, None, 0)


_REFUSALS = {
    Refusal.ALL: ("overloaded", "there are as many connections as there may be"),
    Refusal.CLIENT: ("too_many_requests", "this client has as many connections as it may"),
}


class TurnedAway(asyncio.Protocol):
    """A connection that was not taken: it is answered once it has said something, and closed."""

    _count = 0

    def __init__(self, answer: bytes) -> None:
        """Keep the answer for the first bytes that come."""
        self._answer = answer
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a moment; where many wait already, close at once."""
        assert isinstance(transport, asyncio.Transport)
        TurnedAway._count += 1
        self._transport = transport
        if TurnedAway._count > _TURNED_AWAY_MAX:
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(_LINGER_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Answer the first bytes, and read away the rest, until the client has closed."""
        del data
        if self._answer:
            self._transport.write(self._answer)
            self._answer = b""
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for the next."""
        del exc
        TurnedAway._count -= 1
        if self._timer is not None:
            self._timer.cancel()


def guarded(base: type[HttpToolsProtocol], connections: Connections) -> type[HttpToolsProtocol]:
    """Return the protocol with every connection among `connections`, looked at once a second."""
    looking = _Looking(connections)

    class Guarded(base):  # type: ignore[misc, valid-type]
        """A connection that can be turned away, and given up where it stands still."""

        _socket_transport: asyncio.Transport
        _is_taken = False

        def connection_made(self, transport: asyncio.Transport) -> None:
            """Take the connection, or hand it to who turns it away."""
            peer = transport.get_extra_info("peername")
            refusal = connections.open(self, peer[0] if peer else "")
            if refusal is not None:
                turned_away = TurnedAway(raw_answer(*_REFUSALS[refusal]))
                turned_away.connection_made(transport)
                transport.set_protocol(turned_away)
                return
            self._socket_transport = transport
            looking.go_on(self.loop)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the connection."""
            connections.close(self)
            super().connection_lost(exc)

        def standing(self) -> Standing:
            """Return what it is at, by what the server keeps of it anyway."""
            transport = self._socket_transport
            unsent = transport.get_write_buffer_size()
            if transport.get_protocol() is not self:
                # A web socket by now: who has it ends it, and only its bytes are our matter.
                if transport.is_closing() and not unsent:
                    return Standing(Stage.OTHER, None, 0, is_gone=True)
                return self._moved(Stage.ANSWER, None) if unsent else _NOTHING
            if unsent:
                return self._moved(Stage.ANSWER, self.cycle)
            if self.scope is None:
                return Standing(Stage.HEAD, None, 0)
            cycle = self.cycle
            if cycle is None or cycle.scope is not self.scope:
                return Standing(Stage.HEAD, self.scope, 0)
            if cycle.more_body and not cycle.response_complete and not self.flow.read_paused:
                return self._moved(Stage.BODY, cycle)
            return _NOTHING

        def give_up(self, stage: Stage) -> None:
            """End the connection; say why where that can still be read."""
            transport = self._socket_transport
            if transport.is_closing() or stage is Stage.ANSWER:
                transport.abort()
                return
            has_begun = (
                self.cycle is not None and stage is Stage.BODY and (self.cycle.response_started)
            )
            if self.scope is not None and not has_begun:
                transport.write(raw_answer("request_timeout", _TOO_SLOW[stage]))
            transport.close()

        def _moved(self, stage: Stage, of: object) -> Standing:
            transport = self._socket_transport
            moved = _moved_bytes(transport.get_extra_info("socket"))
            if moved is not None:
                return Standing(stage, of, moved[stage is Stage.BODY])
            # What is not sent gets less; of a body nobody knows how much came.
            return (
                _NOTHING
                if stage is Stage.BODY
                else Standing(stage, of, -transport.get_write_buffer_size())
            )

    return Guarded


_TOO_SLOW = {
    Stage.HEAD: "the head of the request did not come to its end in time",
    Stage.BODY: "the body came too slowly",
}


class _Looking:
    """Looks at the connections once a second for as long as there are any."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """See that there is another look."""
        if self._timer is None:
            self._timer = loop.call_later(LOOK_EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._connections.look()
        if len(self._connections):
            self.go_on(loop)


def _moved_bytes(tcp: Any) -> tuple[int, int] | None:
    """Return how many bytes the other side has taken and has sent; None where nobody tells."""
    try:
        data = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        taken, came = _MOVED.unpack_from(data, _MOVED_AT)
    except (AttributeError, OSError, struct.error):
        return None
    return taken, came
