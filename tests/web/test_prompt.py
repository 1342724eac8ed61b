"""Requests with a known head: not parsed again, and answered once, by the desk or the parser."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from apps.bridge.management.commands import broker
from apps.bridge.prompt import Desk, PromptProtocol
from mqweb import asgi

REQUEST = b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


class Wire(asyncio.Transport):
    """The transport under a protocol: what it was told to do."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: Any) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Clerk:
    """Knows the heads of `/known`; keeps the requests until it is told what to do."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def meaning_of(self, scope: Any) -> str | None:
        return "known" if scope["path"] == "/known" else None

    def answer(self, requests: list[Any]) -> None:
        self.asked += requests


class Application:
    """Answers with the body it was sent, as the parser's way does."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.parsed: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        self.parsed.append(body)
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})


class Server:
    """One connection, and both ways to answer on it."""

    def __init__(self, **settings: Any) -> None:
        self.clerk = Clerk()
        self.desk = Desk(self.clerk)
        self.application = Application(self.desk)
        config = uvicorn.Config(
            self.application,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            **settings,
        )
        config.load()
        self._new: Callable[[], PromptProtocol] = lambda: PromptProtocol(
            config, self.state, {}, asyncio.get_running_loop()
        )
        self.state = ServerState()
        self.wire = Wire()
        self.protocol = self.connect(self.wire)

    def connect(self, wire: Wire) -> PromptProtocol:
        protocol = self._new()
        protocol.connection_made(wire)
        return protocol

    async def learn(self, head: bytes = REQUEST, body: bytes = b"body") -> None:
        """Send a request by the parser's way."""
        parsed = len(self.application.parsed)
        self.protocol.data_received(head + body)
        while len(self.application.parsed) == parsed:
            await asyncio.sleep(0)
        await turn()
        self.wire.written = b""


