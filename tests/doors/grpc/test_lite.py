"""Lite topics over the wire: who subscribes to which, is handed what, and is told what."""

import asyncio
from typing import Any

import pytest

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.codec.layout import LITE_PROPERTY
from apps.engine.codec.litenames import lite_topic
from apps.engine.limits import LITE_NAME_CHARACTERS_MAX, LITE_SUBSCRIPTIONS_MAX
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from tests.doors.grpc.client import (
    ENDPOINTS,
    GROUP,
    GrpcClient,
    a_consumer,
    a_lite_message,
    a_sync,
    bodies,
)

INBOX = pb.Resource(name="inbox")
SOLO = pb.Resource(name="solo")
ORDERED = pb.Resource(name="ordered")
KINDS = (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER)


async def sent(client: GrpcClient, *messages: tuple[str, bytes]) -> None:
    """Send messages, each to a lite topic of `inbox`."""
    answer = await client.send(*(a_lite_message(body, lite) for lite, body in messages))
    assert answer.status.code == pb.OK, answer.status.message


async def received(client: GrpcClient, **values: Any) -> list[bytes]:
    return bodies(await client.received(topic=INBOX, **values))


async def synced(client: GrpcClient, *names: str, **values: Any) -> int:
    answer = await client.call("SyncLiteSubscription", a_sync(*names, **values))
    code: int = answer.status.code
    return code


async def subscribed(client: GrpcClient, *names: str, **values: Any) -> None:
    """Subscribe to lite topics, from their first message on."""
    assert await synced(client, *names, **values) == pb.OK


# --- settings and assignments ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_settings_say_how_many_and_how_long(client: GrpcClient, kind: pb.ClientType) -> None:
    """Without a quota Python and Java allow no subscription at all."""
    async with client.telemetry() as telemetry:
        answer = await telemetry.settings(a_consumer(client_type=kind, topic=INBOX))

    told = answer.settings.subscription
    assert answer.settings.client_type == kind
    assert told.lite_subscription_quota == LITE_SUBSCRIPTIONS_MAX
    assert told.max_lite_topic_size == LITE_NAME_CHARACTERS_MAX
    assert told.receive_batch_size == 32


@pytest.mark.parametrize(("group", "is_fifo"), [(GROUP, False), (ORDERED, True)])
async def test_a_client_works_in_order_where_that_was_decided_about_its_group(
    client: GrpcClient, group: pb.Resource, is_fifo: bool
) -> None:
    settings = a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX, group=group)
    async with client.telemetry() as telemetry:
        answer = await telemetry.settings(settings)

    assert answer.settings.subscription.fifo is is_fifo


async def test_go_is_given_nothing_behind_what_may_fail(client: GrpcClient) -> None:
    """Its lite consumer works in order whatever it is told, and goes on behind what failed."""
    settings = a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX, language=pb.GOLANG)
    async with client.telemetry() as telemetry:
        answer = await telemetry.settings(settings)

    assert answer.settings.subscription.receive_batch_size == 1


async def test_python_adds_a_lite_topic_by_the_letters_of_its_name(
    client: GrpcClient, engine: LocalEngine
) -> None:
    python = client.named("snake", x_mq_language="PYTHON")

    await subscribed(python, *"bob")
    await subscribed(python, "carol")
    await subscribed(python, "a", action=pb.PARTIAL_ADD)
    await sent(client, ("bob", b"for bob"))

    assert await received(python) == [b"for bob"]
    (found,) = engine.lite_subscriptions("billing")
    assert found.names == ("a", "bob", "carol")


