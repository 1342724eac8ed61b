"""The doors with access on: who is let in, what is answered, and what ends when a right does."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from apps.access.gate import Denied, Gate, Rights
from apps.access.policy import (
    CLUSTER,
    Action,
    Book,
    Caller,
    Grant,
    Principal,
    Token,
    checked,
    digest_of,
    topic,
)
from apps.access.policy.book import Account
from apps.bridge.serving import HAND_OVER
from apps.doors.http.app import create_app, create_door
from apps.doors.http.calls import Door
from apps.doors.http.settings import DoorSettings
from apps.doors.http.shared import Meaning
from apps.doors.http.turns import TurnsOfSends
from apps.doors.lane.app import create_app as create_lane_app
from apps.doors.lane.connection import Connection
from apps.engine.types import AckMode
from tests.doors.asgi import Client, Response
from tests.doors.conftest import clock, engine
from tests.doors.fake_engine import ManualClock
from tests.doors.lane.frames import answers as lane_answers
from tests.doors.lane.frames import batch, frame
from tests.doors.recorder import Recorder

__all__ = ["clock", "engine"]

SECRETS = {"shop": b"mqt_shop-secret", "bill": b"mqt_bill-secret", "boss": b"mqt_boss-secret"}
GRANTS = {
    "shop": [checked(kind="topic", actions=["pub"], match="literal", name="orders")],
    "bill": [
        checked(kind="topic", actions=["sub"], match="prefix", name="ord"),
        checked(kind="group", actions=["sub"], match="literal", name="billing"),
    ],
    "boss": [],
}


class Policy:
    """The store of the policy: a book that the test changes, or that fails."""

    def __init__(self) -> None:
        self.fails = False
        self.asked_failing = 0
        self.expires_ms: int | None = None
        self.held: Book | None = self.made(GRANTS)

    def made(self, grants: dict[str, list[Grant]]) -> Book:
        tokens = [
            Token(
                number=number,
                digest=digest_of(SECRETS[name]),
                principal=Principal(name, held, is_super=name == "boss"),
                expires_ms=self.expires_ms,
            )
            for number, (name, held) in enumerate(grants.items(), start=1)
        ]
        return Book(version=1, tokens={token.digest: token for token in tokens})

    def book(self) -> Book | None:
        if self.fails:
            self.asked_failing += 1
            raise RuntimeError("planted")
        return self.held

    def revoke(self, name: str) -> None:
        self.held = self.made({who: held for who, held in GRANTS.items() if who != name})


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def gate(policy: Policy, clock: ManualClock) -> Gate:
    return Gate(policy.book, clock)


@pytest.fixture
def door(gate: Gate, clock: ManualClock) -> Door:
    settings = DoorSettings(auth="on", default_ack=AckMode.ASYNC)
    return create_door(settings, clock=clock, gate=gate)


@pytest.fixture
def client(engine: Recorder, door: Door) -> Client:
    return Client(create_app(lambda: engine, door.settings, door=door))


def move(clock: ManualClock, duration_ms: int) -> None:
    clock.now_ms += duration_ms


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRETS[name].decode()}"}


ONE = {"messages": [{"body": "x"}]}
SEND = "/api/v1/topics/orders/messages"
RECEIVE = "/api/v1/groups/billing/messages:receive"
CASES: list[tuple[str, str, object, str, int]] = [
    ("POST", SEND, ONE, "shop", 201),
    ("POST", SEND, ONE, "bill", 403),
    ("POST", "/api/v1/topics/single/messages", ONE, "shop", 403),
    ("GET", "/api/v1/topics/orders/messages?key=x", None, "bill", 403),
    ("GET", "/api/v1/topics/orders/queues/0/messages?offset=0", None, "bill", 200),
    ("GET", "/api/v1/topics/orders/queues/0/messages?offset=0", None, "shop", 403),
    ("GET", "/api/v1/topics/orders/queues/0/messages?offset=0&group=billing", None, "bill", 200),
    ("GET", "/api/v1/topics/orders/queues/0/messages?offset=0&group=other", None, "bill", 403),
    ("GET", "/api/v1/topics/single/queues/0/messages?offset=0", None, "bill", 403),
    ("GET", "/api/v1/topics/%25DLQ%25billing/queues/0/messages?offset=0", None, "shop", 403),
    ("POST", RECEIVE, {"topic": "orders"}, "bill", 200),
    ("POST", RECEIVE, {"topic": "orders"}, "shop", 403),
    ("POST", RECEIVE, {"topic": "single"}, "bill", 403),
    ("POST", RECEIVE, {"topics": ["orders", "single"]}, "bill", 403),
    ("POST", "/api/v1/groups/other/messages:receive", {"topic": "orders"}, "bill", 403),
    ("POST", "/api/v1/groups/other/messages:ack", {"receipt_handles": ["x"]}, "bill", 403),
    (
        "POST", "/api/v1/groups/billing/offsets:commit",
        {"offsets": [{"topic": "single", "queue": 0, "offset": "0"}]}, "bill", 403,
    ),
    (
        "POST", "/api/v1/groups/billing/offsets:begin",
        {"queues": [{"topic": "single", "queue": 0}]}, "bill", 403,
    ),
    (
        "POST", "/api/v1/groups/billing/members/c:heartbeat",
        {"subscriptions": [{"topic": "single"}]}, "bill", 403,
    ),
    (
        "POST", "/api/v1/groups/billing/locks:acquire",
        {"client_id": "c", "queues": [{"topic": "single", "queue": 0}]}, "bill", 403,
    ),
    (
        "POST", "/api/v1/groups/billing/messages:send-back",
        {"client_id": "c", "messages": [{"topic": "single", "queue": 0, "offset": "0"}]},
        "bill", 403,
    ),
    (
        "POST", "/api/v1/topics/orders/transactions",
        {"producer_group": "sellers", "message": {"body": "x"}}, "shop", 403,
    ),
    ("POST", "/api/v1/producer-groups/sellers/checks:receive", {}, "shop", 403),
    ("GET", "/api/v1/topics/orders/queues/0/offset?time=2026-01-01T00:00:00Z", None, "shop", 200),
    ("GET", "/api/v1/topics/single/queues/0/offset?time=2026-01-01T00:00:00Z", None, "shop", 403),
    ("GET", "/metrics", None, "shop", 403),
    ("GET", "/metrics", None, "boss", 200),
    ("GET", "/healthz", None, "nobody", 200),
    ("GET", "/readyz", None, "nobody", 200),
    ("DELETE", "/api/v1/delayed/djEgb3JkZXJzIHg", None, "bill", 403),
    ("DELETE", "/api/v1/delayed/djEgb3JkZXJzIHg", None, "shop", 404),
    ("DELETE", "/api/v1/delayed/nonsense", None, "shop", 404),
]  # fmt: skip


async def ask(client: Client, method: str, target: str, body: object, who: str) -> Response:
    headers = as_(who) if who in SECRETS else {}
    return await client.request(method, target, document=body, headers=headers)


@pytest.mark.parametrize(("method", "target", "body", "who", "status"), CASES)
async def test_verbs_are_carried_out_for_those_who_may(
    client: Client, method: str, target: str, body: object, who: str, status: int
) -> None:
    answer = await ask(client, method, target, body, who)

    assert answer.status == status, answer.body
    if status == 403:
        assert answer.code == "forbidden"
        assert f"{who} has no right to" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "target", "body"),
    sorted({(m, t, json.dumps(b)) for m, t, b, who, _ in CASES if who != "nobody"}),
)
async def test_nobody_gets_in_without_a_good_token(
    client: Client, engine: Recorder, method: str, target: str, body: str
) -> None:
    document = json.loads(body)

    bare = await client.request(method, target, document=document)
    wrong = await client.request(
        method, target, document=document, headers={"authorization": "Bearer mqt_none"}
    )
    basic = await client.request(
        method, target, document=document, headers={"authorization": "Basic c2hvcDp4"}
    )

    assert [one.status for one in (bare, wrong, basic)] == [401, 401, 401]
    assert bare.headers["www-authenticate"] == 'Bearer realm="mqweb"'
    assert wrong.headers["www-authenticate"] == 'Bearer realm="mqweb", error="invalid_token"'
    assert engine.calls == []


@pytest.mark.parametrize(("method", "target", "body", "who"), [case[:4] for case in CASES])
async def test_a_policy_store_that_fails_lets_nobody_do_anything(
    client: Client, policy: Policy, engine: Recorder, method: str, target: str, body: object,
    who: str,
) -> None:  # fmt: skip
    policy.fails = True

    answer = await ask(client, method, target, body, "boss")

    assert engine.calls == []
    if who != "nobody":
        assert policy.asked_failing
        assert (answer.status, answer.code) == (403, "forbidden")


async def test_before_the_first_book_everybody_is_asked_to_come_back(
    client: Client, policy: Policy
) -> None:
    policy.held = None

    answer = await client.post(SEND, ONE, headers=as_("shop"))

    assert (answer.status, answer.code) == (503, "database_unavailable")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda policy, _clock: policy.revoke("bill"), 401),
        (lambda _policy, clock: move(clock, 60_000), 401),
        (lambda policy, _clock: setattr(policy, "held", policy.made({**GRANTS, "bill": []})), 403),
        (lambda policy, _clock: setattr(policy, "fails", True), 403),
    ],
    ids=["revoked", "expired", "grants taken", "policy fails"],
)
@pytest.mark.parametrize("verb", ["receive", "pull", "heartbeat"])
async def test_a_parked_request_ends_at_the_look_after_its_right_has(
    client: Client,
    policy: Policy,
    gate: Gate,
    clock: ManualClock,
    verb: str,
    end: Callable[[Policy, ManualClock], None],
    status: int,
) -> None:
    policy.expires_ms = clock.wall_ms() + 50_000
    policy.held = policy.made(GRANTS)
    parked = asyncio.ensure_future(park(client, verb))
    while not gate._watches:
        await asyncio.sleep(0)
    gate.look()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not parked.done(), "it waits for as long as it may"

    end(policy, clock)
    gate.look()
    answer = await parked

    assert answer.status == status
    assert not gate._watches


async def park(client: Client, verb: str) -> Response:
    headers = as_("bill")
    if verb == "receive":
        body: dict[str, Any] = {"topic": "orders", "wait_ms": 20_000}
        return await client.post(RECEIVE, body, headers=headers)
    if verb == "pull":
        target = "/api/v1/topics/orders/queues/0/messages?offset=0&wait_ms=20000"
        return await client.get(target, headers=headers)
    target = "/api/v1/groups/billing/members/c:heartbeat"
    first = await client.post(target, {"subscriptions": [{"topic": "orders"}]}, headers=headers)
    body = {
        "subscriptions": [{"topic": "orders"}],
        "generation": first.json()["generation"],
        "wait_ms": 20_000,
    }
    return await client.post(target, body, headers=headers)


async def test_what_a_parked_request_was_given_as_its_token_ended_is_given_back(
    client: Client, policy: Policy, gate: Gate
) -> None:
    body = {"topic": "orders"}
    await client.post(RECEIVE, body, headers=as_("bill"))  # The group begins here.
    parked = asyncio.ensure_future(park(client, "receive"))
    while not gate._watches:
        await asyncio.sleep(0)

    policy.revoke("bill")
    gate.look()
    await client.post(SEND, ONE, headers=as_("shop"))
    refused = await parked
    policy.held = policy.made(GRANTS)
    found = await park(client, "receive")

    assert refused.status == 401
    assert [message["body"] for message in found.json()["messages"]] == ["x"]


# --- the prompt desk -------------------------------------------------------------------------


class Asked:
    """A request at the desk."""

    client = ("192.0.2.7", 5000)

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.body = json.dumps(ONE).encode()
        self.status = 0
        self.is_declined = False

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        self.status = status

    def decline(self) -> None:
        self.is_declined = True


def head(name: str | None) -> dict[str, Any]:
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    if name is not None:
        headers.append((b"authorization", b"Bearer " + SECRETS[name]))
    return {
        "method": "POST", "raw_path": SEND.encode(), "query_string": b"", "headers": headers,
    }  # fmt: skip


async def test_the_desk_answers_for_those_who_may_and_declines_for_the_rest(
    engine: Recorder, door: Door, policy: Policy
) -> None:
    clerk = TurnsOfSends(door, lambda: engine)
    assert clerk.meaning_of(head(None)) is None
    good, bad = clerk.meaning_of(head("shop")), clerk.meaning_of(head("bill"))
    assert good is not None
    assert bad is not None

    first, second = Asked(good), Asked(bad)
    clerk.answer([first, second])
    while not first.status:
        await asyncio.sleep(0)
    policy.revoke("shop")
    third = Asked(good)
    clerk.answer([third])
    policy.fails = True
    fourth = Asked(good)
    clerk.answer([fourth])

    assert (first.status, second.is_declined) == (201, True)
    assert (third.status, third.is_declined) == (0, True), "a known head is asked again each time"
    assert (fourth.status, fourth.is_declined) == (0, True)


def test_a_door_is_never_open_by_mistake(gate: Gate) -> None:
    with pytest.raises(ValueError, match="gate"):
        create_door(DoorSettings(auth="on"))
    with pytest.raises(ValueError, match="gate"):
        create_door(DoorSettings(), gate=gate)


# --- the lane --------------------------------------------------------------------------------


class Transport:
    """Keeps what a connection writes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def opened(engine: Recorder, door: Door, name: str) -> tuple[Connection, Transport]:
    """Return a lane that was opened with somebody's token."""
    taken: list[Any] = []
    app = create_lane_app(lambda: engine, door)
    scope = {
        "type": "http", "method": "GET", "path": "/api/v1/lane", "client": ("192.0.2.7", 1),
        "headers": [
            (b"host", b"localhost"), (b"upgrade", b"mqweb-lane/1"),
            (b"authorization", b"Bearer " + SECRETS[name]),
        ],
        "extensions": {HAND_OVER: {"to": lambda *args: taken.append(args[0])}},
    }  # fmt: skip
    await app(scope, _nothing, _nothing)
    (connection,) = taken
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


