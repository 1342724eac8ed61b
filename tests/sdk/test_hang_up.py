"""Hanging up: the server learns that nobody waits any more, and what it has sent still arrives."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from mqclient.clock import SystemClock
from mqclient.errors import Closed, ConnectionLost
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.transport.blocking import Pool

# Generous: a machine under load is slow, and only a hang must fail.
WAIT_S = 60.0
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Server:
    """Takes one request, waits until its sender hangs up, and then does as it is told."""

    def __init__(self, then: Callable[[socket.socket], None]) -> None:
        self._then = then
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.has_request = threading.Event()
        self.heard_the_end = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(WAIT_S)
        self._listening.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            connection.settimeout(WAIT_S)
            assert connection.recv(65_536)
            self.has_request.set()
            assert connection.recv(1) == b""
            self.heard_the_end.set()
            self._then(connection)


class Caller(threading.Thread):
    """Makes a call, and keeps what came of it."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        endpoint = Endpoint.of(server.url)
        self.pool = Pool(endpoint, clock=SystemClock())
        self._call = Calls(endpoint).ready()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.pool.call(self._call, WAIT_S)
        except ConnectionLost as error:
            self.error = error

    def finish(self) -> Exception | None:
        self.join(WAIT_S)
        assert not self.is_alive()
        return self.error


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], Server]]:
    """Start servers that are closed after the test."""
    servers: list[Server] = []

    def start(then: Callable[[socket.socket], None]) -> Server:
        servers.append(Server(then))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def hung_up(server: Server) -> Caller:
    caller = Caller(server)
    caller.start()
    assert server.has_request.wait(WAIT_S)
    caller.pool.hang_up()
    assert server.heard_the_end.wait(WAIT_S)
    return caller


def test_an_answer_that_was_on_its_way_arrives(serve: Callable[..., Server]) -> None:
    caller = hung_up(serve(lambda connection: connection.sendall(ANSWER)))

    assert caller.finish() is None


def test_without_an_answer_the_call_ends(serve: Callable[..., Server]) -> None:
    caller = hung_up(serve(lambda _connection: None))

    assert isinstance(caller.finish(), ConnectionLost)


def test_no_further_call_is_made(serve: Callable[..., Server]) -> None:
    caller = hung_up(serve(lambda _connection: None))
    caller.finish()

    with pytest.raises(Closed):
        caller.pool.call(Calls(Endpoint.of("http://127.0.0.1:1")).ready(), WAIT_S)
