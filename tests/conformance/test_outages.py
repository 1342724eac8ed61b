"""A broker that was killed and came back is used again by the same producers and consumers."""

import time

import pytest

from tests.conformance.driving import ClientRefused, Driver, Seen
from tests.conformance.stage import PATIENCE_S, Stage, ack, receive, send


def _send_in_time(driver: Driver, producer: str, topic: str, text: str) -> str:
    """Send until it is taken; how a client waits for a server is its own business."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return str(send(driver, producer, topic, text)["message_id"])
        except ClientRefused:
            assert time.monotonic() < deadline_s, "the producer does not come back"
            time.sleep(1)


def _receive_in_time(driver: Driver, consumer: str, wanted: str) -> Seen:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline_s, "the consumer does not come back"
        try:
            for seen in receive(driver, consumer):
                ack(driver, consumer, seen)
                if seen.text == wanted:
                    return seen
        except ClientRefused:
            time.sleep(1)


@pytest.mark.rocketmq("a broker that was killed and came back")
def test_clients_go_on_when_the_broker_comes_back(lone_stage: Stage) -> None:
    stage = lone_stage
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    pushed = stage.push(driver, stage.group(), topic) if stage.client.has_push else None
    _send_in_time(driver, producer, topic, "before")
    _receive_in_time(driver, consumer, "before")
    if pushed is not None:
        driver.wait_for(lambda: driver.messages(pushed), "the first", within_s=PATIENCE_S)

    stage.server.restart()
    after = _send_in_time(driver, producer, topic, "after")
    seen = _receive_in_time(driver, consumer, "after")

    assert seen.message_id == after
    if pushed is not None:
        driver.wait_for(
            lambda: "after" in [one.text for one in driver.messages(pushed)],
            "the listener to come back",
            within_s=2 * PATIENCE_S,
        )