async def test_letters_are_names_where_another_client_or_a_whole_set_says_them(
    client: GrpcClient, engine: LocalEngine
) -> None:
    python = client.named("snake", x_mq_language="PYTHON")

    await subscribed(python, "x", "y", action=pb.COMPLETE_ADD)
    await subscribed(client, "x", "y")

    assert [one.names for one in engine.lite_subscriptions("billing")] == [("x", "y"), ("x", "y")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_heartbeat_of_a_lite_consumer_is_taken(
    client: GrpcClient, kind: pb.ClientType
) -> None:
    answer = await client.call("Heartbeat", pb.HeartbeatRequest(group=GROUP, client_type=kind))

    assert answer.status.code == pb.OK


@pytest.mark.parametrize("group", [GROUP, ORDERED])
async def test_a_group_of_lite_topics_is_assigned_one_place(
    client: GrpcClient, group: pb.Resource
) -> None:
    """A receive hands out of all that its client has, so more places would ask for the same."""
    request = pb.QueryAssignmentRequest(topic=INBOX, group=group, endpoints=ENDPOINTS)

    answer = await client.call("QueryAssignment", request)

    assert [one.message_queue.id for one in answer.assignments] == [-1]


# --- subscribing ----------------------------------------------------------------------------------


async def test_a_client_is_handed_what_it_is_subscribed_to_and_nothing_else(
    client: GrpcClient,
) -> None:
    other = client.named("other@1")
    await subscribed(client, "a", "b")
    await subscribed(other, "c")
    await sent(client, ("a", b"a"), ("b", b"b"), ("c", b"c"), ("d", b"d"))

    assert sorted(await received(client)) == [b"a", b"b"]
    assert await received(other) == [b"c"]


async def test_a_set_is_added_to_taken_from_replaced_and_cleared(
    client: GrpcClient, engine: LocalEngine
) -> None:
    def names() -> list[tuple[str, ...]]:
        return [one.names for one in engine.lite_subscriptions("billing")]

    await subscribed(client, "a", "b")
    await subscribed(client, "c")
    added = names()
    await subscribed(client, "b", action=pb.PARTIAL_REMOVE)
    taken = names()
    await subscribed(client, "x", "y", action=pb.COMPLETE_ADD)
    replaced = names()
    await subscribed(client, action=pb.COMPLETE_REMOVE)

    assert (added, taken, replaced) == ([("a", "b", "c")], [("a", "c")], [("x", "y")])
    assert names() == []


async def test_what_is_no_longer_subscribed_to_is_not_handed_out(client: GrpcClient) -> None:
    await subscribed(client, "a", "b")
    await subscribed(client, "a", action=pb.PARTIAL_REMOVE)

    await sent(client, ("a", b"a"), ("b", b"b"))

    assert await received(client) == [b"b"]


async def test_a_receive_waits_for_what_comes_and_is_woken(client: GrpcClient) -> None:
    await subscribed(client, "a")
    waiting = asyncio.create_task(received(client, long_polling_timeout={"seconds": 15}))
    while not waiting.done():
        await sent(client, ("a", b"x"))
        await asyncio.wait([waiting], timeout=1)

    assert (await waiting)[0] == b"x"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (None, [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(policy=pb.OffsetOption.LAST), [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(policy=pb.OffsetOption.MIN), [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(policy=pb.OffsetOption.MAX), [b"new"]),
        (pb.OffsetOption(timestamp=0), [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(timestamp=2**52), [b"new"]),
        (pb.OffsetOption(offset=0), [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(offset=1), [b"old", b"new"]),
        (pb.OffsetOption(offset=2**62), [b"new"]),
        (pb.OffsetOption(tail_n=0), [b"new"]),
        (pb.OffsetOption(tail_n=1), [b"old", b"new"]),
        (pb.OffsetOption(tail_n=2**62), [b"oldest", b"old", b"new"]),
        (pb.OffsetOption(), [b"oldest", b"old", b"new"]),
    ],
    ids=[
        "none",
        "last",
        "min",
        "max",
        "since",
        "from now",
        "offset 0",
        "offset 1",
        "offset beyond",
        "last 0",
        "last 1",
        "more than all",
        "empty",
    ],
)
async def test_a_subscription_says_where_the_group_begins(
    client: GrpcClient, option: pb.OffsetOption | None, expected: list[bytes]
) -> None:
    await sent(client, ("a", b"oldest"))
    await sent(client, ("a", b"old"))
    await subscribed(client, "a", offset_option=option)
    await sent(client, ("a", b"new"))

    assert await received(client) == expected


@pytest.mark.parametrize(
    ("option", "code"),
    [
        (pb.OffsetOption(offset=-1), pb.BAD_REQUEST),
        (pb.OffsetOption(tail_n=-1), pb.BAD_REQUEST),
        (pb.OffsetOption(policy=9), pb.BAD_REQUEST),  # type: ignore[arg-type]
        (pb.OffsetOption(timestamp=-1), pb.BAD_REQUEST),
    ],
)
async def test_a_begin_that_is_not_kept_is_refused(
    client: GrpcClient, engine: LocalEngine, option: pb.OffsetOption, code: int
) -> None:
    assert await synced(client, "a", offset_option=option) == code
    assert engine.lite_subscriptions("billing") == ()


async def test_the_set_that_is_said_again_moves_nothing(client: GrpcClient) -> None:
    """Clients say all they have every half minute, and at their start, with nothing in it."""
    await subscribed(client, action=pb.COMPLETE_ADD)
    await subscribed(client, "a", version=7)
    await sent(client, ("a", b"x"))
    await subscribed(client, "a", action=pb.COMPLETE_ADD)

    assert await received(client) == [b"x"]
    assert await received(client) == []


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"topic": pb.Resource(name="nope")}, pb.TOPIC_NOT_FOUND),
        ({"topic": pb.Resource(name="orders")}, pb.BAD_REQUEST),
        ({"topic": pb.Resource(name="%LITE%inbox|a")}, pb.BAD_REQUEST),
        ({"topic": pb.Resource()}, pb.ILLEGAL_TOPIC),
        ({"group": pb.Resource(name="a/b")}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"action": 9}, pb.BAD_REQUEST),
    ],
)
async def test_a_subscription_that_cannot_be_is_refused(
    client: GrpcClient, values: dict[str, Any], code: int
) -> None:
    assert await synced(client, "a", **values) == code


