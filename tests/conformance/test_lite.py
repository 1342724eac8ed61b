"""Lite topics: what a client is subscribed to reaches it, in order, and nothing else does."""

import os
import time

import pytest

from tests.conformance.clients import (
    LITE_ALONE,
    LITE_BACK,
    LITE_PUSHED,
    LITE_RETRIED,
    LITE_SENT,
    LITE_SIMPLE,
    LITE_TOLD,
)
from tests.conformance.driving import ClientRefused, Driver, Seen
from tests.conformance.servers import MqwebDoor, Server
from tests.conformance.stage import PATIENCE_S, Stage, ack, drain, receive, send, subscribe

pytestmark = pytest.mark.skipif(
    os.environ.get("ROCKETMQ_AGAINST") == "apache",
    reason="Apache's server that is played against here has no lite topics",
)

# Before clients say their whole set again, which would hide a subscription that was not understood.
_SOON_S = 20.0


def _wait_for(
    driver: Driver, consumer: str, *texts: str, within_s: float = PATIENCE_S
) -> list[Seen]:
    """Return what a listener has seen once it succeeded at all of these."""
    driver.wait_for(
        lambda: set(texts) <= {one.text for one in driver.messages(consumer) if one.is_success},
        ", ".join(texts),
        within_s=within_s,
    )
    return driver.messages(consumer)


def _product(server: Server) -> MqwebDoor:
    """Return the product; which group is exclusive is said by its own means."""
    if not isinstance(server, MqwebDoor):
        pytest.skip("groups that are exclusive are made by the product's API here")
    return server


@pytest.mark.rocketmq(LITE_SENT)
def test_a_message_for_a_lite_topic_is_taken_and_a_bad_name_refused(stage: Stage) -> None:
    driver = stage.driver()
    topic = stage.topic("LITE")
    producer = stage.producer(driver, topic)

    receipt = send(driver, producer, topic, "x", lite_topic="alice")
    with pytest.raises(ClientRefused):
        send(driver, producer, topic, "x", lite_topic="al ice")
    with pytest.raises(ClientRefused):
        send(driver, producer, topic, "x")

    assert receipt["message_id"]


@pytest.mark.rocketmq(LITE_PUSHED)
def test_a_listener_gets_what_it_is_subscribed_to(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    producer = stage.producer(driver, topic)
    # Names of some letters: a client may say one by one what is in them.
    consumer = stage.lite(driver, group, topic, "ann", "bob")

    for name in ("ann", "bob", "carol"):
        for number in range(5):
            send(driver, producer, topic, f"{name}{number}", lite_topic=name, tag="t", keys=["k"])
    wanted = [f"{name}{number}" for name in ("ann", "bob") for number in range(5)]
    seen = _wait_for(driver, consumer, *wanted, within_s=_SOON_S)

    assert {(one.topic, one.lite_topic, one.text[:3]) for one in seen} == {
        (topic, "ann", "ann"),
        (topic, "bob", "bob"),
    }
    assert {(one.tag, one.keys, one.attempt) for one in seen} == {("t", ("k",), 1)}


@pytest.mark.rocketmq(LITE_PUSHED)
def test_a_lite_topic_that_is_unsubscribed_from_is_handed_out_no_more(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.lite(driver, group, topic, "a", "b")
    send(driver, producer, topic, "before", lite_topic="a")
    _wait_for(driver, consumer, "before")

    driver.call("unsubscribe_lite", name=consumer, lite_topic="a")
    send(driver, producer, topic, "unseen", lite_topic="a")
    send(driver, producer, topic, "seen", lite_topic="b")
    seen = _wait_for(driver, consumer, "seen")
    subscribe(driver, consumer, "a")
    again = _wait_for(driver, consumer, "unseen")

    assert [one.text for one in seen] == ["before", "seen"]
    assert again[-1].lite_topic == "a"


@pytest.mark.rocketmq(LITE_RETRIED)
def test_a_failed_message_comes_again_and_the_next_ones_follow(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.lite(driver, group, topic, "a", failures={"bad": 2})

    send(driver, producer, topic, "bad", lite_topic="a")
    _wait_for(driver, consumer, "bad")
    send(driver, producer, topic, "good", lite_topic="a")
    seen = _wait_for(driver, consumer, "bad", "good")

    assert [one.text for one in seen] == ["bad", "bad", "bad", "good"]
    assert {one.lite_topic for one in seen} == {"a"}


@pytest.mark.rocketmq(LITE_ALONE)
def test_the_newest_subscriber_has_a_lite_topic_alone(stage: Stage) -> None:
    driver, other = stage.driver(), stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    _product(stage.server).make_exclusive(group)
    producer = stage.producer(driver, topic)
    older = stage.lite(driver, group, topic, "a", "b")
    newer = stage.lite(other, group, topic, "a")

    for number in range(5):
        send(driver, producer, topic, f"a{number}", lite_topic="a")
    send(driver, producer, topic, "b", lite_topic="b")
    seen = _wait_for(other, newer, *(f"a{number}" for number in range(5)))
    left = _wait_for(driver, older, "b")

    assert len(seen) == 5
    assert [one.text for one in left] == ["b"]


@pytest.mark.rocketmq(LITE_TOLD)
def test_who_loses_a_lite_topic_has_it_no_more(stage: Stage) -> None:
    driver, other = stage.driver(), stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    _product(stage.server).make_exclusive(group)
    older = stage.lite(driver, group, topic, "a", "b")

    stage.lite(other, group, topic, "a")
    deadline_s = time.monotonic() + PATIENCE_S
    while driver.call("lite_topics", name=older)["names"] != ["b"]:
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


@pytest.mark.rocketmq(LITE_BACK)
def test_clients_say_their_lite_topics_again_to_a_broker_that_came_back(lone_stage: Stage) -> None:
    stage = lone_stage
    driver = stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.lite(driver, group, topic, "a")
    send(driver, producer, topic, "before", lite_topic="a")
    _wait_for(driver, consumer, "before")

    stage.server.restart()
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            send(driver, producer, topic, "after", lite_topic="a")
            break
        except ClientRefused:
            assert time.monotonic() < deadline_s, "the producer does not come back"
            time.sleep(1)
    driver.wait_for(
        lambda: "after" in [one.text for one in driver.messages(consumer)],
        "the listener to come back",
        within_s=2 * PATIENCE_S,
    )

    assert "before" not in [one.text for one in driver.messages(consumer)[1:]]


@pytest.mark.rocketmq(LITE_SIMPLE)
def test_lite_topics_are_received_from(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("LITE"), stage.group()
    producer = stage.producer(driver, topic)
    consumer = stage.lite(driver, group, topic, "a", kind="simple")

    for text, name in (("a0", "a"), ("b0", "b"), ("a1", "a")):
        send(driver, producer, topic, text, lite_topic=name)
    (first,) = receive(driver, consumer, messages_max=1)
    driver.call("hide", name=consumer, handle=first.handle, invisible_s=20)
    ack(driver, consumer, first)
    (second,) = drain(driver, consumer, 1)

    assert [(one.text, one.lite_topic) for one in (first, second)] == [("a0", "a"), ("a1", "a")]
    assert receive(driver, consumer) == []