async def turn() -> None:
    """Return when what was called in this turn has happened."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> Server:
    return Server()


async def test_a_head_that_came_before_goes_to_the_desk(server: Server) -> None:
    await server.learn()
    server.protocol.data_received(REQUEST + b"more")
    await turn()

    (request,) = server.clerk.asked
    assert (request.meaning, request.body, request.client) == ("known", b"more", None)
    request.answer(201, b"x-one: 1\r\n", b"yes")
    assert server.wire.written == (
        b"HTTP/1.1 201 Created\r\nx-one: 1\r\ncontent-length: 3\r\n\r\nyes"
    )
    assert server.application.parsed == [b"body"]


async def test_a_head_is_known_on_every_connection_and_a_turn_is_taken_together(
    server: Server,
) -> None:
    await server.learn()
    others = [server.connect(Wire()) for _ in range(3)]

    for number, other in enumerate(others):
        other.data_received(REQUEST + b"%04d" % number)
    assert server.clerk.asked == []
    await turn()

    assert [request.body for request in server.clerk.asked] == [b"0000", b"0001", b"0002"]


@pytest.mark.parametrize(
    "head",
    [
        REQUEST.replace(b"/known", b"/other"),
        REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        REQUEST.replace(b"\r\n\r\n", b"\r\nUpgrade: something\r\n\r\n"),
        REQUEST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"),
        REQUEST.replace(b"\r\n\r\n", b"\r\nX-Long: " + b"a" * 1024 + b"\r\n\r\n"),
    ],
)
async def test_other_heads_are_not_learnt(server: Server, head: bytes) -> None:
    await server.learn(head)

    assert server.desk.heads == {}


async def test_a_body_in_chunks_or_a_long_one_is_left_to_the_parser(server: Server) -> None:
    chunked = b"POST /known HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    await server.learn(chunked, b"4\r\nbody\r\n0\r\n\r\n")
    long = REQUEST.replace(b"Length: 4", b"Length: 70000")
    await server.learn(long, b"b" * 70_000)

    assert server.desk.heads == {}


async def test_nothing_is_learnt_of_two_requests_that_came_together(server: Server) -> None:
    await server.learn(REQUEST, b"body" + REQUEST + b"next")
    await turn()

    assert server.desk.heads == {}
    assert server.application.parsed == [b"body", b"next"]


async def test_a_request_in_pieces_is_put_together_by_the_parser(server: Server) -> None:
    await server.learn()
    for piece in (REQUEST, b"bo", b"dy"):
        server.protocol.data_received(piece)
    await turn()

    assert server.clerk.asked == []
    assert server.application.parsed == [b"body", b"body"]
    server.protocol.data_received(REQUEST + b"desk")
    await turn()
    assert [request.body for request in server.clerk.asked] == [b"desk"]


async def test_the_bytes_of_a_body_are_no_head(server: Server) -> None:
    """A body may hold what looks like a request, piece by piece too."""
    await server.learn()
    inner = REQUEST + b"evil"
    outer = b"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner)
    server.protocol.data_received(outer)
    server.protocol.data_received(inner)
    await turn()

    assert server.clerk.asked == []
    assert server.application.parsed == [b"body", inner]


async def test_what_comes_before_the_answer_waits_and_is_answered_next(server: Server) -> None:
    await server.learn()
    server.protocol.data_received(REQUEST + b"one.")
    server.protocol.data_received(REQUEST + b"two." + REQUEST)
    server.protocol.data_received(b"tri.")
    await turn()
    (first,) = server.clerk.asked
    assert server.wire.is_paused

    first.answer(201, b"", b"1")
    await turn()

    assert not server.wire.is_paused
    assert server.application.parsed == [b"body", b"two.", b"tri."]
    assert server.wire.written.startswith(b"HTTP/1.1 201")
    assert server.wire.written.count(b"HTTP/1.1 200") == 2
    assert server.wire.written.endswith(b"tri.")


async def test_a_declined_request_is_answered_by_the_application(server: Server) -> None:
    await server.learn()
    server.protocol.data_received(REQUEST + b"one.")
    server.protocol.data_received(REQUEST + b"two.")
    await turn()

    server.clerk.asked[0].decline()
    await turn()

    assert server.application.parsed == [b"body", b"one.", b"two."]
    assert server.wire.written.endswith(b"two.")
    assert not server.wire.is_paused


async def test_a_client_that_left_is_told_nothing(server: Server) -> None:
    await server.learn()
    server.protocol.data_received(REQUEST + b"one.")
    await turn()
    server.wire.close()
    server.protocol.connection_lost(None)

    server.clerk.asked[0].answer(201, b"", b"")
    assert server.wire.written == b""

    other = server.connect(wire := Wire())
    other.data_received(REQUEST + b"two.")
    await turn()
    wire.close()
    other.connection_lost(None)
    server.clerk.asked[1].decline()
    await turn()
    assert server.application.parsed == [b"body"]


@pytest.mark.parametrize("is_declined", [False, True])
async def test_a_stopping_server_answers_what_is_at_the_desk_and_closes(
    server: Server, is_declined: bool
) -> None:
    await server.learn()
    server.protocol.data_received(REQUEST + b"last")
    await turn()

    server.protocol.shutdown()
    assert not server.wire.is_closed
    (request,) = server.clerk.asked
    if is_declined:
        request.decline()
    else:
        request.answer(201, b"", b"last")
    await turn()

    assert b"connection: close\r\n" in server.wire.written
    assert server.wire.written.endswith(b"last")
    assert server.wire.is_closed


async def test_an_idle_connection_is_closed_when_its_time_is_over_since_the_last_answer(
    server: Server,
) -> None:
    protocol = server.connect(wire := Wire())
    await server.learn()
    protocol.data_received(REQUEST + b"one.")
    await turn()
    server.clerk.asked[0].answer(201, b"", b"")
    timer = protocol.timeout_keep_alive_task
    assert timer is not None

    protocol.timeout_keep_alive_handler()
    assert not wire.is_closed, "it was answered just now"
    protocol.timeout_keep_alive = -1
    protocol.timeout_keep_alive_handler()

    assert wire.is_closed
    timer.cancel()


async def test_heads_that_are_too_many_are_forgotten(server: Server) -> None:
    for number in range(1030):
        server.desk.learn(b"%d" % number, {"path": "/known"}, 0)

    assert len(server.desk.heads) <= 1024


async def test_the_brokers_own_server_has_a_desk() -> None:
    config = broker._configuration()
    config.load()

    protocol = PromptProtocol(config, ServerState(), {}, asyncio.get_running_loop())

    assert isinstance(config.http_protocol_class, type)
    assert issubclass(config.http_protocol_class, PromptProtocol)
    assert protocol._desk is asgi.application.desk


@pytest.mark.parametrize("settings", [{"limit_concurrency": 5}, {"server_header": True}])
async def test_a_server_that_does_more_than_answer_does_it_for_all(
    settings: dict[str, Any],
) -> None:
    server = Server(**settings)
    server.state.default_headers = [(b"server", b"x")] if "server_header" in settings else []
    await server.learn()
    server.protocol.data_received(REQUEST + b"more")
    await turn()

    assert server.clerk.asked == []
    assert server.application.parsed == [b"body", b"more"]
