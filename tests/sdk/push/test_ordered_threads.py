"""Ordered listening with real threads over real sockets: object locks, locks of the broker."""

import threading
from typing import Any

import pytest
from mqclient import Consumed, ListenerContext, LockLost, Message, PushConsumer, TopicQueue
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.transport.blocking import Pool

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import WAIT_S, Ear, Gate, wait_until


def consumer(broker: FakeBroker, listener: Any, **settings: Any) -> PushConsumer:
    named = {"group": "g", "topics": "orders", "ordered": True, "lock_ask_s": 0.02, **settings}
    return PushConsumer(broker.url, listener=listener, **named)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def fill(broker: FakeBroker, count: int) -> None:
    for queue in range(4):
        broker.put("orders", queue, *numbered(count))


def test_each_queue_is_heard_in_order(broker: FakeBroker) -> None:
    fill(broker, 200)
    ear = Ear()

    with consumer(broker, ear, consume_batch_max=7):
        ear.wait_for_count(800)

    assert dict(ear.by_queue) == {queue: numbered(200) for queue in range(4)}
    assert broker.committed == {("g", "orders", queue): 200 for queue in range(4)}
    assert broker.groups["g"].locks == {}


def test_queues_are_worked_on_side_by_side_and_each_by_one_listener(broker: FakeBroker) -> None:
    fill(broker, 5)
    together = threading.Barrier(4)
    inside: dict[int, int] = dict.fromkeys(range(4), 0)
    overlaps = []

    def listener(message: Message, context: ListenerContext) -> Consumed:
        queue = context.queue.queue
        inside[queue] += 1
        if inside[queue] > 1:
            overlaps.append(queue)
        # Passed only if all four queues have a listener at the same moment, five times over.
        together.wait(WAIT_S)
        inside[queue] -= 1
        return Consumed.SUCCESS

    ear = Ear(listener)
    with consumer(broker, ear, listeners_max=20):
        ear.wait_for_count(20)

    assert overlaps == []
    assert dict(ear.by_queue) == {queue: numbered(5) for queue in range(4)}


def test_a_failing_message_stops_its_queue_and_no_other(broker: FakeBroker) -> None:
    fill(broker, 10)
    tries = []

    def fails_three_times(message: Message, context: ListenerContext) -> Consumed:
        if (message.queue, message.body) == (2, b"4"):
            tries.append(context.attempt)
            if context.attempt <= 3:
                return Consumed.RETRY_LATER
        return Consumed.SUCCESS

    ear = Ear(fails_three_times)
    with consumer(broker, ear, suspend_ms=20):
        ear.wait_for_count(43)

    expected = numbered(10)
    expected[4:5] = [b"4"] * 4
    assert tries == [1, 2, 3, 4]
    assert ear.by_queue.pop(2) == expected
    assert list(ear.by_queue.values()) == [numbered(10)] * 3


def test_every_pull_and_commit_carries_the_epoch_of_the_lock(broker: FakeBroker) -> None:
    # The broker refuses a member of an ordered group whatever has no epoch, or an old one.
    broker.groups["g"].is_ordered = True
    fill(broker, 20)
    ear = Ear()

    with consumer(broker, ear, commit_s=0.02):
        ear.wait_for_count(80)
        wait_until(lambda: sum(broker.committed.values()) == 80)

    epochs = {(context.queue, context.epoch) for context in ear.contexts}
    assert len(epochs) == 4
    assert all(epoch is not None for _, epoch in epochs)


def test_a_queue_goes_to_another_member_only_after_its_listener(broker: FakeBroker) -> None:
    broker.put("orders", 0, *numbered(3))
    gate, ear = Gate(), Ear()
    with consumer(broker, gate, client_id="a"):
        gate.wait_inside()
        with consumer(broker, ear, client_id="b"):
            broker.assign("g", {"b": {"orders": [0]}})
            wait_until(lambda: refusals(broker) > 3)
            heard_under_the_listener = list(ear.bodies)
            gate.let_out()
            ear.wait_for_count(2)
        gate.let_out(10)

    assert heard_under_the_listener == []
    assert [body for _, body in gate.heard] == [b"0"]
    assert ear.bodies == [b"1", b"2"]


