"""The listener decides: success is for good, failure comes again later, and has an end."""

import time

import pytest

from tests.conformance.servers import RETRY_DELAY_MS
from tests.conformance.stage import PATIENCE_S, Stage, send


@pytest.mark.rocketmq("PushConsumer: concurrent")
def test_a_listener_gets_every_message_once(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.push(driver, group, topic)

    sent = {send(driver, producer, topic, f"{i}", tag="T")["message_id"] for i in range(50)}
    driver.wait_for(
        lambda: len(driver.messages(consumer)) >= len(sent), "all messages", within_s=PATIENCE_S
    )
    time.sleep(2 * RETRY_DELAY_MS / 1000)

    assert sorted(one.message_id for one in driver.messages(consumer)) == sorted(sent)


@pytest.mark.rocketmq("PushConsumer: two members share a topic")
def test_two_members_of_a_group_share_its_messages(stage: Stage) -> None:
    topic, group = stage.topic(), stage.group()
    first, second = stage.driver(), stage.driver()
    producer = stage.producer(first, topic)
    consumers = [
        (first, stage.push(first, group, topic)),
        (second, stage.push(second, group, topic)),
    ]

    sent = {send(first, producer, topic, f"{i}")["message_id"] for i in range(50)}
    first.wait_for(
        lambda: sum(len(driver.messages(name)) for driver, name in consumers) >= len(sent),
        "all messages",
        within_s=PATIENCE_S,
    )

    got = [one.message_id for driver, name in consumers for one in driver.messages(name)]
    assert sorted(got) == sorted(sent)


@pytest.mark.rocketmq("PushConsumer: retries, with the number of the attempt")
def test_a_failed_message_comes_again_until_it_succeeds(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.push(driver, group, topic, failures={"bad": 2})

    for text in ("good", "bad"):
        send(driver, producer, topic, text)
    driver.wait_for(
        lambda: len([one for one in driver.messages(consumer) if one.is_success]) == 2,
        "both to succeed",
        within_s=PATIENCE_S,
    )

    attempts = [one.attempt for one in driver.messages(consumer) if one.text == "bad"]
    assert attempts == [1, 2, 3]
    assert [one.attempt for one in driver.messages(consumer) if one.text == "good"] == [1]


@pytest.mark.rocketmq("PushConsumer: dead letters after the last attempt")
@pytest.mark.parametrize("is_fifo", [False, True], ids=["concurrent", "fifo"])
def test_a_message_that_fails_for_good_is_a_dead_letter(stage: Stage, is_fifo: bool) -> None:
    driver = stage.driver()
    topic = stage.topic("FIFO" if is_fifo else "NORMAL")
    group = stage.group(is_fifo=is_fifo, retry_max=2)
    producer = stage.producer(driver, topic)
    message_group = "g" if is_fifo else None
    consumer = stage.push(driver, group, topic, failures={"bad": 100})

    for text in ("bad", "good"):
        send(driver, producer, topic, text, message_group=message_group)
    deadline_s = time.monotonic() + PATIENCE_S
    while stage.server.dead_letter_count(group) == 0:
        assert time.monotonic() < deadline_s, driver.messages(consumer)
        time.sleep(0.5)
    driver.wait_for(
        lambda: [one for one in driver.messages(consumer) if one.is_success],
        "the good one",
        within_s=PATIENCE_S,
    )

    tries = [one for one in driver.messages(consumer) if one.text == "bad"]
    assert 2 <= len(tries) <= 3
    assert stage.server.dead_letter_count(group) == 1


@pytest.mark.rocketmq("kill -9 of a consumer: its messages come to another")
def test_what_a_killed_listener_held_comes_to_another(stage: Stage) -> None:
    topic, group = stage.topic(), stage.group()
    killed, survivor = stage.driver(), stage.driver()
    doomed = stage.push(killed, group, topic, holds=["held"])
    producer = stage.producer(survivor, topic)
    held = send(survivor, producer, topic, "held")
    killed.wait_for(lambda: killed.messages(doomed), "the message", within_s=PATIENCE_S)

    killed.kill()
    consumer = stage.push(survivor, group, topic)
    # A push consumer's messages are its own for 60 s unless it says otherwise.
    (seen, *_) = survivor.wait_for(
        lambda: survivor.messages(consumer), "the message", within_s=2 * PATIENCE_S
    )

    assert seen.message_id == held["message_id"]
    assert seen.attempt == 2
