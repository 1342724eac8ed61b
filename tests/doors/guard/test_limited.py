"""The API behind the limits of its clients: 429 with a wait, and all others get through."""

import asyncio

import pytest

from apps.access.gate import Gate
from apps.access.policy import Book, Principal, Token, digest_of
from apps.doors.guard.clients import ClientLimits, ClientRates
from apps.doors.guard.limited import by_account, limited
from apps.doors.http.calls import Receive, Scope, Send
from apps.engine.testing.manualclock import ManualClock
from tests.doors.asgi import Client

PATH = "/api/v1/topics/t/messages"
EMPTY = [(b"content-length", b"0")]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and answer 200."""
    del scope
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": EMPTY})
    await send({"type": "http.response.body", "body": b""})


def client_of(clock: ManualClock, rates: ClientRates) -> tuple[Client, ClientLimits]:
    limits = ClientLimits(rates, clock)
    return Client(limited(echo, limits)), limits


async def test_too_many_are_refused_with_a_wait_after_which_there_is_room() -> None:
    clock = ManualClock()
    client, limits = client_of(clock, ClientRates(requests_per_s=1))

    assert (await client.request("POST", PATH, body=b"x")).status == 200
    refused = await client.request("POST", PATH, body=b"x", headers={"x-request-id": "mine"})
    assert (refused.status, refused.code) == (429, "too_many_requests")
    assert refused.json()["retriable"]
    assert refused.headers["x-request-id"] == "mine" == refused.json()["request_id"]
    assert client.last.taken_count == 0, "its body was read"

    clock.advance(1_000 * int(refused.headers["retry-after"]))
    assert (await client.request("POST", PATH, body=b"x")).status == 200
    assert limits.refused_count == 1


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/", "/internal/engine/x"])
async def test_what_is_no_api_gets_through(path: str) -> None:
    client, _ = client_of(ManualClock(), ClientRates(requests_per_s=1))
    for _ in range(10):
        assert (await client.request("GET", path)).status == 200


@pytest.mark.parametrize("body", [b"x" * 3_000, [b"x" * 1_000] * 3])
async def test_bodies_count_announced_or_not(body: bytes | list[bytes]) -> None:
    client, _ = client_of(ManualClock(), ClientRates(bytes_per_s=1_000))

    assert (await client.request("POST", PATH, body=body)).status == 200
    refused = await client.request("POST", PATH, body=b"")
    assert (refused.status, refused.headers["retry-after"]) == (429, "3")


async def test_a_request_that_is_cancelled_or_fails_is_under_way_no_more() -> None:
    begun = asyncio.Event()

    async def parked(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    limits = ClientLimits(ClientRates(requests_max=1), ManualClock())
    client = Client(limited(parked, limits))
    task = asyncio.ensure_future(client.request("GET", PATH))
    await begun.wait()
    assert (await client.request("GET", PATH)).status == 429

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await Client(limited(echo, limits)).request("GET", PATH)).status == 200


async def test_with_access_on_a_client_is_its_account_and_not_its_address() -> None:
    clock = ManualClock()
    tokens = [
        Token(number=number, digest=digest_of(secret), principal=Principal(name))
        for number, (secret, name) in enumerate(
            [(b"one", "shop"), (b"two", "shop"), (b"three", "till")], start=1
        )
    ]
    book = Book(version=1, tokens={token.digest: token for token in tokens})
    limits = ClientLimits(ClientRates(requests_per_s=1), clock)
    client = Client(limited(echo, limits, name_of=by_account(Gate(lambda: book, clock))))

    async def status(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return (await client.request("POST", PATH, body=b"", headers=headers)).status

    seen = [await status(token) for token in ("one", "two", "three", "", "wrong")]

    assert seen == [200, 429, 200, 200, 429], "strangers take from their address, together"