def refusals(broker: FakeBroker) -> int:
    return sum("locks:acquire" in line for line in broker.requests)


def test_members_that_come_and_go_never_break_the_order_or_overlap(broker: FakeBroker) -> None:
    fill(broker, 300)
    lock = threading.Lock()
    inside: dict[int, int] = dict.fromkeys(range(4), 0)
    heard: dict[int, list[bytes]] = {queue: [] for queue in range(4)}
    overlaps = []

    def listener(messages: list[Message], context: ListenerContext) -> Consumed:
        queue = context.queue.queue
        with lock:
            inside[queue] += 1
            overlaps.extend([queue] * (inside[queue] > 1))
            heard[queue] += [message.body for message in messages]
        with lock:
            inside[queue] -= 1
        return Consumed.SUCCESS

    def count() -> int:
        return sum(map(len, heard.values()))

    with consumer(broker, listener, client_id="m"):
        for turn in range(1, 6):
            with consumer(broker, listener, client_id="az"[turn % 2] + str(turn)) as visitor:
                wait_until(lambda: len(visitor.assignment()) == 2 or count() == 1_200)
                goal = min(turn * 200, 1_200)
                wait_until(lambda: count() >= goal)  # noqa: B023
        wait_until(lambda: count() >= 1_200)

    assert overlaps == []
    assert heard == {queue: numbered(300) for queue in range(4)}


@pytest.mark.parametrize("what", ["/queues/0/messages", "offsets:commit"])
def test_a_lock_the_broker_took_away_is_asked_for_again(broker: FakeBroker, what: str) -> None:
    broker.put("orders", 0, *numbered(5))
    fault = broker.fault(what, "status", times=4, status=409, code=LockLost.code, retriable=False)
    ear = Ear()

    with consumer(broker, ear, commit_s=0.02, topics="orders"):
        wait_until(lambda: fault.fired_count == 4)
        wait_until(lambda: broker.committed.get(("g", "orders", 0)) == 5)

    assert sorted(set(ear.by_queue[0])) == numbered(5)


def test_a_blocked_queue_is_told_to_the_broker_and_can_be_skipped(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"poison", b"fine")
    ear = Ear(lambda message, _: Consumed.SUCCESS if message.body == b"fine" else None)

    with consumer(
        broker, ear, suspend_ms=10, attempts_max=2, is_burying=False, heartbeat_wait_ms=10
    ) as member:
        wait_until(lambda: bool(reported(broker)))
        blocked = member.blocked()
        member.skip_blocked(TopicQueue("orders", 0))
        ear.wait_for(lambda heard: b"fine" in heard.bodies)

    assert [(head.queue, head.queue_offset, head.attempts) for head in blocked] == [(0, 0, 2)]
    assert ear.bodies == [b"poison", b"poison", b"fine"]


def reported(broker: FakeBroker) -> list[Any]:
    beats = [document for name, document in broker.documents if name.endswith(":heartbeat")]
    return [head for beat in beats for head in beat["blocked"] if head["attempts"] == 2]


def test_closing_under_a_running_listener_leaves_its_lock_to_the_lease(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    gate = Gate()
    member = consumer(broker, gate, client_id="a", stop_wait_s=0.0)
    member.start()
    gate.wait_inside()

    member.close()

    kept = set(broker.groups["g"].locks)
    endpoint = Endpoint.of(broker.url)
    pool = Pool(endpoint, clock=member._parts.clock)
    answer = pool.call(Calls(endpoint).acquire_locks("g", "b", [TopicQueue("orders", 0)]), 5.0)
    pool.close()
    gate.let_out()
    assert kept == {("orders", 0)}
    assert answer.locked == ()
