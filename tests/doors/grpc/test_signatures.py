"""With access on: who is let in by a signature or a token, and what ends when a right does."""

import asyncio
from collections.abc import Callable

import grpc
import pytest

from apps.access.keypairs import secret_key_of
from apps.access.policy import digest_of
from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.checks import _may_decide
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.signatures import signature_of
from apps.doors.http.app import create_door
from apps.doors.http.settings import DoorSettings
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import (
    ENDPOINTS,
    GrpcClient,
    a_consumer,
    a_lite_message,
    a_message,
    a_producer,
    a_receive,
    a_sync,
)
from tests.doors.grpc.policies import INSTALLATION, TEXTS, Policy, signed


@pytest.fixture
def door(engine: LocalEngine, clock: ManualClock, policy: Policy) -> GrpcDoor:
    shared = create_door(DoorSettings(auth="on"), clock=clock, gate=policy.gate)
    return GrpcDoor(door=shared, engine_of=lambda: engine)


async def sent(client: GrpcClient, headers: dict[str, str]) -> int:
    request = pb.SendMessageRequest(messages=[a_message()])
    answer = await client.call("SendMessage", request, headers=headers)
    code: int = answer.status.code
    return code


@pytest.mark.parametrize("form", ["{key}", "{key}//Rocketmq", "{key}/cn-north/RocketMQ"])
@pytest.mark.parametrize("case", [str.lower, str.upper])
async def test_every_way_of_writing_a_signature_is_let_in(
    client: GrpcClient, form: str, case: Callable[[str], str]
) -> None:
    """Go and C++ add a region; half of the clients write hexadecimal digits in upper case."""
    assert await sent(client, signed("shop", form=form, case=case)) == pb.OK


@pytest.mark.parametrize("date", ["2026-11-23T01:02:03+08:00", "", "20000101T000000Z"])
async def test_any_text_may_be_the_date(client: GrpcClient, date: str) -> None:
    """Clients write the time of their zone as if it were UTC, and Rust writes RFC 3339."""
    headers = signed("shop")
    secret = secret_key_of(digest_of(TEXTS["shop"].encode()), INSTALLATION)
    headers["x-mq-date-time"] = date
    head = headers["authorization"].rpartition("=")[0]
    headers["authorization"] = f"{head}={signature_of(secret, date.encode()).hex()}"

    assert await sent(client, headers) == pb.OK


@pytest.mark.parametrize(
    "change",
    [
        {"authorization": ""},
        {"authorization": "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x, Signature=00"},
        {"authorization": "MQv2-HMAC-SHA1 nonsense"},
        {"authorization": "MQv2-HMAC-SHA1 " + "x" * 10_000},
        {"authorization": "Bearer mqt_unknown"},
        {"x-mq-date-time": "20261123T010204Z"},
        {"x-mq-session-token": "mqt_unknown"},
    ],
)
async def test_who_does_not_sign_well_is_not_let_in(
    client: GrpcClient, change: dict[str, str]
) -> None:
    assert await sent(client, signed("shop") | change) == pb.UNAUTHORIZED


async def test_a_signature_of_another_key_is_not_let_in(client: GrpcClient, policy: Policy) -> None:
    headers = signed("shop")
    headers["authorization"] = headers["authorization"].replace(
        TEXTS["shop"][:12], TEXTS["bill"][:12]
    )

    assert await sent(client, headers) == pb.UNAUTHORIZED
    ((denied, knock),) = policy.knocks
    assert denied.code == "unauthenticated"
    assert knock.path == "/apache.rocketmq.v2.MessagingService/SendMessage"
    assert knock.source == "127.0.0.1"


@pytest.mark.parametrize(
    "header", [{"x-mq-session-token": TEXTS["shop"]}, {"authorization": f"Bearer {TEXTS['shop']}"}]
)
async def test_a_token_itself_is_let_in(client: GrpcClient, header: dict[str, str]) -> None:
    assert await sent(client, {"x-mq-client-id": "c", **header}) == pb.OK


