"""Pass HTTP/1.1 through, one request at a time a connection, and let somebody watch.

It runs inside a client's process, so that it dies and stands still with the client. Knows heads,
lengths and sockets; what requests mean is the watcher's concern. When one side closes, the other is
closed too: the broker must notice that a client is gone, and a client that the broker is.
"""

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

_READ_BYTES = 256 * 1024
_HEAD_BYTES_MAX = 64 * 1024
_END_OF_HEAD = b"\r\n\r\n"

Answered = Callable[["Answer | None"], None]
"""Called once a request: with the whole answer, or with None when there will be none."""
Watcher = Callable[["Request"], Answered | None]
"""Called before a request leaves; None is not interested in what becomes of it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    target: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it goes back."""

    status: int
    body: bytes


class _Ended(Exception):
    """One of the two sides is gone."""


class Relay:
    """Listens on a port of its own and passes everything on to one broker."""

    def __init__(self, port: int, watcher: Watcher) -> None:
        """Pass on to a port of this machine; `start` begins."""
        self._broker = ("127.0.0.1", port)
        self._watcher = watcher
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Serve in threads that end with the process."""
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(_Ended, OSError),
            client,
            socket.create_connection(self._broker, timeout=5) as broker,
        ):
            for side in (client, broker):
                side.settimeout(60)
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Exchange(client, broker, self._watcher).run()


class _Exchange:
    """Everything that goes over one connection of a client."""

    def __init__(self, client: socket.socket, broker: socket.socket, watcher: Watcher) -> None:
        self._client = client
        self._broker = broker
        self._watcher = watcher

    def run(self) -> None:
        """Pass on until one side ends; raise _Ended or OSError then."""
        while True:
            self._wait_for(self._client)
            head, body = self._message(self._client)
            method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
            answered = self._watcher(Request(method, target, body)) or (lambda answer: None)
            try:
                self._broker.sendall(head + body)
                self._wait_for(self._broker)
                head, body = self._message(self._broker)
            except (_Ended, OSError):
                answered(None)
                raise
            # Before the client has it: what the client does next comes after it in the history.
            answered(Answer(int(head.split(b" ", 2)[1]), body))
            self._client.sendall(head + body)

    def _wait_for(self, wanted: socket.socket) -> None:
        """Return when a side has something to say; raise _Ended when either side has ended."""
        while True:
            readable, _, _ = select.select([self._client, self._broker], [], [])
            for side in readable:
                if not side.recv(1, socket.MSG_PEEK):
                    raise _Ended
            if wanted in readable:
                return

    def _message(self, side: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        while _END_OF_HEAD not in data:
            assert len(data) < _HEAD_BYTES_MAX
            data += self._read(side)
        head, _, body = data.partition(_END_OF_HEAD)
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        assert b"transfer-encoding" not in fields, "the product sends lengths"
        missing = int(fields.get(b"content-length", b"0")) - len(body)
        parts = [body]
        while missing > 0:
            parts.append(self._read(side))
            missing -= len(parts[-1])
        assert missing == 0, "more than one message at a time"
        return head + _END_OF_HEAD, b"".join(parts)

    def _read(self, side: socket.socket) -> bytes:
        data = side.recv(_READ_BYTES)
        if not data:
            raise _Ended
        return data
