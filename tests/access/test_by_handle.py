"""What names a message by a text of the store's: only who may send to its topic may use it."""

import base64

import pytest

from apps.access.gate import Gate
from apps.access.policy import Book, Principal, Token, checked, digest_of
from apps.doors.http.app import create_app, create_door
from apps.doors.http.settings import DoorSettings
from apps.engine.codec.checksum import crc32
from apps.engine.types import AckMode
from tests.doors.asgi import Client, Response
from tests.doors.conftest import clock, engine
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

__all__ = ["clock", "engine"]

# Handles and ids of the fake engine say nothing.
pytestmark = pytest.mark.parametrize("engine", ["local"], indirect=True)


def book() -> Book:
    """Return a token for each topic, and one that decides for the producers of `orders`."""
    grants = {
        "orders": [
            checked(kind="topic", actions=["pub"], match="literal", name="orders"),
            checked(kind="group", actions=["pub"], match="any"),
        ],
        "single": [
            checked(kind="topic", actions=["pub"], match="literal", name="single"),
            checked(kind="group", actions=["pub"], match="any"),
        ],
        "decider": [checked(kind="topic", actions=["decide"], match="literal", name="orders")],
    }
    tokens = [
        Token(number=number, digest=digest_of(name.encode()), principal=Principal(name, held))
        for number, (name, held) in enumerate(grants.items(), start=1)
    ]
    return Book(version=1, tokens={token.digest: token for token in tokens})


@pytest.fixture
def client(engine: Recorder, clock: ManualClock) -> Client:
    settings = DoorSettings(auth="on", default_ack=AckMode.ASYNC)
    door = create_door(settings, clock=clock, gate=Gate(book, clock))
    return Client(create_app(lambda: engine, settings, door=door))


async def post(client: Client, who: str, target: str, document: object = None) -> Response:
    return await client.post(
        f"/api/v1{target}", document, headers={"authorization": f"Bearer {who}"}
    )


async def begun(client: Client, topic: str) -> str:
    answer = await post(
        client, topic, f"/topics/{topic}/transactions",
        {"producer_group": "sellers", "message": {"body": "x"}},
    )  # fmt: skip
    assert answer.status == 201, answer.body
    return str(answer.json()["transaction_id"])


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_transaction_is_ended_by_those_who_may_send_to_its_topic(
    client: Client, verb: str
) -> None:
    first, second = await begun(client, "orders"), await begun(client, "orders")

    foreign = await post(client, "single", f"/transactions/{first}:{verb}")
    own = await post(client, "orders", f"/transactions/{first}:{verb}")
    again = await post(client, "orders", f"/transactions/{first}:{verb}")
    for_them = await post(client, "decider", f"/transactions/{second}:{verb}")

    assert (foreign.status, foreign.code) == (403, "forbidden")
    assert "topic 'orders'" in foreign.json()["detail"]
    assert (own.status, again.status, for_them.status) == (200, 200, 200)
    assert again.json()["repeat"]


async def test_where_a_foreign_transaction_went_is_not_told(client: Client) -> None:
    transaction = await begun(client, "orders")
    await post(client, "orders", f"/transactions/{transaction}:commit")

    foreign = await post(client, "single", f"/transactions/{transaction}:commit")

    assert foreign.status == 403
    assert "offset" not in foreign.json()


@pytest.mark.parametrize("transaction", ["zz", "ffffff.1-00000000", "-1.1-00000000"])
async def test_an_id_of_no_half_message_ends_nothing(client: Client, transaction: str) -> None:
    answer = await post(client, "orders", f"/transactions/{transaction}:commit")

    assert (answer.status, answer.code) == (404, "unknown_transaction")


async def delayed(client: Client, topic: str) -> str:
    answer = await post(
        client, topic, f"/topics/{topic}/messages",
        {"messages": [{"body": "x", "delay_ms": 60_000}]},
    )  # fmt: skip
    assert answer.status == 201, answer.body
    return str(answer.json()["results"][0]["recall_handle"])


async def test_a_delay_is_taken_back_by_those_who_may_send_to_its_topic(client: Client) -> None:
    handle = await delayed(client, "orders")
    target = f"/delayed/{handle}:deliver-now"

    foreign = await post(client, "single", target)
    recalled = await client.request(
        "DELETE", f"/api/v1/delayed/{handle}", headers={"authorization": "Bearer single"}
    )
    own = await post(client, "decider", target)

    assert (foreign.status, recalled.status, own.status) == (403, 403, 200)


def forged(handle: str, topic: str) -> str:
    """Return a handle that says another topic, with a check made from a known handle's.

    A checksum is no signature: who has one handle can compute that of another text of its length.
    """
    whole = base64.b64decode(handle + "=" * (-len(handle) % 4), altchars=b"-_")
    text, _, check = whole.rpartition(b" ")
    changed = text.replace(b"orders", topic.encode(), 1)
    assert len(changed) == len(text)
    value = int(check, 16) ^ crc32(text) ^ crc32(changed)
    whole = b"%s %08x" % (changed, value)
    return base64.urlsafe_b64encode(whole).rstrip(b"=").decode()


async def test_a_handle_with_another_topic_written_in_finds_no_message(
    client: Client, engine: Recorder
) -> None:
    handle = await delayed(client, "orders")

    answer = await client.request(
        "DELETE", f"/api/v1/delayed/{forged(handle, 'single')}",
        headers={"authorization": "Bearer single"},
    )  # fmt: skip
    own = await post(client, "orders", f"/delayed/{handle}:deliver-now")

    assert (answer.status, answer.code) == (404, "unknown_handle")
    assert own.status == 200
