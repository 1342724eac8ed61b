"""Publishing ahead: the answer of a publish is read later, and nothing is lost by that."""

import logging
import threading
from collections.abc import Iterator

import pytest
from mqclient.celery import ahead
from mqclient.celery.client import Client
from mqclient.celery.lanes import Lanes
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.celery.options import Options
from mqclient.clock import SystemClock
from mqclient.errors import MessageTooLarge
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.fake_broker import FakeBroker

TOPIC = "celery-q-mail"
DEADLINE_S = 10.0


def message(text: str) -> Packed:
    return Packed(text.encode(), None, None)


@pytest.fixture
def lanes(broker: FakeBroker) -> Iterator[Lanes]:
    """Return lanes that are filled ahead."""
    client = Client(Endpoint.of(broker.url), Options(publish_ahead=True), clock=SystemClock())
    lanes = Lanes(client, Names())
    yield lanes
    lanes.end()
    client.pool.close()


def test_a_publish_returns_before_its_answer(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.declare("mail")
    held = broker.fault("messages?queue", "hold")

    lanes.put("mail", message("one"), None)

    assert held.fired.wait(DEADLINE_S)
    assert broker.bodies(TOPIC, 0) == []
    held.release()
    lanes.end()
    assert broker.bodies(TOPIC, 0) == [b"one"]


def test_messages_are_stored_in_the_order_they_were_published_in(
    broker: FakeBroker, lanes: Lanes
) -> None:
    lanes.declare("mail")
    fault = broker.fault("messages?queue", "reset_before", times=3)

    for number in range(20):
        lanes.put("mail", message(str(number)), None)
    lanes.end()

    assert fault.fired_count == 3
    assert broker.bodies(TOPIC, 0) == [str(number).encode() for number in range(20)]


def test_a_publish_makes_the_lane_that_is_missing(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.put("mail", message("one"), None)
    lanes.put("mail", message("two"), None)
    lanes.end()

    assert broker.topics == {TOPIC: 4}
    assert broker.bodies(TOPIC, 0) == [b"one", b"two"]


def test_a_refused_publish_is_logged_and_raised_by_the_next(
    broker: FakeBroker,
    lanes: Lanes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "_QUIET_S", DEADLINE_S)
    lanes.declare("mail")
    lanes.put("mail", message("poison"), None)

    with caplog.at_level(logging.ERROR, "mqclient"), pytest.raises(MessageTooLarge):
        lanes.put("mail", message("not sent"), None)

    assert "lane mail was not stored" in caplog.text
    lanes.put("mail", message("sent"), None)
    lanes.end()
    assert broker.bodies(TOPIC, 0) == [b"sent"]


def test_the_last_answer_is_read_by_a_thread(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.declare("mail")
    fault = broker.fault("messages?queue", "reset_before")

    lanes.put("mail", message("one"), None)

    assert fault.fired.wait(DEADLINE_S)
    assert wait_for_body(broker)


def wait_for_body(broker: FakeBroker) -> bool:
    """Poll for the message that only the thread can have sent again."""
    tick = threading.Event()
    for _ in range(int(DEADLINE_S / 0.01)):
        if broker.bodies(TOPIC, 0) == [b"one"]:
            return True
        tick.wait(0.01)
    return False


def test_what_has_a_time_of_its_own_waits_for_its_answer(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.put("mail", message("one"), None)
    lanes.put("mail", message("two"), None, timeout_s=5.0)

    assert broker.bodies(TOPIC, 0) == [b"one", b"two"]
