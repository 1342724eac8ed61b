"""Messages for later: what travels, what is answered, and how they are taken back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from mqclient import (
    AckMode,
    AsyncProducer,
    InvalidArgument,
    MqError,
    OutgoingMessage,
    Producer,
    Recalled,
)
from mqclient.times import milliseconds_of, parsed_ms

from tests.sdk.conftest import SHORT_S
from tests.sdk.fake_broker import FakeBroker, properties_of

MOMENT = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
MOMENT_MS = 1_893_456_000_000


def delays_of(broker: FakeBroker) -> list[dict[str, str]]:
    """Return what the delayed messages say of their delay, as they came."""
    kept = [*broker.later.levels, *broker.later.delayed.values()]
    names = ("DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
    return [
        {name: value for name, value in properties_of(item.record).items() if name in names}
        for item in kept
    ]


def test_a_delay_is_answered_with_its_time_and_a_handle(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        level = producer.send("orders", "a", queue=2, delay_level=3)
        after = producer.send("orders", "b", queue=2, delay_ms=5_000)
        at = producer.send("orders", "c", queue=2, deliver_at=MOMENT)

    assert delays_of(broker) == [
        {"DELAY": "3"}, {"TIMER_DELAY_MS": "5000"}, {"TIMER_DELIVER_MS": str(MOMENT_MS)},
    ]  # fmt: skip
    assert [(one.queue, one.queue_offset, one.store_time_ms) for one in (level, after, at)] == [
        (2, None, 1_000)
    ] * 3
    assert [one.deliver_at_ms for one in (level, after, at)] == [4_000, 6_000, MOMENT_MS]
    assert level.recall_handle is None
    assert after.recall_handle != at.recall_handle
    assert broker.bodies("orders", 2) == []


def test_a_message_without_a_delay_has_an_offset_and_no_handle(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        result = producer.send("orders", "a", queue=0)

    assert (result.queue_offset, result.recall_handle, result.deliver_at_ms) == (0, None, None)


def test_delayed_and_plain_messages_of_a_queue_never_share_a_batch(broker: FakeBroker) -> None:
    with Producer(broker.url, linger_ms=10_000) as producer:
        futures = [
            producer.send_async("orders", str(n), queue=0, delay_ms=1_000 if n % 3 == 0 else None)
            for n in range(9)
        ]
        producer.flush()
        results = [future.result() for future in futures]

    assert [result.recall_handle is not None for result in results] == [True, False, False] * 3
    assert broker.bodies("orders", 0) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    assert len(broker.requests) == 1 + 6


def test_every_message_of_a_delayed_batch_has_its_own_handle(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        results = producer.send_many("orders", [b"a", b"b", b"c"], queue=0, delay_ms=1_000)
    bodies = {handle: item.record[88:89] for handle, item in broker.later.delayed.items()}

    assert [bodies[result.recall_handle or ""] for result in results] == [b"a", b"b", b"c"]
    assert [result.deliver_at_ms for result in results] == [2_000] * 3


def test_a_batch_of_a_level_has_times_and_no_handles(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        results = producer.send_many("orders", [b"a", b"b"], queue=0, delay_level=1)

    assert [(one.recall_handle, one.deliver_at_ms) for one in results] == [(None, 2_000)] * 2


def test_a_delayed_one_way_message_is_not_waited_for(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        producer.send_oneway("orders", "a", delay_level=1)
        result = producer.send_message(
            OutgoingMessage(topic="orders", body=b"b", delay_ms=1)
        ).result()

    assert len(broker.later.levels) == 1
    assert result.recall_handle is not None


def test_the_three_honest_answers_to_a_recall(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        first, second = (
            producer.send("orders", "a", queue=0, delay_ms=1).recall_handle or "" for _ in range(2)
        )
        outcomes = [producer.recall(first), producer.recall(first), producer.deliver_now(first)]
        outcomes += [producer.deliver_now(second), producer.deliver_now(second)]
        outcomes += [producer.recall(second), producer.recall("h"), producer.deliver_now("h")]

    assert outcomes == [
        Recalled.CANCELLED, Recalled.CANCELLED, Recalled.CANCELLED, Recalled.DELIVERED,
        Recalled.DELIVERED, Recalled.DELIVERED, Recalled.UNKNOWN, Recalled.UNKNOWN,
    ]  # fmt: skip
    assert broker.bodies("orders", 0) == [b"a"]


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_a_recall_without_an_answer_is_asked_again(broker: FakeBroker, action: str) -> None:
    with Producer(broker.url) as producer:
        handle = producer.send("orders", "a", delay_ms=1).recall_handle or ""
        fault = broker.fault("DELETE", action)
        outcome = producer.recall(handle)

    assert fault.fired_count == 1
    assert outcome is Recalled.CANCELLED


def test_a_broker_that_does_not_answer_is_an_error_and_no_outcome(broker: FakeBroker) -> None:
    with Producer(broker.url, timeout_s=SHORT_S) as producer:
        handle = producer.send("orders", "a", delay_ms=1).recall_handle or ""
        fault = broker.fault("DELETE", "reset_before", times=10_000)
        with pytest.raises(MqError) as caught:
            producer.recall(handle)

    assert fault.fired_count > 0
    assert caught.value.outcome == "unknown"


async def test_an_async_producer_delays_and_recalls_too(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url) as producer:
        sent = await producer.send("orders", "a", delay_ms=5)
        many = await producer.send_many("orders", [b"a", b"b"], deliver_at=MOMENT_MS)
        recalled = await producer.recall(sent.recall_handle or "")
        delivered = await producer.deliver_now(many[1].recall_handle or "")

    assert (recalled, delivered) == (Recalled.CANCELLED, Recalled.DELIVERED)
    assert [one.deliver_at_ms for one in many] == [MOMENT_MS] * 2


@pytest.mark.parametrize(
    "delay",
    [
        {"delay_ms": 1, "delay_level": 1},
        {"delay_ms": 1, "deliver_at": 1},
        {"delay_level": 0},
        {"delay_ms": -1},
        {"deliver_at": -1},
        {"deliver_at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"properties": {"DELAY": "3"}},
        {"properties": {"TIMER_DELIVER_MS": "3"}},
    ],
)
def test_a_delay_that_is_none_is_refused_before_anything_is_sent(
    broker: FakeBroker, delay: dict[str, int]
) -> None:
    with Producer(broker.url) as producer, pytest.raises(InvalidArgument):
        producer.send("orders", "a", **delay)  # type: ignore[arg-type]

    assert broker.requests == []


def test_an_empty_handle_is_refused_here(broker: FakeBroker) -> None:
    with Producer(broker.url, ack=AckMode.ASYNC) as producer, pytest.raises(InvalidArgument):
        producer.recall("")


def test_a_moment_is_never_earlier_than_it_was_said() -> None:
    time = datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)

    assert milliseconds_of(time) == MOMENT_MS + 1
    assert milliseconds_of(MOMENT) == MOMENT_MS
    assert parsed_ms("2030-01-01T00:00:00.250Z") == MOMENT_MS + 250
    with pytest.raises(ValueError, match="time zone"):
        parsed_ms("2030-01-01T00:00:00")
