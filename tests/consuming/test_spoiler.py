"""Sends over spoiled connections: numbered ones are stored once, and half a request is none.

Rows H8 and N1 of the fault table, with the product's own server, door and engine in one process.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from apps.bridge.serving import Protocol
from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.consuming.spoiler import Plan, Spoiled, Spoiler
from tests.rounds import seed_of_run

PATH = "/api/v1/topics/orders/messages"
FINE = Spoiled()


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Serve a store with one topic of one queue on a free port."""
    config = EngineConfig(segment_bytes=34 * MIB, reserve_bytes=0)
    engine = await LocalEngine.open(tmp_path / "store", config)
    orders = TopicSpec(name="orders", queue_count=1)
    engine.publish_catalog(CatalogSnapshot(version=1, topics={"orders": orders}))
    application = create_app(lambda: engine, DoorSettings())
    server = uvicorn.Server(
        uvicorn.Config(application, http=Protocol, lifespan="off", log_config=None, port=0)
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving
    await engine.close()


def request_of(method: str, path: str, document: object = None) -> bytes:
    body = b"" if document is None else json.dumps(document).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def ask(port: int, request: bytes) -> tuple[int, Any] | None:
    """Make a request on a connection of its own; None where there is no whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        answer = await reader.read()
    except OSError:
        return None
    finally:
        writer.transport.abort()
    head, _, body = answer.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if not lengths or len(body) < int(lengths[0].partition(b":")[2]):
        return None
    return int(head.split(b" ", 2)[1]), json.loads(body)


async def stored(port: int) -> list[str]:
    answer = await ask(port, request_of("GET", f"{PATH.replace('messages', 'queues/0/messages')}"
                                               "?offset=0&max=1000"))  # fmt: skip
    assert answer is not None
    return [message["body"] for message in answer[1]["messages"]]


def by_turns(kinds: Sequence[tuple[Spoiled, Spoiled]], rng: random.Random) -> Plan:
    """Spoil each connection in one of some ways, every other one not at all."""
    return lambda number: (FINE, FINE) if number % 2 else rng.choice(kinds)


async def test_numbered_sends_over_spoiled_connections_are_stored_once(port: int) -> None:
    """Row N1 in short: unknown results are sent again under the same number."""
    seed = seed_of_run()
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds = [
        (Spoiled(slice_bytes=7), Spoiled(slice_bytes=5)),
        (Spoiled(latency_ms=1), Spoiled(latency_ms=1, bytes_per_s=1_000_000)),
        (Spoiled(cut_after=120), FINE),
        (Spoiled(cut_after=300, slice_bytes=50, is_reset=True), FINE),
        (FINE, Spoiled(cut_after=0)),
        (FINE, Spoiled(cut_after=40, is_reset=True)),
    ]
    repeats = 0
    async with Spoiler(port, by_turns(kinds, rng)) as spoiler:
        for number in range(60):
            numbered = {"body": f"{number:04d}" + "." * 200, "producer_id": "till"}
            request = request_of("POST", PATH, {"messages": [{**numbered, "producer_seq": number}]})
            while (answer := await ask(spoiler.port, request)) is None:
                pass
            assert answer[0] == 201, answer
            repeats += answer[1]["results"][0].get("repeat", False)

    # What is cut on the way there was never stored; of what is cut on the way back one tells.
    assert spoiler.cuts_there > 0
    assert spoiler.cuts_back > 0
    assert repeats == spoiler.cuts_back
    assert [body[:4] for body in await stored(port)] == [f"{number:04d}" for number in range(60)]


async def test_half_a_request_is_never_half_applied(port: int) -> None:
    bodies = [f"{number}" + "." * 50 for number in range(5)]
    request = request_of("POST", PATH, {"messages": [{"body": body} for body in bodies]})
    ends = [*range(1, len(request), 11), len(request) - 1]

    def plan(number: int) -> tuple[Spoiled, Spoiled]:
        return Spoiled(cut_after=ends[number], is_reset=number % 2 == 0), FINE

    async with Spoiler(port, plan) as spoiler:
        answers = [await ask(spoiler.port, request) for _ in ends]

    assert spoiler.cuts_there == len(ends)
    assert set(answers) == {None}
    assert await stored(port) == []

    async with Spoiler(port, lambda _: (FINE, Spoiled(cut_after=0, is_reset=True))) as spoiler:
        assert await ask(spoiler.port, request) is None
    assert await stored(port) == bodies


async def test_slow_late_and_sliced_bytes_are_the_same_bytes(port: int) -> None:
    spoiled = Spoiled(latency_ms=2, slice_bytes=64, bytes_per_s=1_000_000)
    body = "ö" * 2_000

    async with Spoiler(port, lambda _: (spoiled, spoiled)) as spoiler:
        answer = await ask(spoiler.port, request_of("POST", PATH, {"messages": [{"body": body}]}))
        assert answer is not None
        assert answer[0] == 201

        assert await stored(spoiler.port) == [body]
    assert (spoiler.connections, spoiler.cuts_there, spoiler.cuts_back) == (2, 0, 0)
