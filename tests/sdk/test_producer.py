"""Both producers over real sockets, against a broker that fails on cue."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from mqclient import (
    AckMode,
    AsyncProducer,
    BufferFull,
    Closed,
    ConnectFailed,
    ConnectionLost,
    InvalidArgument,
    InvalidName,
    MessageTooLarge,
    MqError,
    OutgoingMessage,
    Producer,
    SendResult,
    StoreFull,
    TimedOut,
    UnknownQueue,
    UnknownTopic,
)
from mqclient.wire.hashing import queue_by_hash

from tests.sdk.conftest import SHORT_S
from tests.sdk.fake_broker import FakeBroker, properties_of

SEND = "messages?queue="

pytestmark = pytest.mark.usefixtures("each_way")


def stored(broker: FakeBroker, topic: str = "orders") -> list[bytes]:
    return [body for queue in range(broker.topics[topic]) for body in broker.bodies(topic, queue)]


def test_a_sent_message_lies_where_its_result_says(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        result = producer.send("orders", "hello", tag="TagA", keys=["k1", "k2"])

    record = broker.queues["orders", result.queue][result.queue_offset or 0]
    assert broker.bodies("orders", result.queue) == [b"hello"]
    assert properties_of(record) == {
        "TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": result.message_id,
    }  # fmt: skip
    assert result.store_time_ms == 1_000


def test_messages_of_one_sharding_key_share_the_queue_of_its_hash(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        results = [producer.send("orders", str(n), sharding_key="user-7") for n in range(5)]

    queue = queue_by_hash("user-7", 4)
    assert {result.queue for result in results} == {queue}
    assert broker.bodies("orders", queue) == [b"0", b"1", b"2", b"3", b"4"]


def test_messages_without_a_key_go_round_the_queues(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        results = [producer.send("orders", "x") for _ in range(8)]

    assert sorted(result.queue for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_messages_sent_without_waiting_travel_in_batches(broker: FakeBroker) -> None:
    with Producer(broker.url, linger_ms=50.0, batch_messages_max=100) as producer:
        futures = [producer.send_async("orders", str(n), queue=1) for n in range(250)]
        producer.flush()

    assert broker.bodies("orders", 1) == [str(n).encode() for n in range(250)]
    assert [future.result().queue_offset for future in futures] == list(range(250))
    assert sum(SEND in line for line in broker.requests) <= 5


def test_a_queue_never_has_two_requests_under_way(broker: FakeBroker) -> None:
    with Producer(broker.url, batch_messages_max=1, linger_ms=0.0) as producer:
        for number in range(100):
            producer.send_async("orders", str(number), queue=number % 2)

    sends = {target: most for target, most in broker.under_way_max.items() if SEND in target}
    assert len(sends) == 2
    assert set(sends.values()) == {1}


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_a_retry_never_reorders_the_messages_of_a_key(broker: FakeBroker, action: str) -> None:
    fault = broker.fault(SEND, action, times=3)

    with Producer(broker.url, batch_messages_max=2, linger_ms=0.0) as producer:
        for number in range(20):
            producer.send_async("orders", f"{number:02}", sharding_key="k")

    first_seen = list(dict.fromkeys(broker.bodies("orders", queue_by_hash("k", 4))))
    assert fault.fired_count == 3
    assert first_seen == [f"{number:02}".encode() for number in range(20)]


def test_a_message_held_by_the_broker_holds_back_what_follows_in_its_queue(
    broker: FakeBroker,
) -> None:
    fault = broker.fault(SEND, "hold_reset")

    with Producer(broker.url, linger_ms=0.0) as producer:
        first = producer.send_async("orders", "first", queue=0)
        assert fault.fired.wait(60)
        second = producer.send_async("orders", "second", queue=0)
        other = producer.send_async("orders", "other", queue=1)
        other.result(5)
        was_second_sent = second.done()
        fault.release()
        second.result(5)

    assert not was_second_sent
    assert first.result().queue_offset == 0
    assert broker.bodies("orders", 0) == [b"first", b"second"]


def test_an_answer_lost_on_its_way_makes_a_duplicate_and_no_loss(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "reset_after")

    with Producer(broker.url) as producer:
        result = producer.send("orders", "x", queue=0)

    assert fault.fired_count == 1
    assert broker.bodies("orders", 0) == [b"x", b"x"]
    assert result.queue_offset == 1


def test_a_broker_that_says_when_to_come_back_is_obeyed(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "status", headers={"Retry-After": "0.05"})

    with Producer(broker.url) as producer:
        producer.send("orders", "x", queue=0)

    assert fault.fired_count == 1
    assert broker.bodies("orders", 0) == [b"x"]


def test_a_refusal_is_raised_at_once(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "status", status=507, code="store_full", retriable=False)

    with Producer(broker.url) as producer, pytest.raises(StoreFull) as raised:
        producer.send("orders", "x")

    assert fault.fired_count == 1
    assert raised.value.outcome == "failed"
    assert raised.value.request_id == "r-1"
    assert stored(broker) == []


def test_an_attempt_without_an_answer_leaves_the_outcome_unknown(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "reset_after", times=1000)

    with Producer(broker.url, timeout_s=SHORT_S) as producer, pytest.raises(MqError) as raised:
        producer.send("orders", "x", queue=0)

    assert fault.fired_count >= 1
    assert raised.value.outcome == "unknown"
    assert set(stored(broker)) == {b"x"}


def test_a_send_ends_with_its_time_out(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "hold")

    with Producer(broker.url, timeout_s=SHORT_S) as producer:
        with pytest.raises(TimedOut) as raised:
            producer.send("orders", "x")
        fault.release()

    assert fault.fired_count == 1
    assert raised.value.outcome == "unknown"


def test_a_broker_that_is_not_there_is_told_as_nothing_happened() -> None:
    producer = Producer("http://127.0.0.1:1", timeout_s=0.05)

    with producer, pytest.raises(ConnectFailed) as raised:
        producer.send("orders", "x")

    assert raised.value.outcome == "failed"
    assert raised.value.retriable


def test_a_topic_that_does_not_exist_is_told(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer, pytest.raises(UnknownTopic):
        producer.send("nothing", "x")


def test_an_explicit_queue_that_does_not_exist_is_told(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer, pytest.raises(UnknownQueue):
        producer.send("orders", "x", queue=9)


def test_messages_find_another_queue_when_theirs_is_gone(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        for _ in range(4):
            producer.send("orders", "before")
        broker.topics["orders"] = 1
        results = [producer.send("orders", f"{n}", sharding_key=f"key-{n}") for n in range(6)]

    assert {result.queue for result in results} == {0}
    assert broker.bodies("orders", 0)[-6:] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_message_the_broker_cannot_take_fails_alone(broker: FakeBroker) -> None:
    bodies = ["a", "b", "poison", "c", "d"]

    with Producer(broker.url, linger_ms=50.0) as producer:
        futures = [producer.send_async("orders", body, queue=0) for body in bodies]
        producer.flush()

    assert [type(future.exception()) for future in futures] == [
        type(None), type(None), MessageTooLarge, type(None), type(None),
    ]  # fmt: skip
    assert broker.bodies("orders", 0) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    "wrong",
    [{"topic": "a/b"}, {"topic": ""}, {"queue": -1}, {"queue": 1, "sharding_key": "k"}],
)
def test_what_cannot_be_sent_is_refused_before_sending(
    broker: FakeBroker, wrong: dict[str, object]
) -> None:
    arguments = {"topic": "orders", "body": b"x", **wrong}

    with Producer(broker.url) as producer, pytest.raises((InvalidName, InvalidArgument)):
        producer.send(**arguments)  # type: ignore[arg-type]  # Wrong on purpose.

    assert broker.requests == []


def test_a_topic_with_strange_characters_is_escaped_in_the_path(broker: FakeBroker) -> None:
    broker.topics["%RETRY%a|b"] = 1

    with Producer(broker.url) as producer:
        producer.send("%RETRY%a|b", "x")

    assert broker.bodies("%RETRY%a|b", 0) == [b"x"]


def test_many_bodies_keep_their_order_in_a_queue(broker: FakeBroker) -> None:
    with Producer(broker.url, batch_messages_max=10) as producer:
        results = producer.send_many("orders", [str(n) for n in range(95)], sharding_key="k")

    assert [result.queue_offset for result in results] == list(range(95))
    assert broker.bodies("orders", results[0].queue) == [str(n).encode() for n in range(95)]


def test_the_token_travels_with_every_request(broker: FakeBroker) -> None:
    with Producer(broker.url, token="s3cret") as producer:
        producer.send("orders", "x")

    assert all("Authorization: Bearer s3cret" in head for head in broker.heads)
    assert len(broker.heads) == 2


def test_a_one_way_message_is_tried_once_and_its_loss_is_logged(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    fault = broker.fault(SEND, "status")

    with Producer(broker.url) as producer:
        producer.send_oneway("orders", "lost", queue=0)
        producer.flush()
        producer.send_oneway("orders", "kept", queue=0)

    assert fault.fired_count == 1
    assert broker.bodies("orders", 0) == [b"kept"]
    assert "is lost" in caplog.text
    assert all("ack=oneway" in line for line in broker.requests if SEND in line)


def test_acknowledge_modes_never_share_a_batch(broker: FakeBroker) -> None:
    with Producer(broker.url, ack=AckMode.ASYNC, linger_ms=50.0) as producer:
        producer.send_async("orders", "a", queue=0)
        producer.send_oneway("orders", "b", queue=0)
        producer.send_async("orders", "c", queue=0)

    modes = [line.rpartition("ack=")[2] for line in broker.requests if SEND in line]
    assert modes == ["async", "oneway", "async"]
    assert broker.bodies("orders", 0) == [b"a", b"b", b"c"]


def test_a_full_buffer_ends_the_wait_with_an_error(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "hold")

    with Producer(broker.url, buffer_messages_max=2, buffer_timeout_s=0.02) as producer:
        producer.send_async("orders", "a", queue=0)
        producer.send_async("orders", "b", queue=0)
        assert fault.fired.wait(60)
        with pytest.raises(BufferFull) as raised:
            producer.send_async("orders", "c", queue=0)
        fault.release()

    assert raised.value.outcome == "failed"
    assert b"c" not in broker.bodies("orders", 0)


def test_a_full_buffer_holds_the_sender_until_there_is_room(broker: FakeBroker) -> None:
    with Producer(broker.url, buffer_messages_max=3, linger_ms=1000.0) as producer:
        for number in range(20):
            producer.send_async("orders", str(number), queue=0)

    assert broker.bodies("orders", 0) == [str(n).encode() for n in range(20)]


def test_closing_sends_what_is_in_the_buffer(broker: FakeBroker) -> None:
    producer = Producer(broker.url, linger_ms=60_000.0)
    future = producer.send_async("orders", "x")

    producer.close()

    assert future.result().queue_offset == 0
    assert stored(broker) == [b"x"]


def test_a_closed_producer_refuses_messages(broker: FakeBroker) -> None:
    producer = Producer(broker.url)
    producer.close()

    with pytest.raises(Closed):
        producer.send("orders", "x")


def test_a_future_calls_back(broker: FakeBroker) -> None:
    called = threading.Event()

    with Producer(broker.url) as producer:
        future = producer.send_async("orders", "x")
        future.add_done_callback(lambda done: called.set() if done is future else None)

    assert called.is_set()


def test_threads_share_a_producer(broker: FakeBroker) -> None:
    def send(producer: Producer, name: str) -> None:
        for number in range(25):
            producer.send("orders", f"{name}{number:02}", sharding_key=name)

    with Producer(broker.url) as producer:
        threads = [threading.Thread(target=send, args=(producer, name)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for name in "abcdefgh":
        of_key = [body for body in stored(broker) if body.startswith(name.encode())]
        assert of_key == [f"{name}{number:02}".encode() for number in range(25)]


def test_a_selector_chooses_the_queue(broker: FakeBroker) -> None:
    def last(_message: OutgoingMessage, queue_count: int) -> int:
        return queue_count - 1

    with Producer(broker.url, selector=last) as producer:
        result = producer.send("orders", "x")

    assert result.queue == 3


class Recorder:
    """An interceptor that marks messages and remembers their end."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, SendResult | None, MqError | None]] = []

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, properties={**message.properties, "traced": "yes"})

    def after_send(
        self, message: OutgoingMessage, result: SendResult | None, error: MqError | None
    ) -> None:
        self.seen.append((message.body, result, error))


