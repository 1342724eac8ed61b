"""The receiver decides: acknowledged for good, kept longer, or back after a while."""

import time

import pytest

from tests.conformance.driving import ClientRefused, Driver, Seen
from tests.conformance.stage import PATIENCE_S, Stage, ack, drain, nothing_comes, receive, send

# The least that RocketMQ lets a receiver ask for.
SHORT_S = 10
INVALID_RECEIPT_HANDLE = 40013


def _receive_one(driver: Driver, consumer: str, invisible_s: int) -> Seen:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if found := receive(driver, consumer, invisible_s=invisible_s):
            return found[0]
    raise AssertionError("no message came")


@pytest.mark.rocketmq("SimpleConsumer: receive, acknowledge, empty poll")
def test_an_empty_poll_ends_without_an_error(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic)

    started_s = time.monotonic()
    found = receive(driver, consumer)
    took_s = time.monotonic() - started_s

    assert found == []
    assert took_s < 30


@pytest.mark.rocketmq("SimpleConsumer: what is not acknowledged comes again, counted")
def test_what_is_not_acknowledged_comes_again(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "again")

    first = _receive_one(driver, consumer, SHORT_S)
    second = _receive_one(driver, consumer, SHORT_S)

    assert first.message_id == second.message_id
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.seen_s - first.seen_s >= SHORT_S - 1


@pytest.mark.rocketmq("SimpleConsumer: a late acknowledgement is refused")
def test_a_late_acknowledgement_is_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "late")
    late = _receive_one(driver, consumer, SHORT_S)
    again = _receive_one(driver, consumer, 60)

    code: int | None = None
    try:
        ack(driver, consumer, late)
        is_told = False
    except ClientRefused as refusal:
        is_told, code = True, refusal.code
    ack(driver, consumer, again)

    assert nothing_comes(driver, consumer)
    if stage.client.name == "go":
        pytest.skip("refused, but the client does not tell its application")
    assert is_told
    assert code in (INVALID_RECEIPT_HANDLE, None)


@pytest.mark.rocketmq("SimpleConsumer: change of the invisible time")
def test_a_message_can_be_given_back_early(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "back")
    first = _receive_one(driver, consumer, 120)

    driver.call("hide", name=consumer, handle=first.handle, invisible_s=SHORT_S)
    second = _receive_one(driver, consumer, 60)
    ack(driver, consumer, second)

    assert second.message_id == first.message_id
    assert second.seen_s - first.seen_s < 60
    assert nothing_comes(driver, consumer)


@pytest.mark.rocketmq("SimpleConsumer: change of the invisible time")
def test_a_message_can_be_kept_longer(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    consumer = stage.simple(driver, group, topic, wait_s=14)
    send(driver, stage.producer(driver, topic), topic, "kept")
    first = _receive_one(driver, consumer, SHORT_S)

    driver.call("hide", name=consumer, handle=first.handle, invisible_s=60)
    is_hidden = nothing_comes(driver, consumer, polls=1)
    ack(driver, consumer, first)

    assert is_hidden
    assert nothing_comes(driver, consumer, polls=1)


@pytest.mark.rocketmq("kill -9 of a consumer: its messages come to another")
def test_messages_of_a_killed_receiver_come_to_another(stage: Stage) -> None:
    topic, group = stage.topic(), stage.group()
    killed, survivor = stage.driver(), stage.driver()
    doomed = stage.simple(killed, group, topic)
    producer = stage.producer(survivor, topic)
    for number in range(3):
        send(survivor, producer, topic, f"{number}")
    taken: list[Seen] = []
    while len(taken) < 3:
        taken += receive(killed, doomed, invisible_s=SHORT_S)

    killed.kill()
    consumer = stage.simple(survivor, group, topic)
    seen = drain(survivor, consumer, 3)

    assert {one.message_id for one in seen} == {one.message_id for one in taken}
