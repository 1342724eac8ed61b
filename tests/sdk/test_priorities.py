"""Messages with a priority: which queue they go to, what they carry, and what is refused."""

from typing import Any

import pytest
from mqclient import (
    AsyncProducer,
    ConsistentHashSelector,
    InvalidArgument,
    OutgoingMessage,
    Producer,
    SimpleConsumer,
)
from mqclient.wire.records import pack_record, topic_part, unpack_records

from tests.sdk.fake_broker import FakeBroker, properties_of

PRIORITY = "_SYS_MSG_PRIORITY_"

pytestmark = pytest.mark.usefixtures("each_way")


@pytest.fixture(autouse=True)
def alarms(broker: FakeBroker) -> None:
    """Have a topic of priorities, from 0 to 3."""
    broker.topics["alarms"] = 4
    broker.settings["alarms"] = {"type": "PRIORITY"}


def stored(broker: FakeBroker) -> list[tuple[int, bytes, str | None]]:
    """Return queue, body and priority of each message, lowest queue first."""
    return [
        (queue, body, properties_of(record).get(PRIORITY))
        for queue in range(4)
        for body, record in zip(
            broker.bodies("alarms", queue), broker.queues["alarms", queue], strict=True
        )
    ]


@pytest.mark.parametrize(("priority", "queue"), [(0, 0), (2, 2), (3, 3), (4, 3), (2**31 - 1, 3)])
def test_a_priority_is_the_queue_of_its_number_or_the_highest(
    broker: FakeBroker, priority: int, queue: int
) -> None:
    with Producer(broker.url) as producer:
        # The second time the queues are known beforehand.
        results = [producer.send("alarms", body, priority=priority) for body in (b"a", b"b")]

    assert [result.queue for result in results] == [queue, queue]
    assert stored(broker) == [(queue, b"a", str(priority)), (queue, b"b", str(priority))]


def test_every_way_to_send_takes_a_priority(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        producer.send_async("alarms", b"later", priority=9).result()
        producer.send_oneway("alarms", b"oneway", priority=1)
        producer.flush()
        results = producer.send_many("alarms", [b"m1", b"m2"], priority=2)
        message = OutgoingMessage(topic="alarms", body=b"whole", priority=0)
        producer.send_message(message).result()

    assert [result.queue for result in results] == [2, 2]
    assert stored(broker) == [
        (0, b"whole", "0"), (1, b"oneway", "1"), (2, b"m1", "2"), (2, b"m2", "2"),
        (3, b"later", "9"),
    ]  # fmt: skip


async def test_every_way_to_send_without_threads_takes_one_too(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url) as producer:
        await producer.send("alarms", b"awaited", priority=3)
        await (await producer.send_async("alarms", b"later", priority=9))
        await producer.send_oneway("alarms", b"oneway", priority=1)
        await producer.send_many("alarms", [b"m1", b"m2"], priority=2)

    assert stored(broker) == [
        (1, b"oneway", "1"), (2, b"m1", "2"), (2, b"m2", "2"), (3, b"awaited", "3"),
        (3, b"later", "9"),
    ]  # fmt: skip


def test_a_selector_has_no_say_in_it(broker: FakeBroker) -> None:
    with Producer(broker.url, selector=lambda _message, _count: 0) as producer:
        single = producer.send("alarms", b"x", priority=2)
        many = producer.send_many("alarms", [b"m1", b"m2"], priority=3)

    assert [result.queue for result in (single, *many)] == [2, 3, 3]


@pytest.mark.parametrize("selector", [None, ConsistentHashSelector()])
def test_a_message_without_a_priority_has_the_lowest(
    broker: FakeBroker, selector: ConsistentHashSelector | None
) -> None:
    with Producer(broker.url, selector=selector) as producer:
        results = [producer.send("alarms", b"x") for _ in range(4)]

    assert {result.queue for result in results} == {0}
    assert {priority for _, _, priority in stored(broker)} == {None}


def test_the_highest_is_that_of_the_queues_that_take_messages(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        before = producer.send("alarms", b"before", priority=9)
        broker.write_queue_counts["alarms"] = 2
        after = producer.send("alarms", b"after", priority=9)

    assert (before.queue, after.queue) == (3, 1)


def test_a_received_message_tells_its_priority(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        producer.send("alarms", b"fire", priority=42)
        producer.send("alarms", b"tea")
    with SimpleConsumer("alarms", group="g", server=broker.url) as consumer:
        received = {message.body: message.priority for message in consumer.receive(10)}

    assert received == {b"fire": 42, b"tea": None}


@pytest.mark.parametrize("text", ["-1", "", "many", "٣"])
def test_a_priority_that_is_no_number_is_none(text: str) -> None:
    section = f"{PRIORITY}\x01{text}\x02".encode()
    record = pack_record(topic_part("alarms"), 0, b"x", section, 0, bytes(8))

    (message,) = unpack_records(record, 0, [len(record)])

    assert message.priority is None


@pytest.mark.parametrize(
    "asked",
    [
        {"priority": -1}, {"priority": 2**31}, {"priority": 1, "queue": 1},
        {"priority": 1, "sharding_key": "k"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_sent(
    broker: FakeBroker, asked: dict[str, Any]
) -> None:
    with Producer(broker.url) as producer:
        with pytest.raises(InvalidArgument):
            producer.send("alarms", b"x", **asked)
        with pytest.raises(InvalidArgument):
            producer.send_message(OutgoingMessage(topic="alarms", body=b"x", **asked))

    assert broker.requests == []


def test_its_property_is_reserved(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer, pytest.raises(InvalidArgument, match="reserved"):
        producer.send("alarms", b"x", properties={PRIORITY: "3"})