class Broken:
    """An interceptor that only raises."""

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        raise RuntimeError("before")

    def after_send(
        self, message: OutgoingMessage, result: SendResult | None, error: MqError | None
    ) -> None:
        raise RuntimeError("after")


def test_an_interceptor_changes_messages_and_learns_their_end(broker: FakeBroker) -> None:
    recorder = Recorder()

    with Producer(broker.url, interceptors=[recorder]) as producer:
        result = producer.send("orders", "x", queue=0)
        with pytest.raises(UnknownQueue) as raised:
            producer.send("orders", "y", queue=9)

    assert properties_of(broker.queues["orders", 0][0])["traced"] == "yes"
    assert recorder.seen == [(b"x", result, None), (b"y", None, raised.value)]


def test_an_interceptor_that_raises_is_logged_and_breaks_nothing(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "mqclient")

    with Producer(broker.url, interceptors=[Broken()]) as producer:
        producer.send("orders", "x", queue=0)

    assert broker.bodies("orders", 0) == [b"x"]
    assert "RuntimeError: before" in caplog.text
    assert "RuntimeError: after" in caplog.text


def test_a_connection_the_server_closes_after_each_answer_is_replaced(broker: FakeBroker) -> None:
    broker.answers_per_connection_max = 1

    with Producer(broker.url) as producer:
        for number in range(5):
            producer.send("orders", str(number), queue=0)

    first_seen = list(dict.fromkeys(broker.bodies("orders", 0)))
    assert first_seen == [b"0", b"1", b"2", b"3", b"4"]


