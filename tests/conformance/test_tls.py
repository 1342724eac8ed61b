"""By TLS and signed: what comes through, and that a client is not fooled by any certificate."""

from pathlib import Path

import pytest

from tests.certificates import self_signed
from tests.conformance.clients import TLS, UNTRUSTED
from tests.conformance.driving import ClientRefused
from tests.conformance.servers import Credentials, MqwebDoor
from tests.conformance.stage import PATIENCE_S, Stage, drain, receive, send


@pytest.fixture
def tls_stage(guarded_stage: Stage, guarded_server: MqwebDoor) -> Stage:
    """Return a stage whose client comes by TLS and trusts the server's certificate."""
    guarded_stage.is_tls = True
    guarded_stage.trusted = guarded_server.certificate
    return guarded_stage


def _allowed(server: MqwebDoor, topic: str, group: str) -> Credentials:
    return server.issue(f"tls-{topic}", f"topic {topic} pub,sub,get", f"group {group} sub,get")


@pytest.mark.rocketmq(TLS)
def test_messages_come_by_tls(tls_stage: Stage, guarded_server: MqwebDoor) -> None:
    stage, driver = tls_stage, tls_stage.driver()
    topic, group = stage.topic(), stage.group()
    stage.credentials = _allowed(guarded_server, topic, group)
    consumer = stage.simple(driver, group, topic)

    receipt = send(driver, stage.producer(driver, topic), topic, "secret", tag="TagA")
    (seen,) = drain(driver, consumer, 1)

    assert (seen.message_id, seen.text, seen.tag) == (receipt["message_id"], "secret", "TagA")
    assert receive(driver, consumer) == []


@pytest.mark.rocketmq(TLS)
def test_a_listener_is_called_by_tls(tls_stage: Stage, guarded_server: MqwebDoor) -> None:
    stage, driver = tls_stage, tls_stage.driver()
    topic, group = stage.topic(), stage.group()
    stage.credentials = _allowed(guarded_server, topic, group)

    pushed = stage.push(driver, group, topic)
    send(driver, stage.producer(driver, topic), topic, "secret")

    (seen,) = driver.wait_for(lambda: driver.messages(pushed), "the message", within_s=PATIENCE_S)
    assert seen.text == "secret"


@pytest.mark.rocketmq(UNTRUSTED)
def test_a_certificate_that_nobody_trusts_is_refused(
    tls_stage: Stage, guarded_server: MqwebDoor, tmp_path: Path
) -> None:
    stage = tls_stage
    topic, group = stage.topic(), stage.group()
    stage.credentials = _allowed(guarded_server, topic, group)
    trusting = stage.driver()
    send(trusting, stage.producer(trusting, topic), topic, "trusted")
    stage.trusted, _ = self_signed(tmp_path)
    driver = stage.driver()

    with pytest.raises(ClientRefused):
        send(driver, stage.producer(driver, topic), topic, "to whom?")

    consumer = stage.simple(trusting, group, topic)
    assert [seen.text for seen in drain(trusting, consumer, 1)] == ["trusted"]
