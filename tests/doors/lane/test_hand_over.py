"""The lane over real sockets: how HTTP hands a connection over, and what the server counts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
import uvloop

from apps.bridge.serving import Protocol
from apps.doors.http.calls import Door
from apps.doors.http.settings import DoorSettings
from apps.doors.lane.app import create_app
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.doors.fake_engine import FakeEngine, ManualClock
from tests.doors.lane.frames import answers, appended, batch, frame

QUESTION = (
    "{method} /api/v1/lane HTTP/1.1\r\nHost: {host}\r\n"
    "Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
)


def question(
    method: str = "GET", host: str = "127.0.0.1:8000", protocol: str = "mqweb-lane/1"
) -> bytes:
    return QUESTION.format(method=method, host=host, protocol=protocol).encode()


@asynccontextmanager
async def serving() -> AsyncIterator[uvicorn.Server]:
    engine = FakeEngine(ManualClock())
    engine.publish_catalog(
        CatalogSnapshot(version=1, topics={"orders": TopicSpec(name="orders", queue_count=4)})
    )
    door = Door(settings=DoorSettings(), clock=ManualClock())
    config = uvicorn.Config(
        create_app(lambda: engine, door),  # type: ignore[arg-type, return-value]
        http=Protocol,
        lifespan="off",
        log_config=None,
        port=0,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    yield server
    server.should_exit = True
    await task


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "scenario",
    [
        "carries_frames_and_is_counted_until_its_end",
        "is_closed_when_the_server_stops",
    ],
)
def test_a_connection_that_is_handed_over(run: Callable[..., None], scenario: str) -> None:
    run(globals()[scenario]())


async def connect(server: uvicorn.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = server.servers[0].sockets[0].getsockname()[1]
    return await asyncio.open_connection("127.0.0.1", port)


async def carries_frames_and_is_counted_until_its_end() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(question())
        head = await reader.readuntil(b"\r\n\r\n")
        kinds = {type(one).__name__ for one in server.server_state.connections}
        writer.write(frame(1, batch(b"small")))
        small = await reader.readexactly(36)
        writer.write(frame(2, batch(bytes(500_000))))
        large = await reader.readexactly(36)
        writer.close()
        async with asyncio.timeout(60):
            while server.server_state.connections:
                await asyncio.sleep(0.001)

    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nupgrade: mqweb-lane/1\r\n" in head
    assert kinds == {"Connection"}
    assert [appended(*answers(one)) for one in (small, large)] == [(1, 0), (1, 1)]


async def is_closed_when_the_server_stops() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(question())
        await reader.readuntil(b"\r\n\r\n")
        server.should_exit = True

        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        (question(host="evil.example"), b"400", b"bad_host"),
        (question(protocol="mqweb-lane/9"), b"426", b"upgrade_required"),
        (question(method="POST"), b"405", b"method_not_allowed"),
        (b"GET /api/v1/lane HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
         b"426", b"upgrade_required"),
    ],
    ids=["host", "protocol", "method", "plain"],
)  # fmt: skip
async def test_whoever_asks_otherwise_is_told(asked: bytes, status: bytes, code: bytes) -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        body = await reader.read()
        writer.close()

    assert head.split()[1] == status
    assert b'"code":"%b"' % code in body