def test_a_question_without_an_answer_stored_nothing(broker: FakeBroker) -> None:
    fault = broker.fault("GET /api/v1/topics/orders", "reset_after", times=1000)

    with (
        Producer(broker.url, timeout_s=SHORT_S) as producer,
        pytest.raises(ConnectionLost) as raised,
    ):
        producer.send("orders", "x")

    assert fault.fired_count >= 1
    assert raised.value.outcome == "failed"


async def test_async_sends_of_one_turn_share_a_batch(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url) as producer:
        results = await asyncio.gather(
            *(producer.send("orders", str(number), queue=2) for number in range(50))
        )

    assert [result.queue_offset for result in results] == list(range(50))
    assert broker.bodies("orders", 2) == [str(number).encode() for number in range(50)]
    assert sum(SEND in line for line in broker.requests) == 1


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
async def test_an_async_retry_never_reorders_the_messages_of_a_key(
    broker: FakeBroker, action: str
) -> None:
    fault = broker.fault(SEND, action, times=3)

    async with AsyncProducer(broker.url, batch_messages_max=2, linger_ms=0.0) as producer:
        futures = [
            await producer.send_async("orders", f"{number:02}", sharding_key="k")
            for number in range(20)
        ]
        for future in futures:
            await future

    first_seen = list(dict.fromkeys(broker.bodies("orders", queue_by_hash("k", 4))))
    assert fault.fired_count == 3
    assert first_seen == [f"{number:02}".encode() for number in range(20)]


