"""How the HTTP server writes its answers, and hands a connection over to another protocol.

Knows uvicorn's protocol, nothing of what is answered.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The contract's limit on request line and headers.
HEAD_BYTES_MAX = 16 * 1024

# The extension of an ASGI scope that takes the connection away from HTTP: its `to` is called with
# an `Upgraded` and the headers of the 101. Only requests that ask for an upgrade have it.
HAND_OVER = "mqweb.hand_over"


class JoinedWrites:
    """A transport that sends the head of an answer together with what follows it in the same turn.

    The server writes head and body apart; a client that waits would be woken twice, which costs
    more than the whole answer. What nothing follows is sent at the end of the turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Write through to `transport`."""
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Send what is held and `data`, or hold `data` when nothing is."""
        if self._held:
            held, self._held = self._held, b""
            # Not joined: a body may be megabytes.
            self._transport.writelines([held, data])
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def write_whole(self, data: bytes) -> None:
        """Send what is held, then `data`, which nothing follows in this turn."""
        if self._held:
            self._flush()
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Say whether the transport is closed or about to be; asked after every answer."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Send what is held and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Leave everything else to the transport, with nothing held back."""
        self._flush()
        return getattr(self._transport, name)

    def handed_over(self) -> asyncio.Transport:
        """Return the transport itself, with nothing held back."""
        self._flush()
        return self._transport

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            if not self._transport.is_closing():
                self._transport.write(held)


class HeadTooLong(ValueError):
    """Request line and headers are longer than the limit; the server answers 400 and closes."""

    def __init__(self) -> None:
        """Say what the limit is."""
        super().__init__(f"the head of a request is over {HEAD_BYTES_MAX} bytes")


class Upgraded(asyncio.BaseProtocol):
    """A protocol that goes on where HTTP ended; the server ends it as it ends its own."""

    server_connections: set[Any] | None = None  # What uvicorn waits for; its own type is wider.

    def gone(self) -> None:
        """Say that the connection has ended."""
        if self.server_connections is not None:
            self.server_connections.discard(self)

    def shutdown(self) -> None:
        """Finish what is under way, and close."""
        raise NotImplementedError


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol over joined writes, with a limit on a request's head."""

    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the request line."""
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise HeadTooLong
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        # Written out: this runs for every header of every request, and a call costs as much as it.
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise HeadTooLong
        super().on_header(name, value)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport between the server and the socket."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]

    def on_headers_complete(self) -> None:
        """Let a request that asks for another protocol have the connection."""
        if self.parser.should_upgrade():
            self.scope["extensions"] = {HAND_OVER: {"to": self._hand_over}}
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: whoever asks for a protocol that is not served is answered as by HTTP."""

    def _hand_over(self, protocol: Upgraded, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Answer 101 and let `protocol` read and write from here on; once, from a request."""
        # Nothing more is to be answered by HTTP.
        self.cycle.disconnected = True
        if self.transport.is_closing():
            return
        joined = self.transport
        assert isinstance(joined, JoinedWrites)
        transport = joined.handed_over()
        lines = [b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n"]
        lines += [b"%b: %b\r\n" % header for header in headers]
        transport.write(b"".join([*lines, b"\r\n"]))
        self.connections.discard(self)
        self.connections.add(protocol)  # type: ignore[arg-type]
        protocol.server_connections = self.connections
        # A protocol of another kind reads in another way, which begins with the next read.
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
