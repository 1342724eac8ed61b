"""Messages of one group come one after the other, and those of others need not wait."""

import time
from collections import defaultdict

import pytest

from tests.conformance.driving import Seen
from tests.conformance.stage import PATIENCE_S, Stage, ack, nothing_comes, receive, send

GROUPS = ("red", "green", "blue")
PER_GROUP = 6


def _numbers(seen: list[Seen]) -> dict[str, list[int]]:
    """Return the numbers of each message group, in the order in which they came."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in seen:
        assert one.message_group is not None
        found[one.message_group].append(int(one.text.rpartition("-")[2]))
    return found


@pytest.mark.rocketmq("FIFO by message group, SimpleConsumer")
def test_a_group_comes_in_the_order_in_which_it_was_sent(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("FIFO"), stage.group(is_fifo=True)
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    for number in range(PER_GROUP):
        for name in GROUPS:
            send(driver, producer, topic, f"{name}-{number}", message_group=name)

    seen: list[Seen] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(seen) < PER_GROUP * len(GROUPS) and time.monotonic() < deadline_s:
        for one in receive(driver, consumer):
            ack(driver, consumer, one)
            seen.append(one)

    assert _numbers(seen) == {name: list(range(PER_GROUP)) for name in GROUPS}


@pytest.mark.rocketmq("FIFO by message group, SimpleConsumer")
def test_a_group_waits_while_one_of_its_messages_is_with_somebody(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("FIFO"), stage.group(is_fifo=True)
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    for number in range(2):
        send(driver, producer, topic, f"red-{number}", message_group="red")

    held = receive(driver, consumer, messages_max=1) or receive(driver, consumer, messages_max=1)
    is_blocked = nothing_comes(driver, consumer, polls=1)
    ack(driver, consumer, held[0])
    (after,) = receive(driver, consumer) or receive(driver, consumer)

    assert [held[0].text, after.text] == ["red-0", "red-1"]
    assert is_blocked


@pytest.mark.rocketmq("FIFO by message group, PushConsumer: a failure holds its group back")
def test_a_failing_message_is_tried_again_before_its_successors(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("FIFO"), stage.group(is_fifo=True)
    producer = stage.producer(driver, topic)
    for number in range(PER_GROUP):
        for name in GROUPS:
            send(driver, producer, topic, f"{name}-{number}", message_group=name)

    consumer = stage.push(driver, group, topic, failures={"red-2": 2})
    driver.wait_for(
        lambda: len([one for one in driver.messages(consumer) if one.is_success]) == 18,
        "all messages",
        within_s=PATIENCE_S,
    )
    seen = driver.messages(consumer)

    done = _numbers([one for one in seen if one.is_success])
    assert done == {name: list(range(PER_GROUP)) for name in GROUPS}
    assert [one.text for one in seen if not one.is_success] == ["red-2", "red-2"]
