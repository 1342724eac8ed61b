"""Where a group begins in a queue: once, by what was decided, then by what was asked."""

import pytest

from apps.engine.derived.consumequeue import ColdRead
from apps.engine.errors import (
    InvalidArgument,
    InvalidName,
    NotPermitted,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.grouptypes import BeginOffset, QueuePlace
from apps.engine.limits import PLACES_MAX
from apps.engine.types import ConsumeFrom, GroupSpec
from tests.engine.broker.brokerbench import BrokerBench

ORDERS = QueuePlace(topic="orders", queue=0)
BILLS = QueuePlace(topic="bills", queue=0)


def begin(bench: BrokerBench, *places: QueuePlace, **how: object) -> list[BeginOffset]:
    return bench.broker.begin.offsets("g", places or [ORDERS], **how)  # type: ignore[arg-type]


def begun_at(bench: BrokerBench, **how: object) -> int:
    (answer,) = begin(bench, **how)
    assert answer.is_new
    return answer.queue_offset


def test_a_group_begins_at_the_first_message_unless_asked_otherwise() -> None:
    bench = BrokerBench()
    bench.send(5)

    assert begun_at(bench) == 0


def test_a_group_begins_behind_the_last_message_where_it_asks_for_that() -> None:
    bench = BrokerBench()
    bench.send(5)

    assert begun_at(bench, consume_from=ConsumeFrom.LAST) == 5


def test_a_group_begins_at_the_first_message_of_a_time() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.clock.advance(1_000)
    since_ms = bench.clock.wall_ms()
    bench.send(5)

    at = begun_at(bench, consume_from=ConsumeFrom.TIMESTAMP, consume_from_ms=since_ms)

    assert at == 5


def test_what_was_decided_about_the_group_wins_over_what_a_member_asks() -> None:
    bench = BrokerBench(GroupSpec(name="g", consume_from=ConsumeFrom.LAST))
    bench.send(5)

    assert begun_at(bench, consume_from=ConsumeFrom.FIRST) == 5


def test_a_group_begins_once_and_goes_on_from_there() -> None:
    bench = BrokerBench()
    bench.send(5)
    begin(bench, consume_from=ConsumeFrom.LAST)
    bench.send(5)

    (again,) = begin(bench, consume_from=ConsumeFrom.LAST)

    assert (again.queue_offset, again.is_new) == (5, False)


def test_a_beginning_survives_a_restart() -> None:
    bench = BrokerBench()
    bench.send(5)
    begin(bench, consume_from=ConsumeFrom.LAST)
    bench.restart()
    bench.send(5)

    (again,) = begin(bench, consume_from=ConsumeFrom.FIRST)

    assert (again.queue_offset, again.is_new) == (5, False)


def test_progress_that_is_there_is_not_touched_by_what_is_asked() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.commit(3)

    (answer,) = begin(bench, consume_from=ConsumeFrom.FIRST)

    assert (answer.queue_offset, answer.is_new) == (3, False)
    assert bench.committed() == 3


def test_queues_are_answered_in_the_order_asked_and_twice_where_asked_twice() -> None:
    bench = BrokerBench()
    bench.send(2, topic="bills")
    bench.commit(0)

    answers = begin(bench, BILLS, ORDERS, BILLS, consume_from=ConsumeFrom.LAST)

    assert [(a.topic, a.queue_offset, a.is_new) for a in answers] == [
        ("bills", 2, True),
        ("orders", 0, False),
        ("bills", 2, False),
    ]


def test_a_topic_made_anew_begins_behind_what_was_deleted() -> None:
    bench = BrokerBench()
    bench.send(4)
    bench.publish(deleted="orders")
    bench.publish()

    assert begun_at(bench) == 4


def test_a_cold_read_records_nothing_and_a_later_try_goes_through() -> None:
    bench = BrokerBench()
    bench.send(40, topic="bills")
    bench.restart()
    bench.disk.make_cold()
    how = {"consume_from": ConsumeFrom.TIMESTAMP, "consume_from_ms": 1, "wait": False}

    answers: list[BeginOffset] = []
    tries = 0
    while not answers:
        try:
            answers = begin(bench, ORDERS, BILLS, **how)
        except ColdRead as cold:
            assert bench.broker.state.progress == {}
            tries += 1
            cold.warm()

    assert [(answer.queue_offset, answer.is_new) for answer in answers] == [(0, True), (0, True)]
    assert 1 <= tries <= 12


@pytest.mark.parametrize(
    ("group", "places", "how", "error"),
    [
        ("", [ORDERS], {}, InvalidName),
        ("g", [], {}, InvalidArgument),
        ("g", [ORDERS] * (PLACES_MAX + 1), {}, InvalidArgument),
        ("g", [ORDERS], {"consume_from": ConsumeFrom.TIMESTAMP}, InvalidArgument),
        ("g", [ORDERS, QueuePlace(topic="orders", queue=2)], {}, UnknownQueue),
        ("g", [ORDERS, QueuePlace(topic="nowhere", queue=0)], {}, UnknownTopic),
        ("off", [ORDERS], {}, NotPermitted),
    ],
)
def test_a_bad_request_begins_nothing(
    group: str, places: list[QueuePlace], how: dict[str, ConsumeFrom], error: type[Exception]
) -> None:
    bench = BrokerBench(GroupSpec(name="off", enabled=False))

    with pytest.raises(error):
        bench.broker.begin.offsets(group, places, **how)

    assert bench.broker.state.progress == {}