async def _nothing(*_: object) -> Any:
    raise AssertionError("nothing is read or sent")


def arrive(connection: Connection, data: bytes) -> None:
    room = connection.get_buffer(-1)
    room[: len(data)] = data
    room.release()
    connection.buffer_updated(len(data))


async def statuses(transport: Transport, count: int) -> list[int]:
    while len(found := lane_answers(b"".join(transport.writes))) < count:
        await asyncio.sleep(0)
    return [one.status for one in found]


async def test_a_lane_sends_to_the_topics_its_token_may(engine: Recorder, door: Door) -> None:
    connection, transport = await opened(engine, door, "shop")

    arrive(connection, frame(1, batch(b"x")))
    arrive(connection, frame(2, batch(b"x", topic="single"), topic="single"))

    assert await statuses(transport, 2) == [201, 403]
    connection.connection_lost(None)


async def test_a_lane_ends_with_its_token(
    engine: Recorder, door: Door, policy: Policy, gate: Gate
) -> None:
    connection, transport = await opened(engine, door, "shop")
    policy.revoke("shop")

    arrive(connection, frame(1, batch(b"x")))
    seen = await statuses(transport, 1)
    gate.look()

    assert seen == [401]
    assert transport.is_closed
    connection.connection_lost(None)
    assert not gate._watches


