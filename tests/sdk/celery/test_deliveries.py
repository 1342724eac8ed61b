"""What a channel delivers next, and how much it may receive ahead."""

from itertools import count

from mqclient.celery.deliveries import Consumer, Deliveries
from mqclient.celery.private import Copy, PrivateQueue

from tests.sdk.celery.records import held


def consuming(
    *lanes: str, prefetch_count: int = 0, no_ack: bool = False, ahead_max: int = 10
) -> Deliveries:
    deliveries = Deliveries(count(1), ahead_max=ahead_max)
    deliveries.prefetch_count = prefetch_count
    for lane in lanes:
        deliveries.consumers[f"tag of {lane}"] = Consumer(lane, print, no_ack, None)
    return deliveries


def delivered(deliveries: Deliveries) -> list[object]:
    found: list[object] = []
    while (delivery := deliveries.next()) is not None:
        found.append(delivery.item)
    return found


def test_messages_are_delivered_in_the_order_they_came() -> None:
    deliveries, items = consuming("a", "b"), [held(1, lane="a"), held(2, lane="b")]

    assert deliveries.arrive(items) == []

    assert delivered(deliveries) == items


def test_no_more_is_delivered_or_received_than_the_limit() -> None:
    deliveries = consuming("a", prefetch_count=3)
    items = [held(number, lane="a") for number in range(5)]
    assert deliveries.room == 3

    deliveries.arrive(items[:3])
    assert deliveries.room == 0
    assert delivered(deliveries) == items[:3]
    deliveries.arrive(items[3:])

    assert deliveries.next() is None
    assert deliveries.has_waiting
    assert deliveries.settle(1) == [items[0]]
    assert delivered(deliveries) == [items[3]]


def test_a_lowered_limit_holds_back_what_was_received() -> None:
    deliveries = consuming("a", prefetch_count=3)
    deliveries.arrive([held(number, lane="a") for number in range(3)])

    deliveries.prefetch_count = 1

    assert len(delivered(deliveries)) == 1
    assert deliveries.room == 0


def test_without_a_limit_only_what_is_not_delivered_counts() -> None:
    deliveries = consuming("a", ahead_max=10)

    deliveries.arrive([held(number, lane="a") for number in range(4)])
    assert deliveries.room == 6
    delivered(deliveries)

    assert deliveries.room == 10


def test_without_acknowledgement_nothing_counts_as_unsettled() -> None:
    deliveries = consuming("a", prefetch_count=1, no_ack=True)
    items = [held(number, lane="a") for number in range(3)]

    deliveries.arrive(items)

    assert delivered(deliveries) == items
    assert deliveries.room == 1
    assert deliveries.recover() == []


def test_room_for_less_than_half_is_worth_waiting_for() -> None:
    deliveries = consuming("a", prefetch_count=8)
    assert not deliveries.is_nearly_full

    deliveries.arrive([held(number, lane="a") for number in range(5)])
    assert deliveries.is_nearly_full
    deliveries.arrive([held(number, lane="a") for number in range(5, 8)])

    assert not deliveries.is_nearly_full
    assert deliveries.room == 0


def test_a_limit_of_one_never_waits() -> None:
    deliveries = consuming("a", prefetch_count=1)

    assert not deliveries.is_nearly_full


def test_what_comes_for_a_cancelled_lane_is_unwanted() -> None:
    deliveries = consuming("a", "b")
    first, second, third = held(1, lane="a"), held(2, lane="b"), held(3, lane="a")
    deliveries.arrive([first, second])

    consumer, unwanted = deliveries.cancel("tag of a")

    assert consumer is not None
    assert consumer.queue == "a"
    assert unwanted == [first]
    assert deliveries.arrive([third]) == [third]
    assert delivered(deliveries) == [second]


def test_a_lane_with_another_consumer_stays() -> None:
    deliveries = consuming("a")
    deliveries.consumers["other"] = Consumer("a", print, False, None)
    item = held(1, lane="a")
    deliveries.arrive([item])

    _, unwanted = deliveries.cancel("tag of a")

    assert unwanted == []
    assert deliveries.lanes == ["a"]
    assert delivered(deliveries) == [item]


def test_cancelling_what_is_not_consumed_changes_nothing() -> None:
    deliveries = consuming("a")

    assert deliveries.cancel("nobody") == (None, [])
    assert deliveries.lanes == ["a"]


def test_a_tag_settles_one_message_and_multiple_all_before_it() -> None:
    deliveries = consuming("a")
    items = [held(number, lane="a") for number in range(4)]
    deliveries.arrive(items)
    delivered(deliveries)

    assert deliveries.settle(2) == [items[1]]
    assert deliveries.settle(2) == []
    assert deliveries.settle(3, multiple=True) == [items[0], items[2]]
    assert deliveries.recover() == [items[3]]
    assert deliveries.settle(4) == []


def test_broadcasts_are_delivered_before_tasks_that_came_earlier() -> None:
    deliveries, queue = consuming("a"), PrivateQueue("control")
    deliveries.consumers["control"] = Consumer("control", print, True, queue)
    item, copy = held(1, lane="a"), Copy({}, queue)
    deliveries.arrive([item])
    queue.inbox.append(copy)

    assert delivered(deliveries) == [copy, item]


def test_a_reached_limit_does_not_hold_back_control_commands() -> None:
    deliveries, queue = consuming("a", prefetch_count=1), PrivateQueue("control")
    deliveries.consumers["control"] = Consumer("control", print, True, queue)
    deliveries.arrive([held(1, lane="a"), held(2, lane="a")])
    assert len(delivered(deliveries)) == 1

    queue.inbox.append(copy := Copy({}, queue))

    assert delivered(deliveries) == [copy]


def test_one_message_can_be_taken_out_of_turn() -> None:
    deliveries = consuming("a", "b")
    first, second = held(1, lane="a"), held(2, lane="b")
    deliveries.arrive([first, second])

    assert deliveries.take_ahead("b") is second
    assert deliveries.take_ahead("b") is None
    assert delivered(deliveries) == [first]
