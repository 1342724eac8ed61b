"""A message of a transaction is visible if and only if it was committed, by whoever says so."""

import pytest

from tests.conformance.stage import PATIENCE_S, Stage, drain, nothing_comes, send


@pytest.mark.rocketmq("transactions: commit and rollback")
def test_only_what_is_committed_is_seen(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic("TRANSACTION"), stage.group()
    producer = stage.producer(driver, topic, verdict="unknown")
    consumer = stage.simple(driver, group, topic)
    kept = send(driver, producer, topic, "kept", in_transaction=True)
    lost = send(driver, producer, topic, "lost", in_transaction=True)

    is_hidden = nothing_comes(driver, consumer, polls=1)
    driver.call("end", name=producer, transaction=lost["transaction"], verdict="rollback")
    driver.call("end", name=producer, transaction=kept["transaction"], verdict="commit")
    seen = drain(driver, consumer, 1)

    assert is_hidden
    assert [(one.text, one.message_id) for one in seen] == [("kept", kept["message_id"])]
    assert nothing_comes(driver, consumer)


@pytest.mark.rocketmq("transactions: the producer is asked what became of one")
@pytest.mark.parametrize("verdict", ["commit", "rollback"])
def test_an_orphan_is_decided_by_asking_its_producer(stage: Stage, verdict: str) -> None:
    driver = stage.driver()
    topic, group = stage.topic("TRANSACTION"), stage.group()
    producer = stage.producer(driver, topic, verdict=verdict)
    consumer = stage.simple(driver, group, topic)

    half = send(driver, producer, topic, "orphan", in_transaction=True, keys=["k"], tag="T")
    (asked, *_) = driver.wait_for(
        lambda: driver.checks(producer), "a question", within_s=PATIENCE_S
    )

    assert (asked.text, asked.message_id) == ("orphan", half["message_id"])
    if verdict == "rollback":
        assert nothing_comes(driver, consumer)
        return
    (seen,) = drain(driver, consumer, 1)
    assert (seen.text, seen.message_id, seen.tag) == ("orphan", half["message_id"], "T")


@pytest.mark.rocketmq("transactions: another producer is asked when the sender was killed")
def test_another_producer_of_the_topic_is_asked_when_the_sender_is_gone(stage: Stage) -> None:
    topic, group = stage.topic("TRANSACTION"), stage.group()
    killed, survivor = stage.driver(), stage.driver()
    sender = stage.producer(killed, topic, verdict="unknown")
    other = stage.producer(survivor, topic, verdict="commit")
    consumer = stage.simple(survivor, group, topic)

    half = send(killed, sender, topic, "orphan", in_transaction=True)
    killed.kill()
    survivor.wait_for(lambda: survivor.checks(other), "a question", within_s=PATIENCE_S)
    (seen,) = drain(survivor, consumer, 1)

    assert seen.message_id == half["message_id"]
