"""The server's own part: a request's head has a limit, and head and body go out together."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn

from apps.bridge.serving import HEAD_BYTES_MAX, JoinedWrites, Protocol


class RecordingTransport:
    """A transport that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.calls.append(list(parts))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.calls.append("close")


async def test_a_head_and_its_body_are_one_write() -> None:
    transport = RecordingTransport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type]

    joined.write(b"head")
    joined.write(b"body")
    joined.write(b"")

    assert transport.calls == [[b"head", b"body"]]


async def test_a_head_without_a_body_goes_out_at_the_end_of_the_turn_or_before_a_close() -> None:
    transport = RecordingTransport()
    joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type]

    joined.write(b"alone")
    await asyncio.sleep(0)
    joined.write(b"last")
    joined.close()

    assert transport.calls == [b"alone", b"last", "close"]


async def _application(scope: dict, receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"fine"})  # type: ignore[operator]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Serve on a free port."""
    config = uvicorn.Config(
        _application, http=Protocol, lifespan="off", log_config=None, port=0, timeout_keep_alive=5
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def answer_to(port: int, header_bytes: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: ")
    writer.write(b"a" * header_bytes + b"\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_head_within_the_limit_is_served_and_a_longer_one_refused(port: int) -> None:
    within = await answer_to(port, HEAD_BYTES_MAX - 200)
    beyond = await answer_to(port, HEAD_BYTES_MAX + 1)

    assert within.startswith(b"HTTP/1.1 200")
    assert b"fine" in within
    assert beyond.startswith(b"HTTP/1.1 400")
