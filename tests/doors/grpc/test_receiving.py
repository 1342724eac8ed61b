"""ReceiveMessage: frames, waits, filters and order; and what becomes of what nobody took."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.errors import Stopping
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import GrpcClient, a_consumer, a_message, a_receive, bodies

IN_ORDER = pb.Resource(name="in-order")
ORDERED = pb.Resource(name="ordered")


async def send_numbers(client: GrpcClient, count: int, **values: Any) -> None:
    for number in range(count):
        await client.send(a_message(b"%d" % number, message_id=f"id-{number}", **values))


async def code_of(client: GrpcClient, **values: Any) -> int:
    frames = await client.frames(a_receive(**values))
    assert frames[0].WhichOneof("content") == "status"
    return frames[0].status.code


async def test_a_status_comes_first_then_messages_then_the_time(
    client: GrpcClient, clock: ManualClock
) -> None:
    """Without a status Java and Go take an answer for a failure, and Python loses it."""
    await send_numbers(client, 3)

    frames = await client.frames(a_receive())

    kinds = [frame.WhichOneof("content") for frame in frames]
    assert kinds == ["status", "message", "message", "message", "delivery_timestamp"]
    assert frames[0].status.code == pb.OK
    assert frames[-1].delivery_timestamp.seconds == clock.wall_ms() // 1000


async def test_nothing_is_one_status_which_says_so(client: GrpcClient) -> None:
    frames = await client.frames(a_receive())

    assert [frame.status.code for frame in frames] == [pb.MESSAGE_NOT_FOUND]


@pytest.mark.parametrize("queue", [-1, 0, 3, 99])
async def test_a_receive_looks_at_all_queues_whichever_it_names(
    client: GrpcClient, queue: int
) -> None:
    """Node names queue 0 for ever."""
    await send_numbers(client, 8)

    assert len(await client.received(queue=queue)) == 8


async def test_a_receive_waits_for_a_message(client: GrpcClient) -> None:
    waiting = asyncio.ensure_future(client.received(long_polling_timeout={"seconds": 15}))
    await client.received(topic=pb.Resource(name="normal"))

    await send_numbers(client, 1)

    assert bodies(await waiting) == [b"0"]


async def test_a_receive_is_answered_before_the_deadline_of_its_call(
    door: GrpcDoor, client: GrpcClient
) -> None:
    """Rust's deadline is its polling time, so a poll of full length would never be answered."""
    # A machine under load may take a while over an answer.
    door.settings = replace(door.settings, poll_margin_ms=9_000)
    call = client.stream(
        "ReceiveMessage", a_receive(long_polling_timeout={"seconds": 40}), timeout=10
    )

    frames = [frame async for frame in call]

    assert [frame.status.code for frame in frames] == [pb.MESSAGE_NOT_FOUND]


async def test_no_poll_is_longer_than_the_servers(door: GrpcDoor, client: GrpcClient) -> None:
    waits: list[int] = []
    engine = door.engine()

    class Spy:
        catalog = engine.catalog

        async def receive(self, request: Any) -> Any:
            waits.append(request.wait_ms)
            raise Stopping("enough")

    door.engine_of = Spy  # type: ignore[assignment]
    await client.frames(a_receive(long_polling_timeout={"seconds": 3600}))
    absent = a_receive()
    absent.ClearField("long_polling_timeout")
    await client.frames(absent)

    # The calls of this client end after twenty seconds.
    assert [19_000 < wait_ms < 20_000 for wait_ms in waits] == [True, True]


async def test_a_negative_poll_is_refused(client: GrpcClient) -> None:
    assert await code_of(client, long_polling_timeout={"seconds": -1}) == pb.ILLEGAL_POLLING_TIME


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (9, pb.ILLEGAL_INVISIBLE_TIME),
        (10, pb.MESSAGE_NOT_FOUND),
        (12 * 3600, pb.MESSAGE_NOT_FOUND),
        (12 * 3600 + 1, pb.ILLEGAL_INVISIBLE_TIME),
        (0, pb.ILLEGAL_INVISIBLE_TIME),
    ],
)
async def test_the_invisible_time_has_bounds(client: GrpcClient, seconds: int, code: int) -> None:
    assert await code_of(client, invisible_duration={"seconds": seconds}) == code


async def test_a_message_is_hidden_for_as_long_as_it_says(
    client: GrpcClient, clock: ManualClock
) -> None:
    await send_numbers(client, 1)
    (first,) = await client.received(invisible_duration={"seconds": 30})
    clock.advance(29_999)
    hidden = await client.received()

    clock.advance(1)
    (again,) = await client.received()

    assert hidden == []
    assert first.system_properties.invisible_duration.seconds == 30
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"group": pb.Resource(name="")}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"group": pb.Resource(name="a/b")}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"group": pb.Resource(name="g" * 121)}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"group": pb.Resource(name="DEFAULT_CONSUMER")}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"topic": pb.Resource(name="nope")}, pb.TOPIC_NOT_FOUND),
        ({"topic": pb.Resource(name="blind")}, pb.FORBIDDEN),
        ({"batch_size": -1}, pb.BAD_REQUEST),
        ({"filter": "a||"}, pb.ILLEGAL_FILTER_EXPRESSION),
        (
            {"filter": pb.FilterExpression(type=pb.SQL, expression="a >")},
            pb.ILLEGAL_FILTER_EXPRESSION,
        ),
        ({"attempt_id": "x" * 300}, pb.BAD_REQUEST),
    ],
)
async def test_what_cannot_be_received_is_refused_by_its_own_code(
    client: GrpcClient, values: dict[str, Any], code: int
) -> None:
    assert await code_of(client, **values) == code


