"""Both lite pull consumers over real sockets."""

import pytest
from mqclient import (
    AsyncLitePullConsumer,
    Closed,
    InvalidArgument,
    LitePullConsumer,
    TopicQueue,
    UnknownTopic,
)

from tests.sdk.fake_broker import FakeBroker

FIRST = TopicQueue("orders", 0)
SECOND = TopicQueue("orders", 1)
PULL = "/queues/0/messages"


def drain(consumer: LitePullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = consumer.poll(5.0)
        assert messages
        bodies += [message.body for message in messages]
    return bodies


def test_a_new_group_reads_from_the_first_message(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with LitePullConsumer(broker.url, group="g") as consumer:
        consumer.assign([FIRST])
        bodies = drain(consumer, 3)

    assert bodies == [b"0", b"1", b"2"]


def test_a_group_goes_on_where_it_committed(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    with LitePullConsumer(broker.url, group="g") as consumer:
        consumer.assign([FIRST])
        consumer.poll(messages_max=2)
        consumer.commit()
        assert consumer.committed(FIRST) == 2

    with LitePullConsumer(broker.url, group="g") as consumer:
        consumer.assign([FIRST])
        bodies = drain(consumer, 1)

    assert bodies == [b"2"]


def test_a_queue_whose_first_messages_are_gone_starts_at_its_minimum(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    broker.minimum["orders", 0] = 2

    with LitePullConsumer(broker.url, group="g") as consumer:
        consumer.assign([FIRST])
        bodies = drain(consumer, 1)

    assert bodies == [b"2"]


def test_an_offset_outside_the_queue_is_corrected_by_the_broker(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    broker.minimum["orders", 0] = 1

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        bodies = drain(consumer, 2)

    assert bodies == [b"1", b"2"]
    assert "going on at 1" in caplog.text


def test_offsets_that_matched_nothing_are_passed_and_committed(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", tag="B")
    broker.put("orders", 0, b"2", tag="AaAa")
    broker.put("orders", 0, b"3", tag="BBBB")

    with LitePullConsumer(broker.url, group="g", filter_text="AaAa") as consumer:
        consumer.assign([FIRST])
        bodies = drain(consumer, 1)

    assert bodies == [b"2"]
    assert broker.committed["g", "orders", 0] == 4


def test_closing_commits_what_was_polled_and_not_what_was_read_ahead(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with LitePullConsumer(broker.url, group="g") as consumer:
        consumer.assign([FIRST])
        consumer.poll(messages_max=2)

    assert broker.committed == {("g", "orders", 0): 2}


def test_an_error_of_the_caller_commits_nothing(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")

    consumer = LitePullConsumer(broker.url, group="g")
    consumer.assign([FIRST])
    polled = consumer.poll()
    error = RuntimeError("the caller's")
    consumer.__exit__(RuntimeError, error, None)

    assert len(polled) == 1
    assert broker.committed == {}


def test_a_poll_commits_what_the_polls_before_it_returned(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with LitePullConsumer(broker.url, group="g", auto_commit_s=1e-9) as consumer:
        consumer.assign([FIRST])
        consumer.poll(messages_max=1)
        consumer.poll(messages_max=1)
        committed = dict(broker.committed)

    assert committed == {("g", "orders", 0): 1}


def test_seeking_replays_and_skips(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST])
        drain(consumer, 3)
        consumer.seek(FIRST, 1)
        replayed = drain(consumer, 2)
        consumer.seek_to_begin(FIRST)
        from_begin = drain(consumer, 3)
        consumer.seek_to_end(FIRST)
        at_end = consumer.position(FIRST)
        broker.put("orders", 0, b"3")
        after_end = drain(consumer, 1)

    assert replayed == [b"1", b"2"]
    assert from_begin == [b"0", b"1", b"2"]
    assert at_end == 3
    assert after_end == [b"3"]


def test_the_answer_to_a_pull_from_before_a_seek_is_dropped(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    fault = broker.fault(PULL, "hold")

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST])
        assert fault.fired.wait(60)
        consumer.seek(FIRST, 2)
        bodies = drain(consumer, 1)
        fault.release()
        rest = consumer.poll(0.02)

    assert bodies == [b"2"]
    assert rest == []


def test_a_paused_queue_yields_nothing_until_it_is_resumed(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")
    broker.put("orders", 1, b"1")

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST, SECOND])
        consumer.pause([FIRST])
        while_paused = consumer.poll(1.0) + consumer.poll(0.01)
        consumer.resume([FIRST])
        afterwards = consumer.poll(5.0)

    assert [message.body for message in while_paused] == [b"1"]
    assert [message.body for message in afterwards] == [b"0"]


def test_each_queue_has_one_pull_under_way(broker: FakeBroker) -> None:
    for queue in range(4):
        broker.put("orders", queue, *(b"%d" % number for number in range(200)))

    with LitePullConsumer(broker.url, pull_messages_max=10, hold_ms=0) as consumer:
        consumer.assign(consumer.fetch_queues("orders"))
        bodies = drain(consumer, 800)

    per_queue = broker.under_way_max
    assert len(bodies) == 800
    assert {most for target, most in per_queue.items() if "/queues/" in target} == {1}


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_a_pull_that_failed_is_repeated(broker: FakeBroker, action: str) -> None:
    broker.put("orders", 0, b"0", b"1")
    fault = broker.fault(PULL, action)

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST])
        bodies = drain(consumer, 2)

    assert fault.fired_count == 1
    assert bodies == [b"0", b"1"]


def test_a_pull_that_is_refused_is_raised_by_poll(broker: FakeBroker) -> None:
    fault = broker.fault(PULL, "status", status=404, code="unknown_topic", retriable=False)

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(UnknownTopic):
            consumer.poll(5.0)

    assert fault.fired_count == 1


def test_closing_does_not_wait_for_a_held_pull(broker: FakeBroker) -> None:
    fault = broker.fault(PULL, "hold")
    consumer = LitePullConsumer(broker.url)
    consumer.assign([FIRST])
    assert fault.fired.wait(60)

    consumer.close()

    with pytest.raises(Closed):
        consumer.poll(0.0)


def test_a_queue_taken_from_the_assignment_is_not_read(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")
    broker.put("orders", 1, b"1")

    with LitePullConsumer(broker.url) as consumer:
        consumer.assign([FIRST, SECOND])
        consumer.assign([SECOND])
        bodies = drain(consumer, 1)
        with pytest.raises(InvalidArgument):
            consumer.seek(FIRST, 0)

    assert bodies == [b"1"]
    assert consumer.assignment() == (SECOND,)


def test_without_a_group_there_is_nothing_to_commit(broker: FakeBroker) -> None:
    with LitePullConsumer(broker.url) as consumer, pytest.raises(InvalidArgument):
        consumer.commit()


async def test_an_async_consumer_reads_seeks_and_commits(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")

    async with AsyncLitePullConsumer(broker.url, group="g") as consumer:
        await consumer.assign([FIRST])
        first = await consumer.poll()
        await consumer.seek_to_begin(FIRST)
        again = await consumer.poll(messages_max=1)
        await consumer.commit()
        committed = await consumer.committed(FIRST)
        await consumer.pause([FIRST])
        while_paused = await consumer.poll(0.01)
        await consumer.resume([FIRST])
        rest = await consumer.poll()

    assert [message.body for message in first] == [b"0", b"1", b"2"]
    assert [message.body for message in again] == [b"0"]
    assert committed == 1
    assert while_paused == []
    assert [message.body for message in rest] == [b"1", b"2"]
    assert broker.committed == {("g", "orders", 0): 3}


async def test_closing_an_async_consumer_does_not_wait_for_a_held_pull(broker: FakeBroker) -> None:
    consumer = AsyncLitePullConsumer(broker.url)
    await consumer.assign([FIRST])
    assert await consumer.poll(0.02) == []

    await consumer.close()

    with pytest.raises(Closed):
        await consumer.poll(0.0)
