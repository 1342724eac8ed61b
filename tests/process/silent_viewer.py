"""A viewer on a plain TCP socket that takes what it is sent only when told to. Knows RFC 6455.

What it does not read stays in the kernel until there is no room, and then with the server.
"""

import base64
import json
import os
import socket
import struct
from pathlib import Path
from typing import Any, Self

_TIMEOUT_S = 60.0
# As little as the kernel allows: whatever is sent beyond it has to wait at the other end. Segments
# are short as well, for of long ones the other end's kernel takes megabytes before anybody waits.
_RECEIVE_BYTES, _SEGMENT_BYTES = 4_096, 536
_WIDE_BYTES = 1 << 20
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


class SilentViewer:
    """One viewer of a view; nothing is read until `frame`."""

    def __init__(self, port: int, view: str, *, is_narrow: bool = False) -> None:
        """Shake hands; a narrow one has next to no room for what it does not read."""
        self._socket = socket.socket()
        self._socket.settimeout(_TIMEOUT_S)
        if is_narrow:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
        self._socket.connect(("127.0.0.1", port))
        self._port = port
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /ws/live/?view={view} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Origin: http://127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._read = self._socket.makefile("rb", buffering=0)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._exactly(1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self._socket.close()

    def widen(self) -> None:
        """Have room again."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WIDE_BYTES)

    def say(self, text: str) -> None:
        """Send a short text."""
        self._send(_TEXT, text.encode())

    def _send(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        assert len(data) < 126
        masked = bytes(one ^ mask[index % 4] for index, one in enumerate(data))
        self._socket.sendall(bytes((0x80 | kind, 0x80 | len(data))) + mask + masked)

    def frame(self) -> dict[str, Any]:
        """Return the next frame of the view; AssertionError where the server closes."""
        while True:
            first, second = self._exactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._exactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._exactly(8))
            data = self._exactly(length)
            assert first & 0x0F != _CLOSE, data
            assert first & 0x80, "the server sends frames in one piece"
            if first & 0x0F == _PING:
                self._send(_PONG, data)
            if first & 0x0F == _TEXT:
                found: dict[str, Any] = json.loads(data)
                return found

    def waiting_bytes(self) -> int:
        """Return how much the server's kernel keeps for it, sent and not yet taken."""
        mine = self._socket.getsockname()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            if _port(local) == self._port and _port(remote) == mine:
                return int(queues.partition(":")[0], 16)
        raise AssertionError("the server has closed the connection")

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            more = self._read.read(count - len(found))
            assert more, "the server has closed the connection"
            found += more
        return bytes(found)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