async def test_more_than_a_client_may_have_is_refused_and_changes_nothing(
    client: GrpcClient, engine: LocalEngine
) -> None:
    await subscribed(client, "a")
    most = [f"n{number}" for number in range(LITE_SUBSCRIPTIONS_MAX)]

    assert await synced(client, *most) == pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert [one.count for one in engine.lite_subscriptions("billing")] == [1]
    assert await synced(client, *most, action=pb.COMPLETE_ADD) == pb.OK


async def test_a_lite_consumer_of_another_topic_is_refused(client: GrpcClient) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer(client_type=pb.LITE_PUSH_CONSUMER))
        (frame,) = await client.frames(pb.ReceiveMessageRequest(
            group=GROUP,
            message_queue=pb.MessageQueue(topic=pb.Resource(name="orders"), id=-1),
            auto_renew=True,
        ))  # fmt: skip

    assert frame.status.code == pb.BAD_REQUEST


# --- handing out and settling ---------------------------------------------------------------------


async def test_what_is_out_of_a_lite_topic_holds_it_back_and_no_other(client: GrpcClient) -> None:
    await subscribed(client, "a", "b")
    await sent(client, ("a", b"a0"))
    (first,) = await client.received(topic=INBOX)
    await sent(client, ("a", b"a1"), ("b", b"b0"))

    meanwhile = await received(client)
    await client.ack(first)

    assert meanwhile == [b"b0"]
    assert await received(client) == [b"a1"]


async def test_a_receive_that_is_asked_again_is_handed_the_same(client: GrpcClient) -> None:
    await subscribed(client, "a", "b")
    await sent(client, ("a", b"a0"), ("b", b"b0"))

    first = await received(client, attempt_id="once")
    again = await received(client, attempt_id="once")
    other = await received(client, attempt_id="twice")

    assert sorted(first) == sorted(again) == [b"a0", b"b0"]
    assert other == []


async def test_a_failed_message_comes_again_in_its_place_and_counted(
    client: GrpcClient, clock: ManualClock
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX))
        await subscribed(client, "a")
        await sent(client, ("a", b"a0"), ("a", b"a1"))
        (first,) = await client.received(topic=INBOX, batch_size=1)

        answer = await changed(client, first, ms=5_000)
        assert answer.status.code == pb.OK
        too_soon = await received(client)
        clock.advance(5_000)
        (again,) = await client.received(topic=INBOX, batch_size=1)
        await client.ack(again)

        assert too_soon == []
        assert again.body == b"a0"
        assert again.system_properties.delivery_attempt == 2
        assert await received(client) == [b"a1"]


async def changed(
    client: GrpcClient, message: pb.Message, *, ms: int, **values: Any
) -> pb.ChangeInvisibleDurationResponse:
    system = message.system_properties
    request = pb.ChangeInvisibleDurationRequest(
        group=GROUP,
        topic=INBOX,
        receipt_handle=system.receipt_handle,
        message_id=system.message_id,
        lite_topic=system.lite_topic,
        **values,
    )
    request.invisible_duration.FromMilliseconds(ms)
    answer: pb.ChangeInvisibleDurationResponse = await client.call(
        "ChangeInvisibleDuration", request
    )
    return answer


async def test_a_simple_consumer_keeps_a_message_for_longer(
    client: GrpcClient, clock: ManualClock
) -> None:
    await subscribed(client, "a")
    await sent(client, ("a", b"x"))
    (found,) = await client.received(topic=INBOX, invisible_duration={"seconds": 10})

    answer = await changed(client, found, ms=30_000)
    clock.advance(20_000)
    still_out = await received(client)
    found.system_properties.receipt_handle = answer.receipt_handle

    assert still_out == []
    assert (await client.ack(found)).status.code == pb.OK


