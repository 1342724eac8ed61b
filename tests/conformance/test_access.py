"""With access control on, whoever has a key may do what it was given for, and nobody else."""

import uuid
from dataclasses import replace

import pytest

from tests.conformance.driving import ClientRefused
from tests.conformance.servers import Credentials, MqwebDoor
from tests.conformance.stage import Stage, drain, send

UNAUTHORIZED, FORBIDDEN = 40100, 40300
# What clients say that keep the code to themselves.
_WORDS = ("unauthorized", "forbidden", "route", "not permitted", "authent", "access key")


def _issue(server: MqwebDoor, *grants: str) -> Credentials:
    return server.issue(f"account-{uuid.uuid4().hex[:8]}", *grants)


def _is_refused(refusal: ClientRefused) -> bool:
    told = refusal.text.lower()
    return refusal.code in (UNAUTHORIZED, FORBIDDEN) or any(word in told for word in _WORDS)


@pytest.mark.rocketmq("access control: right keys, wrong keys, none, and rights")
def test_who_has_the_right_key_may_send_and_receive(
    guarded_stage: Stage, guarded_server: MqwebDoor
) -> None:
    stage, driver = guarded_stage, guarded_stage.driver()
    topic, group = stage.topic(), stage.group()
    stage.credentials = _issue(
        guarded_server, f"topic {topic} pub,sub,get", f"group {group} sub,get"
    )

    consumer = stage.simple(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "allowed")

    assert [seen.text for seen in drain(driver, consumer, 1)] == ["allowed"]


@pytest.mark.rocketmq("access control: right keys, wrong keys, none, and rights")
@pytest.mark.parametrize("case", ["wrong secret", "unknown key", "none", "another topic"])
def test_nobody_else_may(guarded_stage: Stage, guarded_server: MqwebDoor, case: str) -> None:
    stage, driver = guarded_stage, guarded_stage.driver()
    topic = stage.topic()
    granted = stage.topic() if case == "another topic" else topic
    right = _issue(guarded_server, f"topic {granted} pub,sub,get")
    stage.credentials = {
        "wrong secret": replace(right, secret=right.secret[::-1]),
        "unknown key": replace(right, access_key="nobody"),
        "none": None,
        "another topic": right,
    }[case]

    def use() -> None:
        send(driver, stage.producer(driver, topic), topic, "not allowed")

    with pytest.raises(ClientRefused) as refusal:
        use()

    assert _is_refused(refusal.value), refusal.value.text
