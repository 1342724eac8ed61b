"""The door behind the real server: what only a socket can show."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn

from apps.bridge.prompt import Desk, PromptProtocol
from apps.doors.http.app import create_app, create_door
from apps.doors.http.calls import Receive, Scope, Send
from apps.doors.http.settings import DoorSettings
from apps.doors.http.turns import TurnsOfSends
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

PULL = "/api/v1/topics/single/queues/0/messages"
SEND = "/api/v1/topics/single/messages"


class Connection:
    """One HTTP/1.1 connection, byte by byte ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def request(self, method: str, target: str, body: bytes = b"", extra: str = "") -> None:
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: localhost\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        )
        await self.write(head.encode() + body)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the next response."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split(" ")[1]), headers, body

    async def is_closed(self) -> bool:
        return await self._reader.read(1) == b""

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class PromptApplication:
    """The door, with a desk for what is answered promptly: as the broker serves it."""

    def __init__(self, engine: Recorder, settings: DoorSettings, clock: ManualClock) -> None:
        door = create_door(settings, clock=clock)
        self._app = create_app(lambda: engine, settings, door=door)
        self.desk = Desk(TurnsOfSends(door, lambda: engine))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


@pytest.fixture(params=["as uvicorn does", "promptly"])
async def port(
    request: pytest.FixtureRequest, engine: Recorder, settings: DoorSettings, clock: ManualClock
) -> AsyncIterator[int]:
    is_prompt = request.param == "promptly"
    config = uvicorn.Config(
        PromptApplication(engine, settings, clock)
        if is_prompt
        else create_app(lambda: engine, settings, clock=clock),
        http=PromptProtocol if is_prompt else "httptools",
        lifespan="off",
        log_level="error",
        access_log=False,
        # It would stand between the server and the application, and its desk.
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        yield listener.getsockname()[1]
        server.should_exit = True
        await task


@pytest.fixture
async def connection(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = Connection(reader, writer)
    yield connection
    await connection.close()


def document(*bodies: str) -> bytes:
    return json.dumps({"messages": [{"body": body} for body in bodies], "ack": "sync"}).encode()


async def test_messages_go_in_and_come_out(connection: Connection) -> None:
    await connection.request("POST", SEND, document("a", "ü"))
    sent, _, _ = await connection.answer()

    await connection.request("GET", f"{PULL}?offset=0")
    status, headers, body = await connection.answer()

    assert (sent, status) == (201, 200)
    assert headers["content-type"] == "application/json"
    assert [message["body"] for message in json.loads(body)["messages"]] == ["a", "ü"]


async def test_a_commit_is_answered_without_a_body(connection: Connection) -> None:
    commit = {"offsets": [{"topic": "single", "queue": 0, "offset": "0"}]}

    await connection.request("POST", "/api/v1/groups/g/offsets:commit", json.dumps(commit).encode())
    status, headers, _ = await connection.answer()

    assert status == 204
    assert "content-length" not in headers
    assert "transfer-encoding" not in headers


async def test_requests_may_be_sent_before_the_answers_are_read(connection: Connection) -> None:
    for number in range(20):
        await connection.request("POST", SEND, document(str(number)))

    answers = [await connection.answer() for _ in range(20)]

    offsets = [json.loads(body)["results"][0]["offset"] for _, _, body in answers]
    assert offsets == [str(number) for number in range(20)]


async def test_after_an_oversize_body_the_connection_goes_on(connection: Connection) -> None:
    """The client is still writing when it is refused; what it writes is no next request."""
    size_bytes = 16 * 2**20 + 1
    writing = asyncio.create_task(connection.request("POST", SEND, bytes(size_bytes)))

    refused, _, body = await connection.answer()
    await writing
    await connection.request("POST", SEND, document("next"))
    status, _, _ = await connection.answer()

    assert refused == 413
    assert json.loads(body)["code"] == "request_too_large"
    assert status == 201


async def test_a_client_that_waits_for_leave_to_send_is_refused_and_cut_off(
    connection: Connection,
) -> None:
    head = (
        f"POST {SEND} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        "content-length: 99999999\r\nexpect: 100-continue\r\n\r\n"
    )

    await connection.write(head.encode())
    status, _, _ = await connection.answer()

    assert status == 413
    assert await connection.is_closed()


async def test_a_chunked_body_is_refused_at_the_limit(connection: Connection) -> None:
    head = (
        f"POST {SEND} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        "transfer-encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"

    async def write() -> None:
        await connection.write(head.encode())
        for _ in range(20):
            await connection.write(chunk)
        await connection.write(b"0\r\n\r\n")

    writing = asyncio.create_task(write())
    status, _, _ = await connection.answer()
    await writing
    await connection.request("GET", "/healthz")
    after, _, _ = await connection.answer()

    assert (status, after) == (413, 200)


async def test_a_closed_connection_ends_its_parked_pull(port: int, engine: Recorder) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = Connection(reader, writer)
    await connection.request("GET", f"{PULL}?offset=0&wait_ms=30000")
    while engine.status().parked == 0:
        await asyncio.sleep(0)

    await connection.close()

    while engine.status().parked:
        await asyncio.sleep(0)
    assert engine.calls == ["pull"]


HEARTBEAT = "/api/v1/groups/g/members/10.0.0.7%2Fa:heartbeat"
LEAVE = "/api/v1/groups/g/members/10.0.0.7%2Fa:leave"


def subscribed(**fields: object) -> bytes:
    return json.dumps({"subscriptions": [{"topic": "single"}]} | fields).encode()


async def test_a_member_joins_and_leaves_without_a_body(
    connection: Connection, engine: Recorder
) -> None:
    await connection.request("POST", HEARTBEAT, subscribed())
    joined, _, body = await connection.answer()
    members = [member.client_id for member in engine.members()]
    await connection.write(
        f"POST {LEAVE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode()
    )
    left, headers, _ = await connection.answer()

    assert (joined, json.loads(body)["assignment"]) == (200, {"single": [0]})
    assert members == ["10.0.0.7/a"]
    assert left == 204
    assert "content-length" not in headers
    assert engine.members() == []


async def test_a_closed_connection_ends_its_parked_heartbeat_and_soon_its_membership(
    port: int, connection: Connection, engine: Recorder, clock: ManualClock
) -> None:
    await connection.request("POST", HEARTBEAT, subscribed())
    _, _, body = await connection.answer()
    generation = json.loads(body)["generation"]
    parked = Connection(*await asyncio.open_connection("127.0.0.1", port))
    await parked.request("POST", HEARTBEAT, subscribed(generation=generation, wait_ms=30_000))
    while not any(member.is_waiting for member in engine.members()):
        await asyncio.sleep(0)

    await parked.close()

    while any(member.is_waiting for member in engine.members()):
        await asyncio.sleep(0)
    assert len(engine.members()) == 1
    clock.now_ms += 5_001
    engine.rebalance(reason="beat")
    assert engine.members() == []


async def test_a_lost_lock_is_told_by_a_problem_document(connection: Connection) -> None:
    await connection.request(
        "GET", f"{PULL}?offset=0&group=g&client_id=c&epoch=1&wait_ms=30000", extra="accept: */*\r\n"
    )
    status, headers, body = await connection.answer()
    await connection.request("GET", "/healthz")
    after, _, _ = await connection.answer()

    assert (status, json.loads(body)["code"]) == (409, "lock_lost")
    assert headers["content-type"] == "application/problem+json"
    assert after == 200


async def test_a_topic_name_with_a_percent_sign_arrives_decoded_once(
    connection: Connection,
) -> None:
    await connection.request(
        "POST", "/api/v1/topics/%25a%7Cb%25billing/messages", document("again")
    )
    status, _, _ = await connection.answer()

    assert status == 201


async def test_a_head_request_has_the_headers_alone(connection: Connection) -> None:
    await connection.write(b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await connection.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")

    head = await connection._reader.readuntil(b"\r\n\r\n")
    status, _, body = await connection.answer()

    assert b"content-length: 18\r\n" in head.lower()
    assert (status, body) == (200, b'{"status":"alive"}')
