"""Real sockets on the real server: who is turned away, and who is given up."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import uvicorn

from apps.bridge import serving
from apps.doors.guard import protocol
from apps.doors.guard.connections import ConnectionRules, Connections, Stage
from apps.doors.guard.protocol import guarded
from apps.doors.http.calls import Event, Receive, Scope, Send
from apps.engine.testing.manualclock import ManualClock

RULES = ConnectionRules(connections_max=8, client_connections_max=4)
ANSWER_BYTES = 24 * 1024 * 1024
HANG_S = 30
BODY_AND_NO_MORE = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"


class Server:
    """A server whose connections are looked at when a test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connections = Connections(RULES, self.clock)
        self.port = 0
        self.ended: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body; answer with a few bytes, or with many where the path says so."""
        while True:
            event: Event = await receive()
            if event["type"] != "http.request":
                self.ended.append("gone")
                return
            if not event["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/large":
            body = bytes(ANSWER_BYTES)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"fine"})
        self.ended.append("answered")

    async def let_pass(self, seconds: int) -> None:
        """Let time go by, with a look each second."""
        for _ in range(seconds):
            self.clock.advance(1_000)
            self.connections.look()
        await asyncio.sleep(0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)
        self._writers.append(writer)
        return reader, writer

    async def hang_up(self) -> None:
        """Close every connection from the client's side."""
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG_S):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    server = Server()
    # The looks of the server's own timer are left to the test.
    monkeypatch.setattr(protocol, "LOOK_EVERY_S", 3_600)
    config = uvicorn.Config(
        server.application, http=guarded(serving.Protocol, server.connections), lifespan="off",
        interface="asgi3", log_config=None, port=0, timeout_graceful_shutdown=1,
    )  # fmt: skip
    uvicorn_server = uvicorn.Server(config)
    task = asyncio.create_task(uvicorn_server.serve())
    await server.until(lambda: uvicorn_server.started)
    server.port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
    yield server
    await server.hang_up()
    uvicorn_server.should_exit = True
    await task


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(running(monkeypatch))


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(HANG_S):
        return await reader.read()


async def test_one_connection_too_many_is_told_so_and_the_others_go_on(server: Server) -> None:
    kept = [await server.connect() for _ in range(RULES.client_connections_max)]
    await server.until(lambda: len(server.connections) == len(kept))

    reader, writer = await server.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = (await rest_of(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 1" in head
    assert json.loads(body)["code"] == "too_many_requests"

    kept[0][1].close()
    await server.until(lambda: len(server.connections) == len(kept) - 1)
    reader, writer = await server.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await rest_of(reader)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("sent", "stage", "answer"),
    [
        (b"", Stage.HEAD, b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ", Stage.HEAD, b"HTTP/1.1 408 "),
        (BODY_AND_NO_MORE, Stage.BODY, b"HTTP/1.1 408 "),
    ],
    ids=["says nothing", "head that does not end", "body that does not come"],
)  # fmt: skip
async def test_a_request_that_does_not_come_frees_its_place(
    server: Server, sent: bytes, stage: Stage, answer: bytes
) -> None:
    reader, writer = await server.connect()
    writer.write(sent)
    await server.until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    # Before anything has come there is nothing that stands.
    await server.until(lambda: not sent or connection.standing().of is not None)
    assert connection.standing().stage is stage

    await server.let_pass(22)

    assert (await rest_of(reader))[: len(answer) or None] == answer
    await server.until(lambda: len(server.connections) == 0)
    assert server.connections.given_up == {stage: 1}
    assert server.ended == (["gone"] if stage is Stage.BODY else [])


@pytest.mark.parametrize("ending", [b"", b"Connection: close\r\n"])
async def test_an_answer_that_nobody_reads_is_given_up_and_its_memory_freed(
    server: Server, ending: bytes
) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n" + ending + b"\r\n")
    await server.until(lambda: len(server.connections) == 1)
    (connection,) = server.connections
    await server.until(lambda: connection.standing().stage is Stage.ANSWER)
    # What the buffers of the system take they have soon taken.
    await _still(connection.standing)

    await server.let_pass(22)

    await server.until(lambda: len(server.connections) == 0)
    await server.until(lambda: bool(server.ended))
    assert server.connections.given_up == {Stage.ANSWER: 1}
    del reader


async def test_a_slow_reader_that_does_read_gets_all_of_it(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    got = 0
    async with asyncio.timeout(HANG_S):
        while data := await reader.read(4 * 1024 * 1024):
            got += len(data)
            if got % 7 == 0:
                await server.let_pass(5)
    assert got > ANSWER_BYTES
    assert server.connections.given_up == {}


async def test_a_kept_connection_is_not_given_up_between_two_requests(server: Server) -> None:
    reader, writer = await server.connect()
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"fine")).startswith(b"HTTP/1.1 200 ")
        assert await reader.readuntil(b"0\r\n\r\n")
        await server.let_pass(60)


async def _still(standing: Callable[[], object]) -> None:
    """Wait until nothing moves any more."""
    before: object = None
    async with asyncio.timeout(HANG_S):
        while standing() != before:
            before = standing()
            await asyncio.sleep(0.05)
