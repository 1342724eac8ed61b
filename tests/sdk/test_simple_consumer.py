"""Both simple consumers over real sockets."""

from typing import Any

import pytest
from mqclient import (
    Admin,
    AsyncAdmin,
    AsyncSimpleConsumer,
    HandleExpired,
    InvalidArgument,
    InvalidHandle,
    InvalidName,
    Message,
    SimpleConsumer,
    Sql,
    UnknownTopic,
)

from tests.sdk.fake_broker import FakeBroker, make_record


def handles(broker: FakeBroker, verb: str) -> list[list[str]]:
    return [
        document["receipt_handles"]
        for name, document in broker.documents
        if name == f"messages:{verb}"
    ]


def consumer(broker: FakeBroker, **settings: Any) -> SimpleConsumer:
    return SimpleConsumer("orders", "billing", broker.url, **{"wait_ms": 0, **settings})


def test_received_messages_are_acknowledged_as_one_run(broker: FakeBroker) -> None:
    broker.put("orders", 0, *(str(number).encode() for number in range(500)))

    with consumer(broker) as reader:
        messages = reader.receive(500)
        reader.ack(messages)

    assert [message.body for message in messages] == [str(n).encode() for n in range(500)]
    assert handles(broker, "ack") == [["0-00000000:0-499"]]
    assert len(broker.settled) == 500