async def test_each_may_do_what_its_grants_say(client: GrpcClient) -> None:
    shop, bill = client.named("s"), client.named("b")
    shop.headers, bill.headers = signed("shop"), signed("bill")

    assert (await shop.send(a_message())).status.code == pb.OK
    assert (await bill.send(a_message())).status.code == pb.FORBIDDEN
    assert (await shop.frames(a_receive()))[0].status.code == pb.FORBIDDEN
    assert (await bill.frames(a_receive()))[0].status.code == pb.OK
    other = a_receive(group=pb.Resource(name="other"))
    assert (await bill.frames(other))[0].status.code == pb.FORBIDDEN
    normal = a_receive(topic=pb.Resource(name="normal"))
    assert (await bill.frames(normal))[0].status.code == pb.FORBIDDEN


async def test_lite_topics_are_for_those_who_have_the_right_of_their_parent(
    client: GrpcClient,
) -> None:
    shop, bill = client.named("s"), client.named("b")
    shop.headers, bill.headers = signed("shop"), signed("bill")

    async def synced(who: GrpcClient, parent: str) -> int:
        request = a_sync("a", topic=pb.Resource(name=parent))
        code: int = (await who.call("SyncLiteSubscription", request)).status.code
        return code

    async def read(who: GrpcClient, name: str) -> int:
        code: int = (await who.frames(a_receive(topic=pb.Resource(name=name))))[0].status.code
        return code

    assert (await synced(bill, "ordinary"), await synced(bill, "inbox")) == (pb.OK, pb.FORBIDDEN)
    assert await synced(shop, "ordinary") == pb.FORBIDDEN
    assert (await shop.send(a_lite_message(b"x", "a"))).status.code == pb.FORBIDDEN
    assert await read(bill, "%LITE%inbox|a") == pb.FORBIDDEN
    # By right, and nothing is there.
    assert await read(bill, "%LITE%ordinary|a") == pb.MESSAGE_NOT_FOUND


@pytest.mark.parametrize("topic", ["orders", "normal"])
async def test_a_route_is_shown_to_who_may_do_something_with_the_topic(
    client: GrpcClient, topic: str
) -> None:
    client.headers = signed("shop")

    answer = await client.call(
        "QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=ENDPOINTS)
    )

    assert answer.status.code == (pb.OK if topic == "orders" else pb.FORBIDDEN)


async def test_a_parked_receive_ends_when_its_token_is_revoked(
    client: GrpcClient, engine: LocalEngine, policy: Policy
) -> None:
    client.headers = signed("bill")
    waiting = asyncio.ensure_future(client.frames(a_receive(long_polling_timeout={"seconds": 15})))
    async with asyncio.timeout(20):
        while engine.status().parked == 0:
            await asyncio.sleep(0)

        policy.revoke("bill")
        frames = await waiting

    assert [frame.status.code for frame in frames] == [pb.UNAUTHORIZED]
    assert engine.status().parked == 0


async def test_a_stream_ends_when_its_token_is_revoked(
    client: GrpcClient, policy: Policy, door: GrpcDoor
) -> None:
    client.headers = signed("shop")
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer("orders"))

        policy.revoke("shop")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await telemetry.command()

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [session.streams for session in door.sessions] == [[]]


async def test_two_accounts_may_use_one_client_id_and_are_two_clients(
    client: GrpcClient, door: GrpcDoor
) -> None:
    for name in ("shop", "bill"):
        client.headers = signed(name) | {"x-mq-client-id": "same"}
        await client.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))

    assert sorted(session.account for session in door.sessions) == ["bill", "shop"]


async def test_nobody_is_asked_about_a_message_it_may_not_send(
    client: GrpcClient, door: GrpcDoor
) -> None:
    client.headers = signed("bill")
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer())
        bill = next(iter(door.sessions))
        bill.sends_to("orders")

        assert list(door.checks._askable("orders")) == [bill]
        assert not _may_decide(bill, "orders")


def test_a_secret_key_depends_on_the_token_and_on_the_installation() -> None:
    keys = {
        secret_key_of(digest_of(text), installation)
        for text in (b"a", b"b")
        for installation in ("x", "y")
    }

    assert len(keys) == 4
    assert all(key.startswith("mqs_") for key in keys)
