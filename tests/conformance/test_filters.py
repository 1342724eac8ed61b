"""A consumer that asks for some messages gets those, and its group is done with the others."""

import pytest

from tests.conformance.driving import ClientRefused
from tests.conformance.stage import Stage, drain, nothing_comes, receive, send

ILLEGAL_FILTER_EXPRESSION = 40010


@pytest.mark.rocketmq("filters: tags")
def test_a_filter_of_tags_lets_through_what_has_one(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    wanted = {"type": "tag", "expression": "Red || Blue"}
    consumer = stage.simple(driver, group, topic, wanted=wanted)
    producer = stage.producer(driver, topic)
    for tag in ("Red", "Green", "Blue", "red", None):
        send(driver, producer, topic, f"{tag}", tag=tag)

    seen = drain(driver, consumer, 2)

    assert {one.tag for one in seen} == {"Red", "Blue"}
    assert nothing_comes(driver, consumer, polls=1)


@pytest.mark.rocketmq("filters: SQL92")
def test_a_filter_in_sql_looks_at_properties(stage: Stage) -> None:
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    wanted = {"type": "sql", "expression": "price BETWEEN 10 AND 20 AND city IS NOT NULL"}
    consumer = stage.simple(driver, group, topic, wanted=wanted)
    producer = stage.producer(driver, topic)
    send(driver, producer, topic, "cheap", properties={"price": "5", "city": "x"})
    send(driver, producer, topic, "right", properties={"price": "15", "city": "x"})
    send(driver, producer, topic, "nowhere", properties={"price": "15"})
    send(driver, producer, topic, "dear", properties={"price": "25", "city": "x"})

    seen = drain(driver, consumer, 1)

    assert [one.text for one in seen] == ["right"]
    assert nothing_comes(driver, consumer, polls=1)


@pytest.mark.rocketmq("filters: SQL92")
def test_an_expression_that_is_none_is_refused(stage: Stage) -> None:
    if stage.client.name == "node":
        pytest.skip("told that its filter is none, it never ends starting")
    driver = stage.driver()
    topic, group = stage.topic(), stage.group()
    wanted = {"type": "sql", "expression": "price >>> ("}

    def use() -> None:
        # Some clients are refused when they start, and others when they ask.
        receive(driver, stage.simple(driver, group, topic, wanted=wanted))

    with pytest.raises(ClientRefused) as refusal:
        use()

    assert refusal.value.code in (ILLEGAL_FILTER_EXPRESSION, None)