@pytest.mark.parametrize(
    ("expression", "kind", "found"),
    [
        ("*", pb.TAG, ["Aa", "BB", "c"]),
        ("", pb.TAG, ["Aa", "BB", "c"]),
        ("Aa", pb.TAG, ["Aa"]),
        ("Aa || c", pb.TAG, ["Aa", "c"]),
        ("n > 1", pb.SQL, ["BB", "c"]),
        ("n BETWEEN 1 AND 2 AND TAGS = 'BB'", pb.SQL, ["BB"]),
        ("nobody IS NULL", pb.SQL, ["Aa", "BB", "c"]),
    ],
)
async def test_filters_take_what_they_say(
    client: GrpcClient, expression: str, kind: pb.FilterType, found: list[str]
) -> None:
    """`Aa` and `BB` have the same hash."""
    for number, tag in enumerate(("Aa", "BB", "c"), start=1):
        await client.send(a_message(tag=tag, message_id=tag, user_properties={"n": str(number)}))

    received = await client.received(filter=pb.FilterExpression(type=kind, expression=expression))

    assert sorted(message.system_properties.tag for message in received) == found


async def test_what_only_shares_a_tags_hash_is_done_for_the_group(
    client: GrpcClient, engine: LocalEngine
) -> None:
    await client.send(a_message(tag="BB"))

    assert await client.received(filter="Aa") == []

    assert sum(row.in_flight for row in engine.group_progress("billing")) == 0
    assert sum(row.committed for row in engine.group_progress("billing")) == 1


async def test_a_group_in_order_gets_no_more_of_a_queue_until_it_is_done(
    client: GrpcClient,
) -> None:
    await send_numbers(client, 3, topic=IN_ORDER, message_group="g", message_type=pb.FIFO)
    (first,) = await client.received(topic=IN_ORDER, group=ORDERED, batch_size=1)
    blocked = await client.received(topic=IN_ORDER, group=ORDERED, batch_size=1)

    await client.ack(first, group=ORDERED)
    (second,) = await client.received(topic=IN_ORDER, group=ORDERED, batch_size=1)

    assert (first.body, blocked, second.body) == (b"0", [], b"1")


async def test_a_group_nobody_decided_about_reads_a_topic_of_order_in_order(
    client: GrpcClient,
) -> None:
    await send_numbers(client, 2, topic=IN_ORDER, message_group="g", message_type=pb.FIFO)

    await client.received(topic=IN_ORDER, batch_size=1)

    assert await client.received(topic=IN_ORDER, batch_size=1) == []


async def test_the_same_attempt_is_handed_the_same_again(client: GrpcClient) -> None:
    await send_numbers(client, 2, topic=IN_ORDER, message_group="g", message_type=pb.FIFO)

    def receive(attempt_id: str) -> Any:
        return client.received(topic=IN_ORDER, group=ORDERED, batch_size=2, attempt_id=attempt_id)

    first = await receive("a")
    other = await receive("b")
    again = await receive("a")

    assert (bodies(first), bodies(other), bodies(again)) == ([b"0", b"1"], [], [b"0", b"1"])
    assert [m.system_properties.delivery_attempt for m in again] == [1, 1]
    assert (await client.ack(*first, group=ORDERED)).status.code == pb.OK


