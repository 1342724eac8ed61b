"""Publishing ahead: messages travel together, their answers are read later, nothing is lost."""

import logging
import threading
from collections.abc import Iterator

import pytest
from mqclient.celery.client import Client
from mqclient.celery.lanes import Lanes
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.celery.options import Options
from mqclient.errors import MessageTooLarge
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.celery.clocks import ManualClock
from tests.sdk.fake_broker import FakeBroker

TOPIC = "celery-q-mail"
DEADLINE_S = 60.0


def message(text: str) -> Packed:
    return Packed(text.encode(), None, None)


def sends(broker: FakeBroker) -> int:
    return sum("messages?queue" in line for line in broker.requests)


@pytest.fixture
def lanes(broker: FakeBroker, clock: ManualClock) -> Iterator[Lanes]:
    """Return lanes that are filled ahead, by a clock that stands still."""
    client = Client(Endpoint.of(broker.url), Options(publish_ahead=True), clock=clock)
    lanes = Lanes(client, Names())
    lanes.declare("mail")
    yield lanes
    lanes.end()
    client.pool.close()


def test_a_lone_message_leaves_at_once_and_its_answer_is_not_awaited(
    broker: FakeBroker, lanes: Lanes
) -> None:
    held = broker.fault("messages?queue", "hold")

    lanes.put("mail", message("one"), None)

    assert held.fired.wait(DEADLINE_S)
    assert broker.bodies(TOPIC, 0) == []
    held.release()
    lanes.end()
    assert broker.bodies(TOPIC, 0) == [b"one"]


def test_those_that_follow_travel_together(broker: FakeBroker, lanes: Lanes) -> None:
    for number in range(11):
        lanes.put("mail", message(str(number)), None)
    lanes.end()

    # The first by itself, ten together.
    assert sends(broker) == 2
    assert broker.bodies(TOPIC, 0) == [str(number).encode() for number in range(11)]


def test_a_request_takes_only_so_many(broker: FakeBroker, lanes: Lanes) -> None:
    for number in range(1 + 64 + 1):
        lanes.put("mail", message(str(number)), None)
    lanes.end()

    assert sends(broker) == 3


def test_who_publishes_after_the_time_sends_what_was_gathered(
    broker: FakeBroker, lanes: Lanes, clock: ManualClock
) -> None:
    for text in ("one", "two"):
        lanes.put("mail", message(text), None)
    clock.advance(0.006)
    lanes.put("mail", message("three"), None)
    lanes.put("mail", message("four"), None)
    lanes.end()

    assert sends(broker) == 3
    assert broker.bodies(TOPIC, 0) == [b"one", b"two", b"three", b"four"]


def test_messages_of_another_priority_overtake_nothing(broker: FakeBroker, lanes: Lanes) -> None:
    for text, priority in (("a", 0), ("b", 0), ("c", 9), ("d", 0)):
        lanes.put("mail", message(text), priority)
    lanes.end()

    assert broker.bodies(TOPIC, 0) == [b"a", b"b", b"d"]
    assert broker.bodies(TOPIC, 3) == [b"c"]
    posts = [line for line in broker.requests if "messages?queue" in line]
    assert [line[-1] for line in posts] == ["0", "0", "3", "0"]


def test_a_lost_answer_has_the_messages_sent_again_in_order(
    broker: FakeBroker, lanes: Lanes
) -> None:
    lanes.put("mail", message("0"), None)
    fault = broker.fault("messages?queue", "reset_before", times=2)

    for number in range(1, 9):
        lanes.put("mail", message(str(number)), None)
    lanes.end()

    assert fault.fired_count == 2
    assert broker.bodies(TOPIC, 0) == [str(number).encode() for number in range(9)]


def test_a_publish_makes_the_lane_that_is_missing(broker: FakeBroker, lanes: Lanes) -> None:
    broker.topics.clear()

    for text in ("one", "two", "three"):
        lanes.put("mail", message(text), None)
    lanes.end()

    assert broker.topics == {TOPIC: 4}
    assert broker.bodies(TOPIC, 0) == [b"one", b"two", b"three"]


def test_one_refused_message_takes_no_other_along_and_the_next_publish_learns_it(
    broker: FakeBroker, lanes: Lanes, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("one", "two", "poison", "three"):
        lanes.put("mail", message(text), None)
    clock.advance(0.006)

    with caplog.at_level(logging.ERROR, "mqclient"):
        # Sends what was gathered; the answer is read by the one after it.
        lanes.put("mail", message("four"), None)
        clock.advance(0.006)
        lanes.put("mail", message("five"), None)
        with pytest.raises(MessageTooLarge):
            lanes.put("mail", message("not taken"), None)

    assert caplog.text.count("lane mail was not stored") == 1
    lanes.put("mail", message("six"), None)
    lanes.end()
    bodies = broker.bodies(TOPIC, 0)
    assert bodies == [b"one", b"two", b"three", b"four", b"five", b"six"]


def test_what_is_gathered_and_unread_is_dealt_with_by_a_thread(
    broker: FakeBroker, lanes: Lanes, clock: ManualClock
) -> None:
    lanes.put("mail", message("one"), None)
    lanes.put("mail", message("two"), None)
    fault = broker.fault("messages?queue", "reset_before")

    clock.advance(1.0)

    # Nobody publishes any more: the thread sends it, and sends it again when that fails.
    assert fault.fired.wait(DEADLINE_S)
    clock.advance(1.0)
    assert wait_for_bodies(broker, [b"one", b"two"])


def wait_for_bodies(broker: FakeBroker, bodies: list[bytes]) -> bool:
    """Poll for what only the thread can have sent."""
    tick = threading.Event()
    for _ in range(int(DEADLINE_S / 0.01)):
        if broker.bodies(TOPIC, 0) == bodies:
            return True
        tick.wait(0.01)
    return False


def test_what_has_a_time_of_its_own_waits_for_its_answer(broker: FakeBroker, lanes: Lanes) -> None:
    for text in ("one", "two"):
        lanes.put("mail", message(text), None)
    lanes.put("mail", message("three"), None, timeout_s=5.0)

    assert broker.bodies(TOPIC, 0) == [b"one", b"two", b"three"]
