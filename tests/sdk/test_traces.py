"""What consumers tell of their work: what each record says, and that nobody waits for it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from mqclient import (
    AsyncLitePullConsumer,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    Consumed,
    HandleExpired,
    ListenerContext,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TopicQueue,
)
from mqclient.consuming import traces
from mqclient.consuming.openwork import OPEN_MAX, OpenWork
from mqclient.consuming.traces import (
    Ended,
    Mode,
    Teller,
    TraceBuffer,
    Work,
    body_of,
    keys_of,
    work_of,
)
from mqclient.wire.records import unpack_records

from tests.sdk.fake_broker import FakeBroker, properties_of
from tests.sdk.fake_broker import body_of as stored_body
from tests.sdk.fake_bytes import make_record
from tests.sdk.push.doubles import FIRST, Desk, ManualClock, messages
from tests.sdk.push.hearing import WAIT_S, Ear

TOPIC = traces.TRACE_TOPIC


def told(broker: FakeBroker) -> list[dict[str, Any]]:
    """Return all records that were sent, with what their messages say once."""
    found = []
    for record in broker.queues[TOPIC, 0]:
        document = json.loads(stored_body(record))
        ids = {item["id"] for item in document["records"]}
        assert set(properties_of(record)["KEYS"].split()) == ids
        head = {name: document.get(name) for name in ("v", "group", "client", "mode")}
        found += [{**head, **item} for item in document["records"]]
    return found


def short(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("queue", "offset", "attempt", "result", "error")
    return sorted(tuple(item.get(name) for name in names) for item in records)


def work(message_id: str = "id", size: int = 2) -> Work:
    return Work(message_id, "{}".ljust(size))


def message(**properties: str) -> Message:
    section = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    record = make_record(properties.get("topic", "orders"), 3, b"body", section)
    return unpack_records(record, 0, [len(record)])[0]


def line(found: Message) -> dict[str, Any]:
    made = work_of(found, attempt=1, started_ms=5, ended_ms=9, result=Ended.OK)
    document: dict[str, Any] = json.loads(made.line)
    return document


@pytest.fixture
def traced(broker: FakeBroker) -> FakeBroker:
    broker.topics[TOPIC] = 1
    return broker


def test_a_push_consumer_tells_how_each_message_ended(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"good")
    traced.put("orders", 1, b"late")
    traced.put("orders", 2, b"bad")

    def result(found: Message, _context: ListenerContext) -> Consumed:
        if found.body == b"bad":
            raise LookupError("no such order")
        return Consumed.SUCCESS if found.body == b"good" else Consumed.RETRY_LATER

    ear = Ear(result)
    with PushConsumer(
        traced.url, group="g", topics="orders", listener=ear, trace=True, client_id="me"
    ):
        # Failed messages come again at once, maybe before others came at all.
        ear.wait_for(lambda ear: {b"good", b"late", b"bad"} <= set(ear.bodies))

    records = [item for item in told(traced) if item["attempt"] == 1]
    assert short(records) == [
        (0, 0, 1, "ok", None),
        (1, 0, 1, "later", None),
        (2, 0, 1, "error", "LookupError"),
    ]
    who = {tuple(item[name] for name in ("v", "group", "client", "mode")) for item in records}
    assert who == {(1, "g", "me", "concurrent")}
    assert all(item["born_ms"] <= item["started_ms"] <= item["ended_ms"] for item in records)


async def test_a_coroutine_that_is_cut_off_has_timed_out(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"slow")
    traced.put("orders", 1, b"own")

    async def listener(found: Sequence[Message], _context: ListenerContext) -> Consumed:
        if found[0].body == b"own":
            raise TimeoutError("of something else")
        await asyncio.sleep(WAIT_S)
        return Consumed.SUCCESS

    async with AsyncPushConsumer(
        traced.url, group="g", topics="orders", listener=listener, trace=True,
        consume_timeout_s=0.05,
    ):  # fmt: skip
        async with asyncio.timeout(WAIT_S):
            while len(traced.failures.sent_back) < 2:
                await asyncio.sleep(0.01)

    first = [item for item in told(traced) if item["attempt"] == 1]
    assert short(first) == [
        (0, 0, 1, "timeout", "TimeoutError"),
        (1, 0, 1, "error", "TimeoutError"),
    ]


def test_a_receiver_tells_when_it_settles_and_of_what_it_leaves(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"done", b"again", b"left")
    with SimpleConsumer("orders", "g", traced.url, trace=True) as consumer:
        done, again, _left = consumer.receive()
        consumer.ack(done)
        consumer.nack(again, delay_ms=60_000)

    assert short(told(traced)) == [
        (0, 0, 1, "ok", None),
        (0, 1, 1, "later", None),
        (0, 2, 1, "timeout", None),
    ]


def test_what_a_loop_has_not_reached_was_not_given_to_the_code(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"one", b"two", b"three")
    with SimpleConsumer("orders", "g", traced.url, trace=True) as consumer:
        for found in consumer:
            consumer.ack(found)
            break

    assert short(told(traced)) == [(0, 0, 1, "ok", None)]


async def test_an_ack_that_comes_too_late_was_a_timeout(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"x")
    async with AsyncSimpleConsumer("orders", "g", traced.url, trace=True) as consumer:
        (found,) = await consumer.receive()
        assert found.lease is not None
        traced.expired_tokens.add(found.lease.token)
        with pytest.raises(HandleExpired):
            await consumer.ack(found)

    assert short(told(traced)) == [(0, 0, 1, "timeout", None)]


def test_a_poll_tells_that_what_was_polled_before_is_done(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"one", b"two", b"three")
    queue = TopicQueue("orders", 0)
    with LitePullConsumer(traced.url, group="g", trace=True, client_id="me") as consumer:
        consumer.assign([queue])
        first = consumer.poll(messages_max=2)
        assert [found.queue_offset for found in first] == [0, 1]
        consumer.poll(messages_max=2)

    records = told(traced)
    assert short(records) == [(0, offset, 1, "ok", None) for offset in range(3)]
    who = {tuple(item[name] for name in ("v", "group", "client", "mode")) for item in records}
    assert who == {(1, "g", "me", None)}
    assert all(item["born_ms"] <= item["started_ms"] <= item["ended_ms"] for item in records)


def test_what_is_sought_again_was_not_done_and_comes_as_another_attempt(
    traced: FakeBroker,
) -> None:
    traced.put("orders", 0, b"one", b"two", b"three")
    queue = TopicQueue("orders", 0)
    with LitePullConsumer(traced.url, group="g", trace=True) as consumer:
        consumer.assign([queue])
        consumer.poll()
        consumer.seek(queue, 1)
        assert [found.queue_offset for found in consumer.poll()] == [1, 2]
        consumer.commit()
        consumer.seek(queue, 2)
        consumer.poll()

    assert short(told(traced)) == [
        (0, 0, 1, "ok", None),
        (0, 1, 1, "later", None),
        (0, 1, 2, "ok", None),
        (0, 2, 1, "later", None),
        # Committed, then read once more: worked on twice, and no failure explains it.
        (0, 2, 1, "ok", None),
        (0, 2, 2, "ok", None),
    ]


async def test_a_poller_that_ends_with_an_error_tells_its_class(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"one")

    async def fail() -> None:
        async with AsyncLitePullConsumer(traced.url, group="g", trace=True) as consumer:
            await consumer.subscribe("orders")
            await consumer.poll()
            raise LookupError("no such order")

    with pytest.raises(LookupError):
        await fail()
    async with AsyncLitePullConsumer(traced.url, group="g", trace=True) as consumer:
        await consumer.subscribe("orders")
        await consumer.poll()
        await consumer.close(is_commit=False)

    assert short(told(traced)) == [(0, 0, 1, "error", "LookupError"), (0, 0, 1, "timeout", None)]


def test_who_polls_without_a_group_tells_nothing(traced: FakeBroker) -> None:
    traced.put("orders", 0, b"one")
    with LitePullConsumer(traced.url, trace=True) as consumer:
        consumer.assign([TopicQueue("orders", 0)])
        assert consumer.poll()

    assert told(traced) == []


def test_the_traces_of_others_are_read_without_a_trace(traced: FakeBroker) -> None:
    traced.put(TOPIC, 0, b"{}")
    with SimpleConsumer(TOPIC, "g", traced.url, trace=True) as consumer:
        consumer.ack(consumer.receive())

    assert [stored_body(record) for record in traced.queues[TOPIC, 0]] == [b"{}"]


def test_the_environment_asks_where_the_program_does_not(
    traced: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQWEB_TRACE", "1")
    for trace in ({}, {"trace": False}):
        traced.put("orders", 0, b"x")
        with SimpleConsumer("orders", "g", traced.url, **trace) as consumer:  # type: ignore[arg-type]
            consumer.ack(consumer.receive())

    assert len(told(traced)) == 1


def test_a_broker_that_takes_no_traces_costs_them_and_nothing_else(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"x", b"y")
    with Producer(broker.url), SimpleConsumer("orders", "g", broker.url, trace=True) as consumer:
        found = consumer.receive()
        consumer.ack(found)

    assert len(broker.settled) == 2
    assert "traces are left out" in caplog.text
    assert "2 traces of" in caplog.text


def test_a_record_says_where_its_message_first_lay_and_when_it_was_due() -> None:
    again = message(
        topic="%RETRY%g", RETRY_TOPIC="orders", ORIGIN_QUEUE="2", ORIGIN_OFFSET="77",
        UNIQ_KEY="id", __SHARDINGKEY="k", TIMER_OUT_MS="1700000000000", TIMER_DELAY_LEVEL="3",
    )  # fmt: skip

    found = line(again)

    assert [found[name] for name in ("topic", "queue", "offset", "id")] == ["orders", 2, 77, "id"]
    assert [found[name] for name in ("sharding_key", "due_ms", "level")] == [
        "k",
        1_700_000_000_000,
        3,
    ]
    assert (found["started_ms"], found["ended_ms"], "error" in found) == (5, 9, False)


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({"TIMER_DELIVER_MS": "1700000000000"}, 1_700_000_000_000),
        ({"TIMER_DELAY_MS": "250"}, "born + 250"),
        ({"TIMER_OUT_MS": "soon"}, None),
        ({}, None),
    ],
)
def test_a_delay_is_told_as_a_moment(properties: dict[str, str], due_ms: object) -> None:
    found = message(**properties)

    expected = found.born_time_ms + 250 if due_ms == "born + 250" else due_ms
    assert line(found).get("due_ms") == expected


def test_a_message_tells_of_a_hundred_at_most_and_waits_for_five_seconds() -> None:
    clock = ManualClock()
    buffer = TraceBuffer(clock=clock)
    assert buffer.due_in_s() is None

    is_news = [buffer.add([work()]) for _ in range(250)]

    assert [number for number, is_new in enumerate(is_news) if is_new] == [0, 99]
    assert buffer.due_in_s() == 0
    assert [len(buffer.take()), len(buffer.take())] == [100, 100]
    assert buffer.due_in_s() == 5
    clock.now_s += 5
    assert (buffer.due_in_s(), len(buffer.take()), buffer.due_in_s()) == (0, 50, None)


def test_what_has_no_room_is_counted() -> None:
    buffer = TraceBuffer(clock=ManualClock())

    buffer.add([work()] * (traces.BUFFERED_MAX + 3))

    assert buffer.dropped_count == 3


def test_a_message_is_no_longer_than_the_broker_takes() -> None:
    buffer = TraceBuffer(clock=ManualClock())
    buffer.add([work(size=2**20), work(size=2**20), work(size=2**20), work("x" * 20_000), work()])

    batches = [buffer.take() for _ in range(5)]

    assert [len(batch) for batch in batches] == [2, 1, 1, 1, 0]
    assert keys_of(batches[2]) == []
    assert len(body_of(Teller(group="g", client_id="c", mode=Mode.ORDERED), batches[0])) < 4 * 2**20


def test_ids_that_are_no_words_are_no_keys() -> None:
    assert keys_of([work("a"), work("b c"), work(""), work("a"), work("d\x01")]) == ["a"]


def test_code_that_settles_nothing_times_out_and_is_not_remembered_for_ever() -> None:
    clock, tells = ManualClock(), []
    open_work = OpenWork(
        lambda works: tells.extend(json.loads(item.line) for item in works), clock=clock
    )
    first, second = messages(FIRST, range(2))

    open_work.given([first, second], 1_000)
    open_work.extended([second], 5_000)
    clock.now_s += 2
    open_work.settled([], Ended.OK)
    assert [(item["offset"], item["result"]) for item in tells] == [(0, "timeout")]
    assert tells[0]["ended_ms"] - tells[0]["started_ms"] == 1_000

    open_work.given([second], 1_000)
    open_work.settled([second, second], Ended.OK)
    assert [(item["offset"], item["result"]) for item in tells[1:]] == [(1, "timeout"), (1, "ok")]

    open_work.given(messages(FIRST, range(OPEN_MAX + 2)), 1_000)
    assert [item["offset"] for item in tells[3:]] == [0, 1]


def test_an_ordered_queue_tells_of_every_attempt_and_not_of_what_was_not_tried() -> None:
    tells: list[Work] = []
    desk = Desk(trace=lambda works: tells.extend(works))
    desk.assign(FIRST)
    desk.begin(q0=0)
    desk.bring(FIRST, range(1))
    delivery = desk.listen()
    desk.core.finish(delivery, Consumed.NOT_NOW)
    desk.advance(5)
    desk.fail(desk.listen())

    assert [json.loads(item.line)["result"] for item in tells] == ["later"]


def test_telling_waits_for_nobody(traced: FakeBroker) -> None:
    fault = traced.fault(TOPIC, "hold")
    traced.put("orders", 0, *[b"x"] * traces.RECORDS_MAX)
    traced.put("orders", 1, b"y")
    with SimpleConsumer("orders", "g", traced.url, trace=True) as consumer:
        while len(traced.settled) < traces.RECORDS_MAX:
            consumer.ack(consumer.receive(64))
        assert fault.fired.wait(WAIT_S)
        while len(traced.settled) <= traces.RECORDS_MAX:
            consumer.ack(consumer.receive())
        assert told(traced) == []
        fault.release()

    assert len(told(traced)) == traces.RECORDS_MAX + 1