@pytest.fixture
async def narrow(port: int) -> AsyncIterator[GrpcClient]:
    """A client that takes a message only when it asks for it.

    gRPC lets a server write ahead by as much as it believes a connection carries in a round trip,
    which on a slow machine are megabytes.
    """
    options = [("grpc.http2.bdp_probe", 0)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield GrpcClient(channel)


async def leave_in_mid_stream(
    client: GrpcClient, door: GrpcDoor, request: pb.ReceiveMessageRequest
) -> None:
    """Read the first message of a receive and go away; return when the server has noticed."""
    call = client.stream("ReceiveMessage", request)
    async for frame in call:
        if frame.WhichOneof("content") == "message":
            break
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.read()
    async with asyncio.timeout(20):
        while door.door.in_flight.bytes:
            await asyncio.sleep(0)


async def test_what_a_client_that_left_was_not_given_comes_again_after_a_second(
    client: GrpcClient, narrow: GrpcClient, door: GrpcDoor, clock: ManualClock
) -> None:
    # More than gRPC's buffers hold, so that the server is still writing when the client goes.
    for number in range(4):
        await client.send(a_message(bytes(1_000_000), message_id=f"id-{number}"))
    await leave_in_mid_stream(narrow, door, a_receive())

    waited_ms, again = 0, await client.received()
    while not again and waited_ms < 30_000:
        clock.advance(100)
        waited_ms += 100
        again = await client.received()

    # What it was given is hidden for a minute, and is not among these.
    assert 0 < len(again) < 4
    assert {m.system_properties.delivery_attempt for m in again} == {2}
    assert waited_ms >= 1_000


async def test_a_client_that_left_in_mid_stream_may_name_its_attempt_again(
    client: GrpcClient, narrow: GrpcClient, door: GrpcDoor, clock: ManualClock
) -> None:
    for number in range(4):
        await client.send(
            a_message(
                bytes(1_000_000),
                message_id=f"id-{number}",
                topic=IN_ORDER,
                message_group="g",
                message_type=pb.FIFO,
            )
        )
    request = a_receive(topic=IN_ORDER, group=ORDERED, attempt_id="a")
    await leave_in_mid_stream(narrow, door, request)

    again = await client.received(topic=IN_ORDER, group=ORDERED, attempt_id="a")
    clock.advance(30_000)
    others = await client.received(topic=IN_ORDER, group=ORDERED, attempt_id="b")

    assert [m.system_properties.message_id for m in again] == [f"id-{n}" for n in range(4)]
    assert {m.system_properties.delivery_attempt for m in again} == {1}
    assert others == []


async def test_a_client_that_leaves_while_it_waits_takes_nothing_with_it(
    client: GrpcClient, engine: LocalEngine
) -> None:
    call = client.stream("ReceiveMessage", a_receive(long_polling_timeout={"seconds": 15}))
    while engine.status().parked == 0:
        await asyncio.sleep(0.001)
    call.cancel()
    async with asyncio.timeout(20):
        while engine.status().parked:
            await asyncio.sleep(0.001)

    await send_numbers(client, 1)
    (found,) = await client.received()

    assert found.system_properties.delivery_attempt == 1


async def test_who_waits_is_answered_when_the_door_closes(
    client: GrpcClient, door: GrpcDoor, engine: LocalEngine
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer())
        waiting = asyncio.ensure_future(
            client.frames(a_receive(long_polling_timeout={"seconds": 15}))
        )
        async with asyncio.timeout(10):
            while len(door.waits) < 2 or engine.status().parked == 0:
                await asyncio.sleep(0)

            await door.stop()
            frames = await waiting
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await telemetry.command()

    assert [frame.status.code for frame in frames] == [pb.HA_NOT_AVAILABLE]
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(door.waits) == 0
    # Nobody waits any more from here on.
    late = await client.frames(a_receive(long_polling_timeout={"seconds": 15}))
    assert late[0].status.code == pb.HA_NOT_AVAILABLE


async def test_what_finds_no_memory_is_given_to_the_next(
    client: GrpcClient, door: GrpcDoor, clock: ManualClock
) -> None:
    await send_numbers(client, 3)
    room = door.door.in_flight.bytes_max
    # Room for the request, and none for what it is to be answered with.
    door.door.in_flight.bytes_max = 200

    code = await code_of(client)
    door.door.in_flight.bytes_max = room
    clock.advance(1_000)

    assert code == pb.TOO_MANY_REQUESTS
    assert len(await client.received()) == 3
    assert door.door.in_flight.bytes == 0


async def test_while_no_engine_is_open_the_answer_says_so(
    door: GrpcDoor, client: GrpcClient
) -> None:
    door.engine_of = lambda: None

    assert await code_of(client) == pb.HA_NOT_AVAILABLE


async def test_dead_letters_are_received_with_where_they_come_from(client: GrpcClient) -> None:
    twice = pb.Resource(name="twice")
    await send_numbers(client, 1)
    (message,) = await client.received(group=twice)
    answer = await client.call(
        "ForwardMessageToDeadLetterQueue",
        pb.ForwardMessageToDeadLetterQueueRequest(
            group=twice,
            topic=message.topic,
            receipt_handle=message.system_properties.receipt_handle,
            message_id="id-0",
        ),
    )

    (dead,) = await client.received(topic=pb.Resource(name="%DLQ%twice"))

    assert answer.status.code == pb.OK
    assert dead.system_properties.dead_letter_queue.topic == "orders"
    assert dead.system_properties.dead_letter_queue.message_id == "id-0"
    assert await client.received(group=twice) == []


async def test_a_client_without_an_id_is_refused_in_the_answer(client: GrpcClient) -> None:
    answer = await client.call("Heartbeat", pb.HeartbeatRequest(), headers={})

    assert answer.status.code == pb.CLIENT_ID_REQUIRED


async def test_a_method_that_is_none_is_gRPCs_to_refuse(client: GrpcClient) -> None:  # noqa: N802
    client.headers["x-mq-client-id"] = "c"
    method = client._channel.unary_unary("/apache.rocketmq.v2.MessagingService/Nothing")

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await method(b"", timeout=20)

    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
