"""The lane at the client: when it is used, what happens without it, and what it reads."""

import logging
import struct
from collections.abc import Callable
from functools import partial

import pytest
from mqclient import AckMode, AsyncProducer, MqError, Producer
from mqclient.errors import ProtocolViolation
from mqclient.transport.refusing import NotUpgraded, Refusals
from mqclient.wire.lane import AnswerReader, handshake

from tests.sdk.conftest import SHORT_S
from tests.sdk.fake_broker import FakeBroker


def test_sends_travel_over_the_lane_and_everything_else_over_http(broker: FakeBroker) -> None:
    with Producer(broker.url, lane=True) as producer:
        for number in range(3):
            producer.send("orders", str(number), queue=1)

    assert broker.bodies("orders", 1) == [b"0", b"1", b"2"]
    assert len(broker.lane_requests) == 3
    assert broker.lane_count == 1
    assert "GET /api/v1/topics/orders" in broker.requests


async def test_a_producer_of_a_loop_takes_the_lane_too(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url, lane=True) as producer:
        for number in range(3):
            await producer.send("orders", str(number), queue=1)

    assert broker.bodies("orders", 1) == [b"0", b"1", b"2"]
    assert (len(broker.lane_requests), broker.lane_count) == (3, 1)


def test_without_being_asked_a_producer_stays_with_http(broker: FakeBroker) -> None:
    with Producer(broker.url) as producer:
        producer.send("orders", "a")

    assert broker.lane_count == 0


def test_a_server_without_a_lane_is_sent_to_by_http_and_that_is_told_once(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.has_lane = False
    with caplog.at_level(logging.WARNING), Producer(broker.url, lane=True) as producer:
        for _ in range(3):
            producer.send("orders", "a", queue=0)

    assert broker.bodies("orders", 0) == [b"a"] * 3
    assert broker.requests.count("GET /api/v1/lane") == 1
    assert [record.getMessage() for record in caplog.records] == [
        "no lane, sends go by HTTP: the server answered 404"
    ]


async def test_a_producer_of_a_loop_goes_by_http_too(broker: FakeBroker) -> None:
    broker.has_lane = False
    async with AsyncProducer(broker.url, lane=True) as producer:
        for _ in range(3):
            await producer.send("orders", "a", queue=0)

    assert broker.bodies("orders", 0) == [b"a"] * 3
    assert broker.requests.count("GET /api/v1/lane") == 1


def test_a_proxy_that_breaks_off_at_the_question_is_no_obstacle(broker: FakeBroker) -> None:
    broker.has_lane = False
    fault = broker.fault("/lane", "reset_before")
    with Producer(broker.url, lane=True) as producer:
        producer.send("orders", "a", queue=0)

    assert fault.fired_count == 1
    assert broker.bodies("orders", 0) == [b"a"]


def test_a_number_that_was_cut_off_on_the_lane_is_repeated_by_http_and_stored_once(
    broker: FakeBroker,
) -> None:
    with Producer(broker.url, lane=True, idempotent=True) as producer:
        producer.send("orders", "a", queue=0)
        fault = broker.fault("POST", "reset_after")
        broker.has_lane = False
        result = producer.send("orders", "b", queue=0)

    assert fault.fired_count == 1
    assert len(broker.lane_requests) == 2
    assert sum(line.startswith("POST") for line in broker.requests) == 3
    assert broker.later.repeat_count == 1
    assert broker.bodies("orders", 0) == [b"a", b"b"]
    assert result.queue_offset == 1


def test_a_lane_that_is_cut_before_the_answer_leaves_the_outcome_unknown(
    broker: FakeBroker,
) -> None:
    fault = broker.fault("POST", "reset_after", times=1_000)
    producer = Producer(broker.url, lane=True, timeout_s=SHORT_S)
    with producer, pytest.raises(MqError) as raised:
        producer.send("orders", "a", queue=0)

    assert fault.fired_count >= 1
    assert len(broker.lane_requests) == fault.fired_count
    assert raised.value.outcome == "unknown"


def test_a_delayed_message_gets_its_recall_handle_over_the_lane(broker: FakeBroker) -> None:
    with Producer(broker.url, lane=True, ack=AckMode.SYNC) as producer:
        result = producer.send("orders", "a", queue=0, delay_ms=60_000)

    assert result.recall_handle
    assert len(broker.lane_requests) == 1


class _Clock:
    now_s = 0.0

    def steady_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0


def test_a_server_in_trouble_is_asked_again_after_a_while_and_one_without_a_lane_never() -> None:
    clock = _Clock()
    refusals = Refusals(clock)

    refusals.take(NotUpgraded.by(503))
    at_once, clock.now_s = refusals.may_ask(), 30.0
    later = refusals.may_ask()
    refusals.take(NotUpgraded.by(426))
    clock.now_s = 1e9

    assert (at_once, later, refusals.may_ask()) == (False, True, False)


def answer(number: int, body: bytes = b"", *, kind: int = 1, wait_s: int = 0) -> bytes:
    return struct.pack(">IIHBB", 8 + len(body), number, 201, kind, wait_s) + body


def test_an_answer_is_read_wherever_it_is_cut() -> None:
    whole = answer(1, b"body", wait_s=2)
    for cut in range(1, len(whole)):
        reader = AnswerReader()
        reader.next_number()

        assert reader.feed(whole[:cut]) is None
        assert reader.has_begun
        response = reader.feed(whole[cut:])

        assert response is not None
        assert (response.status, response.body) == (201, b"body")
        assert response.header(b"retry-after") == "2"
        assert not reader.has_begun


@pytest.mark.parametrize(
    "wrong",
    [
        answer(2),
        answer(1, kind=9),
        answer(1) + b"x",
        struct.pack(">IIHBB", 0xFFFFFFFF, 1, 201, 1, 0),
        struct.pack(">IIHBB", 3, 1, 201, 1, 0),
    ],
    ids=["of another request", "of no kind", "with more behind it", "too long", "too short"],
)
def test_what_is_no_answer_to_the_request_is_refused(wrong: bytes) -> None:
    reader = AnswerReader()
    reader.next_number()

    with pytest.raises(ProtocolViolation):
        reader.feed(wrong)


@pytest.mark.parametrize(
    "read",
    [
        partial(handshake, b"HTTP/1.1 101 X\r\n\r\nmore"),
        partial(handshake, b"x" * 100_000),
        partial(handshake, b"no status\r\n\r\n"),
    ],
    ids=["with an answer at once", "without an end", "of another kind"],
)
def test_a_strange_greeting_is_refused(read: Callable[[], object]) -> None:
    with pytest.raises(ProtocolViolation):
        read()
