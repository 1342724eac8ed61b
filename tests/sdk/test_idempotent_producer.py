"""A producer that numbers its messages: whatever happens to answers, each is stored once."""

import random
import threading
from collections import Counter
from typing import Any

import pytest
from mqclient import AckMode, AsyncProducer, MqError, Producer, SendTimedOut

from tests.sdk.fake_broker import FakeBroker, properties_of

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(broker: FakeBroker, queue: int = 0) -> list[int]:
    return [int(properties_of(one)["PRODUCER_SEQ"]) for one in broker.queues["orders", queue]]


def test_without_being_asked_a_producer_numbers_nothing(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        producer.send("orders", "a", queue=0)

    assert "PRODUCER_ID" not in properties_of(broker.queues["orders", 0][0])


def test_an_answer_that_is_lost_stores_nothing_twice(broker: FakeBroker) -> None:
    fault = broker.fault("POST", "reset_after")
    with Producer(broker.url, idempotent=True) as producer:
        first = producer.send("orders", "a", queue=0)
        second = producer.send("orders", "b", queue=0)

    assert fault.fired_count == 1
    assert broker.later.repeat_count == 1
    assert broker.bodies("orders", 0) == [b"a", b"b"]
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    assert numbers(broker) == [0, 1]


def test_without_numbers_the_same_lost_answer_stores_a_message_twice(broker: FakeBroker) -> None:
    fault = broker.fault("POST", "reset_after")
    with Producer(broker.url) as producer:
        producer.send("orders", "a", queue=0)

    assert fault.fired_count == 1
    assert broker.bodies("orders", 0) == [b"a", b"a"]


def test_a_batch_is_repeated_as_it_was_and_what_came_later_goes_behind_it(
    broker: FakeBroker,
) -> None:
    fault = broker.fault("POST", "hold_reset")
    with Producer(broker.url, idempotent=True, linger_ms=0) as producer:
        first = [producer.send_async("orders", str(n), queue=0) for n in range(3)]
        assert fault.fired.wait(60)
        later = [producer.send_async("orders", str(n), queue=0) for n in range(3, 8)]
        after = broker.fault("POST", "reset_after")
        fault.release()
        results = [future.result().queue_offset for future in (*first, *later)]

    assert after.fired_count == 1
    assert broker.later.repeat_count == 1
    assert broker.bodies("orders", 0) == [b"%d" % n for n in range(8)]
    assert results == list(range(8))
    assert len(set(numbers(broker))) == 8


def test_the_numbers_of_a_batch_follow_each_other_whatever_other_queues_take(
    broker: FakeBroker,
) -> None:
    with Producer(broker.url, idempotent=True, linger_ms=10_000) as producer:
        # What waits for the queues to be known goes without a linger once they are.
        producer.send("orders", "first", queue=0)
        for n in range(40):
            producer.send_async("orders", str(n), queue=n % 4)
        producer.flush()

    found = [numbers(broker, queue) for queue in range(4)]
    assert found[0].pop(0) == 0
    assert all(run == list(range(run[0], run[0] + 10)) for run in found)
    assert sorted(number for run in found for number in run) == list(range(1, 41))


def test_two_producers_have_names_of_their_own(broker: FakeBroker) -> None:
    for _ in range(2):
        with Producer(broker.url, idempotent=True) as producer:
            producer.send("orders", "same", queue=0)

    names = {properties_of(one)["PRODUCER_ID"] for one in broker.queues["orders", 0]}
    assert len(names) == 2
    assert numbers(broker) == [0, 0]


def test_a_one_way_message_is_tried_once_and_has_no_number(broker: FakeBroker) -> None:
    with Producer(broker.url, idempotent=True) as producer:
        producer.send_oneway("orders", "a", queue=0)
        producer.flush()

    assert "PRODUCER_SEQ" not in properties_of(broker.queues["orders", 0][0])


def test_one_bad_message_is_told_apart_and_the_good_ones_are_stored_once(
    broker: FakeBroker,
) -> None:
    with Producer(broker.url, idempotent=True, linger_ms=10_000) as producer:
        futures = [
            producer.send_async("orders", "poison" if n == 5 else str(n), queue=0) for n in range(9)
        ]
        producer.flush()
        failed = [future.exception() is not None for future in futures]

    assert failed == [n == 5 for n in range(9)]
    assert broker.bodies("orders", 0) == [b"%d" % n for n in range(9) if n != 5]
    assert len(set(numbers(broker))) == 8


def test_messages_of_a_batch_that_may_be_stored_end_together(broker: FakeBroker) -> None:
    with Producer(broker.url, idempotent=True, timeout_s=4.0, linger_ms=10_000) as producer:
        # Until the topic is known the first goes alone, however slow the others come.
        producer.send("orders", "first", queue=0)
        fault = broker.fault("POST", "reset_after", times=10_000)
        futures = [producer.send_async("orders", str(n), queue=0) for n in range(3)]
        producer.flush()
        errors = [future.exception() for future in futures]

    assert fault.fired_count > 1
    assert [error.outcome for error in errors if error is not None] == ["unknown"] * 3
    assert broker.bodies("orders", 0) == [b"first", b"0", b"1", b"2"]


def test_a_batch_whose_queue_is_gone_and_that_may_be_stored_is_not_sent_elsewhere(
    broker: FakeBroker,
) -> None:
    lost = broker.fault("POST", "reset_after")
    gone = broker.fault("POST", "status", status=404, code="unknown_queue", retriable=False)
    with Producer(broker.url, idempotent=True) as producer, pytest.raises(SendTimedOut) as caught:
        producer.send("orders", "a")

    assert (lost.fired_count, gone.fired_count) == (1, 1)
    assert caught.value.outcome == "unknown"
    assert sum(len(broker.bodies("orders", queue)) for queue in range(4)) == 1


def test_a_batch_whose_queue_is_gone_and_that_is_surely_not_stored_goes_elsewhere(
    broker: FakeBroker,
) -> None:
    gone = broker.fault("POST", "status", status=404, code="unknown_queue", retriable=False)
    with Producer(broker.url, idempotent=True) as producer:
        producer.send("orders", "a", sharding_key="k")

    assert gone.fired_count == 1
    assert sum(len(broker.bodies("orders", queue)) for queue in range(4)) == 1


def test_a_number_that_is_too_old_for_the_broker_leaves_the_outcome_open(
    broker: FakeBroker,
) -> None:
    lost = broker.fault("POST", "reset_after")
    old = broker.fault("POST", "status", status=409, code="sequence_too_old", retriable=False)
    with Producer(broker.url, idempotent=True) as producer, pytest.raises(MqError) as caught:
        producer.send("orders", "a", queue=0)

    assert (lost.fired_count, old.fired_count) == (1, 1)
    assert caught.value.outcome == "unknown"


async def test_an_async_producer_is_idempotent_too(broker: FakeBroker) -> None:
    fault = broker.fault("POST", "reset_after", times=2)
    async with AsyncProducer(broker.url, idempotent=True) as producer:
        results = await producer.send_many("orders", [b"a", b"b"], queue=0)
        delayed = await producer.send("orders", "c", queue=0, delay_ms=5)

    assert fault.fired_count == 2
    assert [one.queue_offset for one in results] == [0, 1]
    assert delayed.queue_offset is None
    assert broker.bodies("orders", 0) == [b"a", b"b"]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_lost_every_message_is_stored_exactly_once(
    broker: FakeBroker, seed: int
) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        action = rng.choice(("reset_before", "reset_after", "status"))
        broker.fault("POST", action, skip=rng.randrange(3))
    settings: dict[str, Any] = {"linger_ms": 1, "batch_messages_max": 7, "timeout_s": 20}
    with Producer(broker.url, idempotent=True, ack=AckMode.SYNC, **settings) as producer:

        def work(name: int) -> None:
            futures = [
                producer.send_async("orders", f"{name}-{n}", sharding_key=str(n % 5))
                for n in range(60)
            ]
            for future in futures:
                future.result()

        threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    stored = Counter(body for queue in range(4) for body in broker.bodies("orders", queue))
    assert sum(fault.fired_count for fault in broker.faults) > 10, seed
    assert stored == Counter(b"%d-%d" % (name, n) for name in range(3) for n in range(60)), seed
