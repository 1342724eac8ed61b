"""What a producer sends is what a consumer gets."""

import pytest

from tests.conformance.driving import ClientRefused
from tests.conformance.stage import Stage, ack, drain, nothing_comes, receive, send, send_bytes

MIB = 1024 * 1024
BODY_BYTES_MAX = 4 * MIB
# Go refuses to send more than 2 MiB, and Node and Rust to receive more than 4 MiB, all that is
# around the body included.
OWN_LIMITS = {"go": 2 * MIB - 4096, "node": BODY_BYTES_MAX - 4096, "rust": BODY_BYTES_MAX - 4096}
MESSAGE_BODY_TOO_LARGE, TOPIC_NOT_FOUND = 41301, 40402


@pytest.mark.rocketmq("normal messages: tag, keys, properties")
def test_a_message_comes_as_it_was_sent(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)

    receipt = send(
        driver, producer, topic, "Grüße, 世界", tag="TagA", keys=["order-7"],
        properties={"city": "Köln", "amount": "12"},
    )  # fmt: skip
    (seen,) = drain(driver, consumer, 1)

    assert seen.message_id == receipt["message_id"]
    assert seen.topic == topic
    assert seen.text == "Grüße, 世界"
    assert seen.tag == "TagA"
    assert seen.keys == ("order-7",)
    assert {name: seen.properties[name] for name in ("city", "amount")} == {
        "city": "Köln", "amount": "12",
    }  # fmt: skip
    assert seen.attempt == 1
    assert not seen.is_corrupted
    assert nothing_comes(driver, consumer, polls=1)


@pytest.mark.rocketmq("normal messages: tag, keys, properties")
def test_many_messages_come_once_each(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    sent = {send(driver, producer, topic, f"{i}")["message_id"]: f"{i}" for i in range(40)}

    seen = drain(driver, consumer, len(sent))

    assert {one.message_id: one.text for one in seen} == sent
    assert len(seen) == len(sent)


@pytest.mark.rocketmq("bodies: any bytes, up to 4 MiB; one byte more is refused")
def test_a_body_may_be_any_bytes_up_to_the_limit(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    size_bytes = OWN_LIMITS.get(stage.client.name, BODY_BYTES_MAX)
    largest = bytes(range(256)) * (size_bytes // 256)

    send_bytes(driver, producer, topic, bytes(range(256)))
    send_bytes(driver, producer, topic, largest)
    seen = drain(driver, consumer, 2, messages_max=1)

    assert sorted((one.body for one in seen), key=len) == [bytes(range(256)), largest]


@pytest.mark.rocketmq("bodies: any bytes, up to 4 MiB; one byte more is refused")
def test_a_body_above_the_limit_is_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic = stage.topic()
    producer = stage.producer(driver, topic)
    send(driver, producer, topic, "small")

    with pytest.raises(ClientRefused) as refusal:
        send_bytes(driver, producer, topic, b"x" * (BODY_BYTES_MAX + 1))

    # Clients that were told the limit refuse it themselves, without a code.
    assert refusal.value.code in (MESSAGE_BODY_TOO_LARGE, None)


@pytest.mark.rocketmq("a topic that is not there is refused")
def test_a_topic_that_is_not_there_is_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic = stage.topic()
    # Only then is it the topic, and not the server, that is not there.
    send(driver, stage.producer(driver, topic), topic, "text")

    def use() -> None:
        # Some clients are refused when they start, and others when they send.
        producer = stage.producer(driver, "nowhere-to-be-found")
        send(driver, producer, "nowhere-to-be-found", "text")

    with pytest.raises(ClientRefused) as refusal:
        use()

    assert refusal.value.code in (TOPIC_NOT_FOUND, None)
    told = refusal.value.text.lower()
    assert refusal.value.code is not None or "not" in told or "fail" in told


@pytest.mark.rocketmq("a message of a type that its topic does not take is refused")
def test_a_type_that_the_topic_does_not_take_is_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("NORMAL"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)

    with pytest.raises(ClientRefused):
        send(driver, producer, topic, "ordered", message_group="g")
    send(driver, producer, topic, "plain")

    assert [seen.text for seen in drain(driver, consumer, 1)] == ["plain"]


@pytest.mark.rocketmq("one client's messages reach another group whole")
def test_each_group_gets_every_message(stage: Stage) -> None:
    driver = stage.driver()
    topic = stage.topic()
    consumers = [stage.simple(driver, stage.group(), topic) for _ in range(2)]
    producer = stage.producer(driver, topic)
    for number in range(5):
        send(driver, producer, topic, f"{number}")

    for consumer in consumers:
        seen = drain(driver, consumer, 5)

        assert {one.text for one in seen} == {"0", "1", "2", "3", "4"}


@pytest.mark.rocketmq("SimpleConsumer: receive, acknowledge, empty poll")
def test_what_is_received_is_nobody_elses_until_its_time_is_over(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    first = stage.simple(driver, group, topic)
    second = stage.simple(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "mine")

    (seen,) = receive(driver, first, invisible_s=60) or receive(driver, first, invisible_s=60)

    assert nothing_comes(driver, second, polls=1)
    ack(driver, first, seen)
