"""Lanes at the broker: made when needed, filled by priority, counted, emptied and deleted."""

import json

import pytest
from mqclient.celery.client import Client
from mqclient.celery.lanes import Lanes
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.errors import MessageTooLarge, UnknownTopic

from tests.sdk.fake_broker import FakeBroker, properties_of

TOPIC = "celery-q-mail"
MESSAGE = Packed(b"{}", "task-1", "shop.mail")


@pytest.fixture
def lanes(client: Client) -> Lanes:
    """Return lanes none of which was declared."""
    return Lanes(client, Names())


def created(broker: FakeBroker) -> list[str]:
    return [line for line in broker.requests if line.startswith("PUT")]


def test_a_lane_is_made_once_with_a_queue_for_each_priority_step(
    broker: FakeBroker, lanes: Lanes
) -> None:
    assert lanes.declare("mail")
    assert not lanes.declare("mail")

    assert broker.topics == {TOPIC: 4}
    assert len(created(broker)) == 1


def test_a_lane_that_exists_is_left_as_it_is(broker: FakeBroker, lanes: Lanes) -> None:
    broker.topics[TOPIC] = 8

    assert not lanes.declare("mail")

    assert broker.topics == {TOPIC: 8}
    assert created(broker) == []


def test_a_lane_with_too_few_queues_gets_more(broker: FakeBroker, lanes: Lanes) -> None:
    broker.topics[TOPIC] = 1

    assert not lanes.declare("mail")

    assert broker.topics == {TOPIC: 4}


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(60_000, 60_000), (10, 1_000), (10**13, 31_536_000_000)]
)
def test_the_life_of_an_unused_lane_is_told_within_the_brokers_limits(
    broker: FakeBroker, lanes: Lanes, asked_ms: int, given_ms: int
) -> None:
    lanes.declare("mail", expires_ms=asked_ms)

    assert broker.documents == [
        (TOPIC, {"queue_count": 4, "type": "MIXED", "expires_ms": given_ms})
    ]


@pytest.mark.parametrize(
    ("priority", "queue"),
    [
        (None, 0), (0, 0), (2, 0), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (255, 3), (-1, 0),
        ("high", 0),
    ],
)  # fmt: skip
def test_a_priority_chooses_the_highest_step_that_is_not_above_it(
    lanes: Lanes, priority: object, queue: int
) -> None:
    assert lanes.queue_of(priority) == queue


def test_a_message_carries_what_operators_look_for(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.declare("mail")

    lanes.put("mail", MESSAGE, 9)

    (record,) = broker.queues[TOPIC, 3]
    properties = properties_of(record)
    assert (properties["KEYS"], properties["TAGS"]) == ("task-1", "shop.mail")
    assert broker.bodies(TOPIC, 3) == [b"{}"]
    (sent,) = [line for line in broker.requests if line.startswith("POST")]
    assert sent.endswith("messages?queue=3")


def test_a_publish_makes_the_lane_that_is_missing(broker: FakeBroker, lanes: Lanes) -> None:
    lanes.put("mail", MESSAGE, None)

    assert broker.bodies(TOPIC, 0) == [b"{}"]
    assert broker.topics == {TOPIC: 4}


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_a_publish_is_repeated_until_it_is_confirmed(
    broker: FakeBroker, lanes: Lanes, action: str
) -> None:
    lanes.declare("mail")
    fault = broker.fault("messages?queue", action, times=2)

    lanes.put("mail", MESSAGE, None)

    assert fault.fired_count == 2
    # A stored message whose answer was lost is stored again.
    assert len(broker.bodies(TOPIC, 0)) == (3 if action == "reset_after" else 1)


def test_a_publish_that_cannot_succeed_is_refused(broker: FakeBroker, lanes: Lanes) -> None:
    with pytest.raises(MessageTooLarge):
        lanes.put("mail", Packed(b"poison", None, None), None)

    assert broker.bodies(TOPIC, 0) == []


def test_a_lane_nobody_has_read_has_all_its_messages(broker: FakeBroker, lanes: Lanes) -> None:
    for priority in (0, 0, 9):
        lanes.put("mail", MESSAGE, priority)

    assert lanes.size("mail") == 3


def test_what_is_handed_out_does_not_count(broker: FakeBroker, lanes: Lanes) -> None:
    for _ in range(5):
        lanes.put("mail", MESSAGE, None)

    lanes.receive("mail", messages_max=2, invisible_ms=60_000)

    assert lanes.size("mail") == 3


def test_a_lane_that_is_missing_has_no_size(lanes: Lanes) -> None:
    assert not lanes.exists("mail")
    with pytest.raises(UnknownTopic):
        lanes.size("mail")


def test_purging_leaves_what_is_handed_out(broker: FakeBroker, lanes: Lanes) -> None:
    for _ in range(5):
        lanes.put("mail", MESSAGE, 3)
    (out,) = lanes.receive("mail", messages_max=1, invisible_ms=60_000)

    assert lanes.purge("mail") == 4

    assert lanes.size("mail") == 0
    assert {item[:3] for item in broker.settled} == {("ack", TOPIC, 1)}
    assert out.queue_offset not in {item[3] for item in broker.settled}


def test_a_deleted_lane_leaves_no_message_to_one_made_again(
    broker: FakeBroker, lanes: Lanes
) -> None:
    for _ in range(3):
        lanes.put("mail", MESSAGE, None)

    assert lanes.delete("mail") == 3
    assert broker.topics == {}
    assert lanes.delete("mail") == 0

    lanes.declare("mail")
    assert lanes.size("mail") == 0


def test_another_virtual_host_has_lanes_of_its_own(broker: FakeBroker, client: Client) -> None:
    Lanes(client, Names("blue")).put("mail", MESSAGE, None)

    assert list(broker.topics) == ["celery-v-blue-q-mail"]
    assert json.loads(broker.bodies("celery-v-blue-q-mail", 0)[0]) == {}