async def test_a_message_that_is_put_off_is_not_counted_as_tried(
    client: GrpcClient, clock: ManualClock
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX))
        await subscribed(client, "a")
        await sent(client, ("a", b"x"))
        (first,) = await client.received(topic=INBOX)

        answer = await changed(client, first, ms=3_000, suspend=True)
        too_soon = await received(client)
        clock.advance(3_000)
        (again,) = await client.received(topic=INBOX)

    assert answer.status.code == pb.OK
    assert too_soon == []
    assert again.system_properties.delivery_attempt == 1


async def test_a_dead_letter_tells_which_lite_topic_it_was_of(client: GrpcClient) -> None:
    await subscribed(client, "a")
    await sent(client, ("a", b"x"), ("a", b"y"))
    (found, _) = await client.received(topic=INBOX)
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=GROUP,
        topic=INBOX,
        receipt_handle=found.system_properties.receipt_handle,
        message_id=found.system_properties.message_id,
        lite_topic="a",
    )

    answer = await client.call("ForwardMessageToDeadLetterQueue", request)
    letters = pb.Resource(name="%DLQ%billing")
    (letter,) = await client.received(topic=letters, group=pb.Resource(name="undertaker"))

    system = letter.system_properties
    assert answer.status.code == pb.OK
    assert letter.topic == letters
    assert (system.message_type, system.lite_topic) == (pb.LITE, "a")
    assert system.dead_letter_queue.topic == "inbox"
    assert system.dead_letter_queue.message_id == found.system_properties.message_id


async def test_a_lite_topic_is_read_by_its_own_name_as_well(client: GrpcClient) -> None:
    await sent(client, ("a", b"x"))

    own = pb.Resource(name=lite_topic("inbox", "a"))
    (found,) = await client.received(topic=own)

    assert (found.topic, found.system_properties.lite_topic) == (INBOX, "a")
    assert LITE_PROPERTY not in found.user_properties
    assert (await client.ack(found)).status.code == pb.OK


# --- ends and evictions ---------------------------------------------------------------------------


async def test_a_client_that_ends_leaves_its_set(client: GrpcClient, engine: LocalEngine) -> None:
    await subscribed(client, "a")

    request = pb.NotifyClientTerminationRequest(group=GROUP)
    answer = await client.call("NotifyClientTermination", request)

    assert answer.status.code == pb.OK
    assert engine.lite_subscriptions("billing") == ()


async def test_who_loses_a_lite_topic_to_another_is_told_so(client: GrpcClient) -> None:
    newer = client.named("newer@1")
    async with client.telemetry() as telemetry:
        settings = a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX, group=SOLO)
        await telemetry.settings(settings)
        await subscribed(client, "a", "b", group=SOLO)

        await subscribed(newer, "a", group=SOLO)
        command = await telemetry.command()

    await sent(client, ("a", b"a"), ("b", b"b"))
    assert command.WhichOneof("command") == "notify_unsubscribe_lite_command"
    assert command.notify_unsubscribe_lite_command.lite_topic == "a"
    assert await received(client, group=SOLO) == [b"b"]
    assert await received(newer, group=SOLO) == [b"a"]


async def test_who_says_again_what_it_lost_is_told_again(client: GrpcClient) -> None:
    """Python's client does not hear the notice, and says its whole set every half minute."""
    newer = client.named("newer@1")
    await subscribed(client, "a", group=SOLO)
    await subscribed(newer, "a", group=SOLO)
    async with client.telemetry() as telemetry:
        settings = a_consumer(client_type=pb.LITE_PUSH_CONSUMER, topic=INBOX, group=SOLO)
        await telemetry.settings(settings)

        await subscribed(client, "a", group=SOLO, action=pb.COMPLETE_ADD)
        command = await telemetry.command()

    await sent(client, ("a", b"a"))
    assert command.notify_unsubscribe_lite_command.lite_topic == "a"
    assert await received(client, group=SOLO) == []
    assert await received(newer, group=SOLO) == [b"a"]


async def test_clients_of_a_group_that_shares_keep_theirs(client: GrpcClient) -> None:
    newer = client.named("newer@1")
    await subscribed(client, "a")
    await subscribed(newer, "a")
    await sent(client, ("a", b"a"))

    assert await received(client) == [b"a"]
    assert await received(newer) == []
