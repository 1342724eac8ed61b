"""Ack, ChangeInvisibleDuration and dead letters: which handle is good, and what comes again."""

from typing import Any

import pytest

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.codec.properties import RETRY_TOPIC
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import (
    GROUP,
    ORDERS,
    GrpcClient,
    a_consumer,
    a_message,
    bodies,
)


async def change(
    client: GrpcClient, handle: str, *, ms: int, group: pb.Resource = GROUP
) -> pb.ChangeInvisibleDurationResponse:
    request = pb.ChangeInvisibleDurationRequest(
        group=group, topic=ORDERS, receipt_handle=handle, message_id="any"
    )
    request.invisible_duration.FromMilliseconds(ms)
    answer: pb.ChangeInvisibleDurationResponse = await client.call(
        "ChangeInvisibleDuration", request
    )
    return answer


def handle_of(message: pb.Message) -> str:
    handle: str = message.system_properties.receipt_handle
    return handle


async def one_received(client: GrpcClient, **values: Any) -> pb.Message:
    await client.send(a_message())
    (found,) = await client.received(**values)
    return found


async def test_what_is_acknowledged_never_comes_again(
    client: GrpcClient, clock: ManualClock
) -> None:
    message = await one_received(client)

    answers = [await client.ack(message) for _ in range(2)]
    clock.advance(3_600_000)

    # The second is a repeat, which clients send when the first answer was lost.
    assert [answer.status.code for answer in answers] == [pb.OK, pb.OK]
    assert answers[0].entries[0].receipt_handle == handle_of(message)
    assert answers[0].entries[0].message_id == message.system_properties.message_id
    assert await client.received() == []


async def test_an_acknowledgement_that_comes_late_is_told_so(
    client: GrpcClient, clock: ManualClock
) -> None:
    message = await one_received(client, invisible_duration={"seconds": 10})
    clock.advance(10_000)

    answer = await client.ack(message)

    assert answer.status.code == pb.INVALID_RECEIPT_HANDLE
    assert answer.entries[0].status.code == pb.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("handle", ["", "nonsense", "1.1-00000000:0", "\U0001f4a5" * 1000])
async def test_a_handle_that_is_none_is_told_so(client: GrpcClient, handle: str) -> None:
    message = await one_received(client)
    message.system_properties.receipt_handle = handle

    assert (await client.ack(message)).status.code == pb.INVALID_RECEIPT_HANDLE
    assert (await change(client, handle, ms=1_000)).status.code == pb.INVALID_RECEIPT_HANDLE


async def test_answers_that_differ_are_told_of_each(client: GrpcClient) -> None:
    message = await one_received(client)
    bad = pb.Message()
    bad.CopyFrom(message)
    bad.system_properties.receipt_handle = "nonsense"

    answer = await client.ack(message, bad)

    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [pb.OK, pb.INVALID_RECEIPT_HANDLE]


async def test_an_acknowledgement_of_nothing_is_refused(client: GrpcClient) -> None:
    assert (await client.ack()).status.code == pb.BAD_REQUEST


async def test_an_acknowledgement_for_a_topic_that_is_gone_is_told_so(client: GrpcClient) -> None:
    message = await one_received(client)
    request = pb.AckMessageRequest(
        group=GROUP,
        topic=pb.Resource(name="nope"),
        entries=[pb.AckMessageEntry(receipt_handle=handle_of(message))],
    )

    assert (await client.call("AckMessage", request)).status.code == pb.TOPIC_NOT_FOUND


async def test_a_changed_time_gives_a_new_handle_and_voids_the_old(
    client: GrpcClient, clock: ManualClock
) -> None:
    """Clients take whatever handle they get for theirs, an empty one too."""
    message = await one_received(client, invisible_duration={"seconds": 10})
    answer = await change(client, handle_of(message), ms=60_000)
    clock.advance(30_000)

    late = await client.ack(message)
    message.system_properties.receipt_handle = answer.receipt_handle
    good = await client.ack(message)

    assert answer.status.code == pb.OK
    assert answer.receipt_handle
    assert (late.status.code, good.status.code) == (pb.INVALID_RECEIPT_HANDLE, pb.OK)