async def test_a_lane_is_not_opened_without_a_token(engine: Recorder, door: Door) -> None:
    client = Client(create_lane_app(lambda: engine, door))

    answer = await client.get("/api/v1/lane", headers={"upgrade": "mqweb-lane/1"})

    assert answer.status in (401, 426)
    with pytest.raises(ValueError, match="rights"):
        Connection(door, lambda: engine)


# --- sessions --------------------------------------------------------------------------------


def session(gate: Gate, policy: Policy, clock: ManualClock, key: str) -> Rights:
    """Return the rights of somebody who is signed in."""
    principal = Principal("vera", [checked(kind="cluster", actions=["get"], match="any")])
    policy.held = Book(version=1, accounts={7: Account(principal=principal, mark="m")})
    caller = Caller(
        principal=principal, account=7, mark="m", session=key, until_ms=clock.wall_ms() + 1_000
    )
    rights = Rights(gate, caller)
    rights.require(CLUSTER, Action.GET)
    return rights


@pytest.mark.parametrize("how", ["signed out", "closed", "new password", "time is over"])
def test_the_stream_of_a_session_ends_with_it(
    gate: Gate, policy: Policy, clock: ManualClock, how: str
) -> None:
    told: list[Denied] = []
    other: list[Denied] = []
    session(gate, policy, clock, "a").watched(told.append)
    session(gate, policy, clock, "b").watched(other.append)
    gate.look()
    assert told == []

    assert policy.held is not None
    account = policy.held.accounts[7]
    if how == "signed out":
        gate.end_session("a")
    elif how == "closed":
        policy.held = Book(version=2)
    elif how == "new password":
        renewed = Account(principal=account.principal, mark="n")
        policy.held = Book(version=2, accounts={7: renewed})
    else:
        move(clock, 1_000)
    gate.look()

    assert [one.code for one in told] == ["unauthenticated"]
    assert len(other) == (0 if how == "signed out" else 1)


