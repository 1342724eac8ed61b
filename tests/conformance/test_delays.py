"""Delayed messages are never early, and one that was recalled never comes."""

import pytest
from mqclient import SystemClock

from tests.conformance.driving import ClientRefused
from tests.conformance.stage import Stage, drain, nothing_comes, send

DELAY_S = 6.0
# Apache's wheel has slots of a second.
LATE_S_MAX = 5.0


def _in_ms(seconds: float) -> int:
    return SystemClock().wall_ms() + int(seconds * 1000)


@pytest.mark.rocketmq("delayed messages")
def test_a_delayed_message_is_not_early_and_hardly_late(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("DELAY"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic, wait_s=10)
    # The Python and Rust clients know whole seconds only.
    due_ms = -(-_in_ms(DELAY_S) // 1000) * 1000

    send(driver, producer, topic, "later", deliver_at_ms=due_ms)
    (seen,) = drain(driver, consumer, 1)
    came_ms = SystemClock().wall_ms()

    assert seen.text == "later"
    assert due_ms <= came_ms <= due_ms + LATE_S_MAX * 1000


@pytest.mark.rocketmq("recall of a delayed message")
def test_a_recalled_message_never_comes(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("DELAY"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.simple(driver, group, topic)
    wanted = send(driver, producer, topic, "kept", deliver_at_ms=_in_ms(DELAY_S))
    unwanted = send(driver, producer, topic, "recalled", deliver_at_ms=_in_ms(DELAY_S))

    told = driver.call("recall", name=producer, topic=topic, handle=unwanted["recall_handle"])
    seen = drain(driver, consumer, 1)

    assert told["message_id"] == unwanted["message_id"]
    assert [one.message_id for one in seen] == [wanted["message_id"]]
    assert nothing_comes(driver, consumer)


@pytest.mark.rocketmq("recall of a delayed message")
def test_a_handle_that_never_was_is_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic = stage.topic("DELAY")
    producer = stage.producer(driver, topic)

    with pytest.raises(ClientRefused):
        driver.call("recall", name=producer, topic=topic, handle="no such handle")
