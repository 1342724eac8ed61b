"""What the lite topics of a parent took and hold: running sums, and what an answer costs."""

import pytest

from apps.engine.broker.core import Broker
from apps.engine.litetypes import LiteTotal
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import TopicSpec, TopicTotal
from tests.engine.broker.lites.chats import CHATS, HOUR_MS, end_all, opened, publish, send


def sums(broker: Broker) -> tuple[LiteTotal, TopicTotal]:
    return broker.lite_totals()["chats"], broker.topic_totals()["chats"]


def test_an_answer_looks_at_no_lite_topic(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        send(broker, f"n{number}", "x", "y")
    looked: list[str] = []
    monkeypatch.setattr(broker.queues, "find", lambda topic, _number: looked.append(topic))

    assert sums(broker) == (LiteTotal(came=100, held=100), TopicTotal(sent=100, held=100))
    assert looked == []


def test_what_is_gone_is_held_no_more_and_came_all_the_same(
    broker: Broker, clock: ManualClock
) -> None:
    send(broker, "ann", "a1", "a2")
    clock.advance(HOUR_MS)
    send(broker, "bob", "b1")
    end_all(broker)
    send(broker, "ann", "a3")

    assert sums(broker) == (LiteTotal(came=4, held=2), TopicTotal(sent=4, held=2))


def test_what_retention_took_is_held_no_more(broker: Broker) -> None:
    send(broker, "ann", "a1", "a2", "a3")

    broker.retention.hide({("%LITE%chats|ann", 0): 2})

    assert sums(broker) == (LiteTotal(came=3, held=1), TopicTotal(sent=3, held=1))


def test_a_restart_counts_from_what_is_held(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, "ann", "a1", "a2")
    broker.close()

    again = opened(disk, clock)
    before = sums(again)
    send(again, "bob", "b1")

    assert before == (LiteTotal(came=0, held=2), TopicTotal(sent=2, held=2))
    assert sums(again) == (LiteTotal(came=1, held=3), TopicTotal(sent=3, held=3))


def test_a_deleted_parent_is_not_told_and_holds_nothing_when_it_is_back(broker: Broker) -> None:
    send(broker, "ann", "a1", "a2")

    publish(broker, TopicSpec(name="other", queue_count=1))
    while_away = broker.lite_totals()
    publish(broker, CHATS)

    assert while_away == {}
    assert sums(broker)[0] == LiteTotal(came=2, held=0)
