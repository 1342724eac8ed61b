"""The same name in two namespaces is two topics."""

import pytest

from tests.conformance.stage import Stage, drain, nothing_comes, send


@pytest.mark.rocketmq("namespaces")
def test_a_namespace_keeps_its_messages_to_itself(stage: Stage) -> None:
    driver = stage.driver()
    stage.namespace = "east"
    topic, group = stage.topic(), stage.group()
    stage.namespace = "west"
    stage.server.create_topic(stage.placed(topic))
    stage.server.create_group(stage.placed(group))
    west = stage.simple(driver, group, topic)
    stage.namespace = "east"
    east = stage.simple(driver, group, topic)
    producer = stage.producer(driver, topic)

    receipt = send(driver, producer, topic, "eastern", tag="T")
    (seen,) = drain(driver, east, 1)

    assert seen.message_id == receipt["message_id"]
    assert seen.topic == topic
    assert nothing_comes(driver, west, polls=1)