async def test_an_async_send_ends_with_its_time_out(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "hold")

    async with AsyncProducer(broker.url, timeout_s=SHORT_S) as producer:
        with pytest.raises(TimedOut):
            await producer.send("orders", "x")
        fault.release()

    assert fault.fired_count == 1


async def test_an_async_buffer_that_stays_full_is_told(broker: FakeBroker) -> None:
    fault = broker.fault(SEND, "hold")

    async with AsyncProducer(broker.url, buffer_messages_max=1, buffer_timeout_s=0.02) as producer:
        await producer.send_async("orders", "a", queue=0)
        with pytest.raises(BufferFull):
            await producer.send_async("orders", "b", queue=0)
        fault.release()

    assert b"b" not in broker.bodies("orders", 0)


async def test_async_bodies_by_the_thousand_and_one_way(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url, batch_messages_max=100) as producer:
        results = await producer.send_many("orders", [b"x"] * 1000, queue=0)
        await producer.send_oneway("orders", b"y", queue=1)

    assert len(results) == 1000
    assert len(broker.bodies("orders", 0)) == 1000
    assert broker.bodies("orders", 1) == [b"y"]


async def test_a_thread_producers_future_can_be_awaited(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        result = await producer.send_async("orders", "x", queue=0)

    assert result.queue_offset == 0


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
@pytest.mark.parametrize(
    "wrong", [{"timeout_s": 0}, {"linger_ms": -1}, {"batch_bytes_max": 1 << 30}]
)
def test_settings_out_of_range_are_refused(kind: Callable[..., object], wrong: object) -> None:
    with pytest.raises(InvalidArgument):
        kind("http://x", **wrong)  # type: ignore[arg-type]  # Wrong on purpose.


def test_a_lost_connection_is_an_unknown_outcome() -> None:
    error = ConnectionLost("x")

    assert (error.outcome, error.retriable) == ("unknown", True)