def test_a_source_network_counts_at_the_door(policy: Policy, gate: Gate) -> None:
    inside = checked(kind="topic", actions=["pub"], match="any", sources=["192.0.2.0/24"])
    policy.held = policy.made({**GRANTS, "shop": [inside]})
    digest = digest_of(SECRETS["shop"])

    assert gate.may(digest, "192.0.2.9", Action.PUB, topic("x"))
    assert not gate.may(digest, "198.51.100.1", Action.PUB, topic("x"))
    assert not gate.may(digest, "", Action.PUB, topic("x"))
    assert not gate.may(None, "192.0.2.9", Action.PUB, topic("x"))


async def test_a_missing_right_and_a_wrong_token_are_told_and_no_token_is_not(
    client: Client, gate: Gate
) -> None:
    told: list[tuple[str, str, str]] = []
    gate.tell_to(lambda denied, knock: told.append((denied.code, denied.by, knock.path)))

    nothing = await client.request("POST", SEND, document=ONE)
    wrong = await client.request("POST", SEND, document=ONE, headers={"authorization": "Bearer x"})
    forbidden = await client.request("POST", RECEIVE, document={}, headers=as_("shop"))

    assert (nothing.status, wrong.status, forbidden.status) == (401, 401, 403)
    assert told == [("unauthenticated", "", SEND), ("forbidden", "shop", RECEIVE)]