@pytest.mark.parametrize("ms", [0, 1, 9])
async def test_a_tiny_time_is_taken(client: GrpcClient, clock: ManualClock, ms: int) -> None:
    message = await one_received(client)

    answer = await change(client, handle_of(message), ms=ms)
    clock.advance(10)
    (again,) = await client.received()

    assert answer.status.code == pb.OK
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize("ms", [-1_000, 12 * 3_600_000 + 1])
async def test_a_time_that_cannot_be_is_refused(client: GrpcClient, ms: int) -> None:
    message = await one_received(client)

    assert (await change(client, handle_of(message), ms=ms)).status.code == (
        pb.ILLEGAL_INVISIBLE_TIME
    )


async def test_a_push_consumers_failure_is_a_retry_after_the_time_it_says(
    client: GrpcClient, clock: ManualClock
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer())
        message = await one_received(client)

        answer = await change(client, handle_of(message), ms=30_000)
        clock.advance(29_000)
        early = await client.received()
        clock.advance(1_000)
        (again,) = await client.received()

    assert answer.status.code == pb.OK
    assert early == []
    assert again.system_properties.delivery_attempt == 2
    assert again.topic.name == "orders"
    assert (await client.ack(again)).status.code == pb.OK


@pytest.mark.parametrize("ms", [0, 1, 999])
async def test_a_push_consumers_tiny_time_is_the_groups_own_delay(
    client: GrpcClient, clock: ManualClock, ms: int
) -> None:
    """Node writes its seconds as milliseconds, and nothing where it was given a list."""
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer(language=pb.NODE_JS))
        message = await one_received(client)

        await change(client, handle_of(message), ms=ms)
        clock.advance(9_999)
        early = await client.received()
        clock.advance(1)
        (again,) = await client.received()

    assert early == []
    assert again.system_properties.delivery_attempt == 2


async def test_the_server_makes_dead_letters_of_what_failed_too_often(
    client: GrpcClient, engine: LocalEngine, clock: ManualClock
) -> None:
    twice = pb.Resource(name="twice")
    async with client.telemetry() as telemetry:
        told = await telemetry.settings(a_consumer(group=twice))
        await client.send(a_message(message_id="the-id"))
        attempts = []
        for _ in range(2):
            (message,) = await client.received(group=twice)
            attempts.append(message.system_properties.delivery_attempt)
            await change(client, handle_of(message), ms=5_000, group=twice)
            clock.advance(5_000)

        after = await client.received(group=twice)
        (dead,) = await client.received(topic=pb.Resource(name="%DLQ%twice"))

    assert told.settings.backoff_policy.max_attempts == 2
    assert (attempts, after) == ([1, 2], [])
    assert dead.system_properties.dead_letter_queue.message_id == "the-id"
    assert RETRY_TOPIC not in dead.user_properties


async def test_a_message_in_order_is_made_a_dead_letter_by_its_client(
    client: GrpcClient,
) -> None:
    topic, group = pb.Resource(name="in-order"), pb.Resource(name="ordered")
    for number in range(2):
        await client.send(
            a_message(b"%d" % number, topic=topic, message_group="g", message_type=pb.FIFO)
        )
    (first,) = await client.received(topic=topic, group=group, batch_size=1)

    answer = await client.call(
        "ForwardMessageToDeadLetterQueue",
        pb.ForwardMessageToDeadLetterQueueRequest(
            group=group,
            topic=topic,
            receipt_handle=handle_of(first),
            delivery_attempt=3,
            max_delivery_attempts=3,
        ),
    )
    again = await client.call(
        "ForwardMessageToDeadLetterQueue",
        pb.ForwardMessageToDeadLetterQueueRequest(
            group=group, topic=topic, receipt_handle=handle_of(first)
        ),
    )

    assert answer.status.code == pb.OK
    assert again.status.code == pb.INVALID_RECEIPT_HANDLE
    assert bodies(await client.received(topic=topic, group=group)) == [b"1"]
    assert bodies(await client.received(topic=pb.Resource(name="%DLQ%ordered"))) == [b"0"]
