"""A proxy that spoils connections: late, slow, in slices, cut after so many bytes, or reset.

Knows bytes and sockets, each direction and each connection by itself; `relay` knows requests. It
lives in the event loop of its test.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """What happens to one direction of a connection; nothing unless it is said.

    `cut_after` is how many bytes pass before both sides lose the connection: in order, or by a
    reset. Zero bytes a slice, or a second, are as many as come.
    """

    latency_ms: float = 0.0
    slice_bytes: int = 0
    bytes_per_s: float = 0.0
    cut_after: int | None = None
    is_reset: bool = False


Plan = Callable[[int], tuple[Spoiled, Spoiled]]
"""By the number of a connection: what happens on the way there, and on the way back."""


class Spoiler:
    """Listens on a port of its own in front of one server. Use it as a context."""

    def __init__(self, port: int, plan: Plan) -> None:
        """Stand before a port of this machine."""
        self._server_port = port
        self._plan = plan
        self._listener: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        self.cuts_there = 0
        self.cuts_back = 0
        """How many connections were cut, by the direction that said so."""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        # Clients are gone by now, and with them their connections.
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        there, back = self._plan(self.connections)
        self.connections += 1
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        ways = {
            asyncio.ensure_future(_pass_on(reader, server_writer, there)): (there, "there"),
            asyncio.ensure_future(_pass_on(server_reader, writer, back)): (back, "back"),
        }
        try:
            # Whichever side ends first, or is cut, ends the other.
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                spoiled, name = ways[way]
                if way.exception() is None and way.result():
                    setattr(self, f"cuts_{name}", getattr(self, f"cuts_{name}") + 1)
                    if spoiled.is_reset:
                        _reset(writer)
                        _reset(server_writer)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for side in (writer, server_writer):
                side.close()
            self._serving.discard(task)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoiled: Spoiled
) -> bool:
    """Pass on until the side ends; return whether it was cut."""
    left = spoiled.cut_after
    while True:
        # The byte that is cut off has come: what is asked for has been answered by then.
        data = await reader.read(_READ_BYTES if left is None else min(max(1, left), _READ_BYTES))
        if not data:
            return False
        if left == 0:
            return True
        left = None if left is None else left - len(data)
        if spoiled.latency_ms:
            await asyncio.sleep(spoiled.latency_ms / 1_000)
        size = spoiled.slice_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            writer.write(piece)
            await writer.drain()
            # Each piece is read by itself: the other side has its turn in between.
            await asyncio.sleep(len(piece) / spoiled.bytes_per_s if spoiled.bytes_per_s else 0)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Have the connection end with a reset when it is closed, and nothing be sent any more."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