def test_runs_break_where_a_message_of_the_lease_is_left_out(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2", b"3", b"4")

    with consumer(broker) as reader:
        messages = reader.receive()
        reader.ack([messages[4], messages[0], messages[1]])

    assert handles(broker, "ack") == [["0-00000000:0-1", "0-00000000:4"]]
    assert [offset for *_, offset in broker.settled] == [0, 1, 4]


def test_a_run_spans_offsets_that_a_filter_left_out(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", tag="A")
    broker.put("orders", 0, b"1", tag="B")
    broker.put("orders", 0, b"2", tag="A")

    with consumer(broker, filter_text="A") as reader:
        messages = reader.receive()
        reader.ack(messages)

    assert [message.body for message in messages] == [b"0", b"2"]
    assert handles(broker, "ack") == [["0-00000000:0-2"]]


def test_a_tag_that_only_shares_the_hash_is_settled_and_not_delivered(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"wanted", tag="AaAa")
    broker.put("orders", 0, b"impostor", tag="BBBB")

    with consumer(broker, filter_text="AaAa") as reader:
        messages = reader.receive()

    assert [message.body for message in messages] == [b"wanted"]
    assert broker.settled == [("ack", "orders", 0, 1)]


def test_an_sql_filter_is_the_brokers_alone_to_read(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", tag="A")

    with consumer(broker, filter_text=Sql("a = 'b'")) as reader:
        messages = reader.receive()

    assert broker.documents[0][1]["filter"] == "a = 'b'"
    assert broker.documents[0][1]["filter_type"] == "SQL92"
    assert [message.body for message in messages] == [b"0"]


@pytest.mark.parametrize("wanted", [False, True])
def test_high_queues_first_is_asked_for_by_a_setting(broker: FakeBroker, wanted: bool) -> None:
    broker.put("orders", 0, b"low")
    broker.put("orders", 1, b"high")

    with consumer(broker, high_queue_first=wanted) as reader:
        messages = reader.receive()

    bodies = [message.body for message in messages]
    assert bodies == ([b"high", b"low"] if wanted else [b"low", b"high"])


def test_a_message_given_back_is_received_again(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")

    with consumer(broker) as reader:
        (first,) = reader.receive()
        reader.nack(first, delay_ms=5, reason="later")
        (second,) = reader.receive()

    assert first.delivery_attempt == 1
    assert second.delivery_attempt == 2
    assert broker.documents[1] == (
        "messages:nack", {"receipt_handles": ["0-00000000:0"], "delay_ms": 5, "reason": "later"},
    )  # fmt: skip


def test_an_extended_message_is_settled_by_its_new_handle(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with consumer(broker) as reader:
        messages = reader.receive()
        reader.extend(messages, invisible_ms=90_000)
        reader.ack(messages)

    assert handles(broker, "extend") == [["0-00000000:0-2"]]
    assert handles(broker, "ack") == [["1-00000000:0-2"]]


def test_an_expired_handle_is_told_and_the_others_are_settled(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")
    broker.put("orders", 1, b"1")

    with consumer(broker) as reader:
        messages = reader.receive()
        broker.expired_tokens.add("0-00000000")
        with pytest.raises(HandleExpired):
            reader.ack(messages)

    assert broker.settled == [("ack", "orders", 1, 0)]


def test_a_handle_of_nowhere_is_told(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")

    with consumer(broker) as reader:
        (message,) = reader.receive()
        broker.deliveries.clear()
        with pytest.raises(InvalidHandle):
            reader.ack(message)


def test_a_receive_waits_for_the_first_message(broker: FakeBroker) -> None:
    with consumer(broker, wait_ms=10_000) as reader:
        fault = broker.fault("messages:receive", "hold")
        broker.put("orders", 0, b"x")
        fault.release()
        messages = reader.receive()

    assert fault.fired_count == 1
    assert [message.body for message in messages] == [b"x"]


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_an_acknowledgement_is_repeated_until_it_is_confirmed(
    broker: FakeBroker, action: str
) -> None:
    broker.put("orders", 0, b"x")
    fault = broker.fault("messages:ack", action)

    with consumer(broker) as reader:
        reader.ack(reader.receive())

    assert fault.fired_count == 1
    assert ("ack", "orders", 0, 0) in broker.settled


def test_iterating_yields_message_after_message(broker: FakeBroker) -> None:
    broker.put("orders", 0, *(str(number).encode() for number in range(10)))
    bodies = []

    with consumer(broker, messages_max=4) as reader:
        for message in reader:
            bodies.append(message.body)
            reader.ack(message)
            if len(bodies) == 10:
                break

    assert bodies == [str(number).encode() for number in range(10)]


def test_what_was_received_ahead_is_given_back_at_the_end(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with consumer(broker) as reader:
        first: Message = next(iter(reader))
        reader.ack(first)

    assert broker.settled == [
        ("ack", "orders", 0, 0), ("nack", "orders", 0, 1), ("nack", "orders", 0, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "wrong"),
    [("a/b", {}), ("g", {"wait_ms": 30_001}), ("g", {"filter_text": "a||"}), ("g", {"topics": ()})],
)
def test_settings_out_of_range_are_refused(group: str, wrong: dict[str, object]) -> None:
    with pytest.raises((InvalidArgument, InvalidName)):
        SimpleConsumer(wrong.pop("topics", "orders"), group, "http://x", **wrong)  # type: ignore[arg-type]


async def test_an_async_consumer_receives_and_settles(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2", b"3")

    async with AsyncSimpleConsumer("orders", "billing", broker.url, wait_ms=0) as reader:
        messages = await reader.receive()
        await reader.extend(messages[:2], invisible_ms=1_000)
        await reader.ack(messages[:3])
        await reader.nack(messages[3])
        (again,) = await reader.receive()

    assert again.body == b"3"
    assert again.delivery_attempt == 2
    assert [item for item in broker.settled if item[0] == "ack"] == [
        ("ack", "orders", 0, 0), ("ack", "orders", 0, 1), ("ack", "orders", 0, 2),
    ]  # fmt: skip


async def test_an_async_consumer_iterates(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    bodies = []

    async with AsyncSimpleConsumer("orders", "billing", broker.url, wait_ms=0) as reader:
        async for message in reader:
            bodies.append(message.body)
            await reader.ack(message)
            if len(bodies) == 3:
                break

    assert bodies == [b"0", b"1", b"2"]


def test_topics_are_created_listed_described_and_deleted(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin:
        for name in ("a", "b", "c", "d"):
            admin.create_topic(name, queue_count=2)
        names = [info.topic for info in admin.list_topics()]
        info = admin.describe_topic("a")
        admin.delete_topic("a")
        with pytest.raises(UnknownTopic):
            admin.describe_topic("a")

    assert names == ["orders", "a", "b", "c", "d"]
    assert [(queue.min_offset, queue.max_offset) for queue in info.queues] == [(0, 0), (0, 0)]


async def test_an_async_admin_does_the_same(broker: FakeBroker) -> None:
    async with AsyncAdmin(broker.url) as admin:
        await admin.create_topic("a", queue_count=2)
        info = await admin.describe_topic("a")
        offsets = await admin.group_offsets("nobody")

    assert info.queue_count == 2
    assert offsets == []


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({}, {}),
        ({"delay_ms": 0}, {"delay_ms": 0}),
        ({"delay_ms": 700}, {"delay_ms": 700}),
        ({"delay_level": 4}, {"delay_level": 4}),
        ({"delay_level": -1}, {"delay_level": -1}),
    ],
)
def test_a_failed_message_comes_again_when_the_group_or_the_caller_says(
    broker: FakeBroker, said: dict[str, int], asked: dict[str, int]
) -> None:
    broker.put("orders", 0, b"x")
    with SimpleConsumer("orders", "g", broker.url) as consumer:
        consumer.nack(consumer.receive(), reason="r" * 5_000, **said)  # type: ignore[arg-type]

    (document,) = [found for name, found in broker.documents if name == "messages:nack"]
    handles, reason = document.pop("receipt_handles"), document.pop("reason")
    assert len(handles) == 1
    assert reason == "r" * 1_000
    assert document == asked


def test_a_delay_is_said_in_one_way(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    with SimpleConsumer("orders", "g", broker.url) as consumer:
        messages = consumer.receive()
        with pytest.raises(InvalidArgument):
            consumer.nack(messages, delay_ms=1, delay_level=1)


def test_what_failed_before_is_received_with_its_attempts_whatever_its_tag(
    broker: FakeBroker,
) -> None:
    properties = b"TAGS\x01BBBB\x02RETRY_TOPIC\x01orders\x02"
    record = bytearray(make_record("%RETRY%g", 0, b"again", properties))
    record[72:76] = (3).to_bytes(4, "big")
    broker.topics["%RETRY%g"] = 1
    broker.queues["%RETRY%g", 0].append(bytes(record))
    settings = {"filter_text": "AaAa", "wait_ms": 0}

    with SimpleConsumer(["orders", "%RETRY%g"], "g", broker.url, **settings) as consumer:  # type: ignore[arg-type]
        (message,) = consumer.receive()

    assert (message.topic, message.delivery_attempt) == ("orders", 4)
    assert not any(verb == "ack" for verb, *_ in broker.settled)
