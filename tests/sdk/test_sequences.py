"""Numbers that show what was lost: who gives them, and what a checker makes of them."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from mqclient import (
    AsyncLitePullConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    Finding,
    InvalidArgument,
    LitePullConsumer,
    Message,
    OutgoingMessage,
    Producer,
    SequenceChecker,
    SequenceNumbering,
    SimpleConsumer,
    TopicQueue,
)
from mqclient.wire.records import Lease, unpack_records

from tests.sdk.fake_broker import FakeBroker, make_record, properties_of
from tests.sdk.push.doubles import ManualClock

FIRST = TopicQueue("orders", 0)


def message(
    number: int | str, *, producer: str = "p", topic: str = "orders", queue: int = 0,
    times: int = 0, origin: str | None = None, attempt: int | None = None,
    epoch: str | None = None,
) -> Message:  # fmt: skip
    properties = f"SEQ_PRODUCER\x01{producer}\x02SEQ_NUMBER\x01{number}\x02"
    if epoch is not None:
        properties += f"SEQ_EPOCH\x01{epoch}\x02"
    if origin is not None:
        properties += f"RETRY_TOPIC\x01orders\x02ORIGIN_QUEUE\x01{origin}\x02"
    record = bytearray(make_record(topic, queue, b"x", properties.encode()))
    record[72:76] = times.to_bytes(4, "big")
    lease = None if attempt is None else Lease("t", attempt, None, [0])
    (made,) = unpack_records(bytes(record), 0, [len(record)], lease)
    return made


def told(numbers: Iterable[int], **settings: Any) -> tuple[SequenceChecker, list[str]]:
    """Show a checker the numbers of one producer; return what it told, as texts."""
    findings: list[str] = []

    def tell(finding: Finding) -> None:
        findings.append(f"{finding.kind} {finding.first}-{finding.last}")

    checker = SequenceChecker(on_finding=tell, **settings)
    checker.after_receive([message(number) for number in numbers])
    return checker, findings


def gaps(checker: SequenceChecker) -> list[tuple[int, int]]:
    return [(gap.first, gap.last) for gap in checker.report().missing]


def test_what_is_complete_is_silent() -> None:
    checker, findings = told(range(5, 50))

    assert findings == []
    assert checker.report().received_count == 45
    assert checker.report().missing_count == 0


def test_what_is_passed_over_is_named_and_what_comes_late_closes_it() -> None:
    checker, findings = told([1, 2, 6, 7, 4, 9, 3, 5])

    assert findings == ["gap 3-5", "late 4-4", "gap 8-8", "late 3-3", "late 5-5"]
    assert gaps(checker) == [(8, 8)]
    assert checker.report().late_count == 3
    assert checker.report().missing_count == 1


def test_what_comes_again_is_a_repeat() -> None:
    checker, findings = told([1, 2, 2, 3, 1])

    assert findings == ["repeat 2-2", "repeat 1-1"]
    assert checker.report().repeat_count == 2


def test_looking_begins_with_the_first_that_is_seen_or_with_the_first_there_is() -> None:
    assert told([7, 8])[1] == []
    assert told([7, 8], is_from_first=True)[1] == ["gap 1-6"]


def test_a_message_that_is_tried_again_is_no_repeat_and_no_gap() -> None:
    checker, findings = told([1, 2, 5])
    checker.after_receive(
        [
            message(2, attempt=2),
            message(3, times=1, topic="%RETRY%g", origin="0"),
            message(9, times=2, topic="%RETRY%g", origin="0"),
            message(1, times=1, topic="%RETRY%g", origin="not a number"),
        ]
    )

    assert findings == ["gap 3-4", "late 3-3"]
    assert gaps(checker) == [(4, 4)]


def test_a_producer_that_begins_anew_under_its_name_has_lost_nothing() -> None:
    checker, findings = told([1, 2, 3])
    checker.after_receive([message(n, epoch="7") for n in (1, 2, 4)])
    checker.after_receive([message(n, epoch="8") for n in (1, 2)])
    checker.after_receive([message(9, epoch="yesterday")])

    assert findings == ["gap 3-3"]
    (gap,) = checker.report().missing
    assert (gap.epoch, gap.first, checker.report().received_count) == (7, 3, 8)


def test_the_epoch_is_when_a_producer_began_unless_it_says_otherwise() -> None:
    clock = ManualClock()

    assert SequenceNumbering("shop", clock=clock).for_queue("orders", 0)["SEQ_EPOCH"] == "1000000"
    assert SequenceNumbering("shop", epoch=7).for_queue("orders", 0) == {
        "SEQ_PRODUCER": "shop",
        "SEQ_EPOCH": "7",
        "SEQ_NUMBER": "1",
    }
    with pytest.raises(InvalidArgument):
        SequenceNumbering(epoch=-1)


def test_producers_and_queues_are_looked_at_apart() -> None:
    checker = SequenceChecker()
    checker.after_receive(
        [
            message(n, producer=producer, queue=queue)
            for n in (1, 2, 3)
            for producer in ("p", "q")
            for queue in (0, 1)
        ]
    )

    assert checker.report().missing_count == 0
    assert checker.report().received_count == 12


@pytest.mark.parametrize("text", ["", "-1", "0", "x", "1" * 30, "²", str((1 << 63) - 1)])
def test_a_strangers_number_is_passed_over(text: str) -> None:
    checker = SequenceChecker(is_from_first=True)
    checker.after_receive([message(text)])

    assert checker.report().received_count == 0


def test_memory_is_bounded_and_what_is_not_waited_for_stays_counted() -> None:
    checker, _ = told(range(1, 2_001, 2), gaps_max=10)
    before = checker.report()
    checker.after_receive([message(1, producer=f"p{n}") for n in range(5)])
    small = SequenceChecker(runs_max=2)
    small.after_receive([message(n, producer="a") for n in (1, 3)])
    small.after_receive([message(1, producer=name) for name in "bc"])

    assert (len(before.missing), before.given_up_count, before.missing_count) == (10, 989, 999)
    assert (small.report().missing, small.report().missing_count) == ((), 1)
    with pytest.raises(InvalidArgument):
        SequenceChecker(gaps_max=0)


def test_a_queue_that_begins_anew_may_go_on_anywhere() -> None:
    checker, findings = told([1, 2, 4])
    checker.queue_begins("orders", 1)
    checker.queue_begins("orders", 0)
    checker.after_receive([message(90), message(91)])

    assert findings == ["gap 3-3"]
    assert checker.report().missing_count == 1


@pytest.mark.parametrize("seed", range(20))
def test_any_order_with_losses_and_repeats_leaves_exactly_what_never_came(seed: int) -> None:
    rng = random.Random(seed)
    lost = set(rng.sample(range(2, 300), 40))
    arriving = [number for number in range(2, 300) if number not in lost]
    arriving += rng.choices(arriving, k=30)
    rng.shuffle(arriving)
    top = max(arriving)

    checker, _ = told([1, *arriving])

    missing = {
        number for gap in checker.report().missing for number in range(gap.first, gap.last + 1)
    }
    assert missing == {number for number in lost if number < top}, seed
    assert checker.report().repeat_count == 30, seed


def test_numbers_follow_each_other_in_every_queue_and_survive_repeats(broker: FakeBroker) -> None:
    fault = broker.fault("POST", "reset_before", times=3, skip=1)
    numbering = SequenceNumbering("shop")
    with Producer(broker.url, interceptors=[numbering], linger_ms=5) as producer:
        futures = [producer.send_async("orders", str(n), sharding_key=str(n)) for n in range(80)]
        producer.send("orders", "later", queue=0, delay_level=1)
        for future in futures:
            future.result()

    stored = {
        queue: [properties_of(record) for record in broker.queues["orders", queue]]
        for queue in range(4)
    }
    assert fault.fired_count == 3
    assert sum(len(items) for items in stored.values()) == 80
    for items in stored.values():
        assert [item["SEQ_NUMBER"] for item in items] == [str(n + 1) for n in range(len(items))]
        assert {item["SEQ_PRODUCER"] for item in items} == {"shop"}
    assert "SEQ_NUMBER" not in properties_of(broker.later.levels[0].record)


def test_a_message_that_is_not_stored_in_the_end_is_found_by_the_consumer(
    broker: FakeBroker,
) -> None:
    checker = SequenceChecker(is_from_first=True)
    with Producer(broker.url, interceptors=[SequenceNumbering()]) as producer:
        producer.send("orders", "1", queue=0)
        fault = broker.fault("POST", "status", status=403, code="forbidden", retriable=False)
        assert producer.send_async("orders", "2", queue=0).exception() is not None
        producer.send("orders", "3", queue=0)
    with LitePullConsumer(broker.url, interceptors=[checker]) as consumer:
        consumer.assign([FIRST])
        while len(consumer.poll()) == 0:
            pass

    assert fault.fired_count == 1
    assert gaps(checker) == [(2, 2)]


async def test_every_kind_of_consumer_shows_its_messages(broker: FakeBroker) -> None:
    async with AsyncProducer(broker.url, interceptors=[SequenceNumbering()]) as producer:
        for n in range(4):
            await producer.send("orders", str(n), queue=0)
    del broker.queues["orders", 0][2]
    # What is deleted there moves what follows, as no broker would.
    broker.put("orders", 0, b"end")
    found: list[int] = []
    for kind in ("simple", "lite"):
        checker = SequenceChecker()
        if kind == "simple":
            with SimpleConsumer("orders", "g", broker.url, interceptors=[checker]) as simple:
                simple.ack(simple.receive())
        else:
            async with AsyncLitePullConsumer(broker.url, interceptors=[checker]) as lite:
                await lite.assign([FIRST])
                await lite.poll()
        found.append(checker.report().missing_count)
    checker = SequenceChecker()
    async with AsyncSimpleConsumer("orders", "h", broker.url, interceptors=[checker]) as simple2:
        await simple2.receive()

    assert [*found, checker.report().missing_count] == [1, 1, 1]


def test_seeking_is_no_loss(broker: FakeBroker) -> None:
    checker = SequenceChecker()
    with Producer(broker.url, interceptors=[SequenceNumbering()]) as producer:
        for n in range(6):
            producer.send("orders", str(n), queue=0)
    with LitePullConsumer(broker.url, interceptors=[checker], poll_messages_max=2) as consumer:
        consumer.assign([FIRST])
        while not consumer.poll():
            pass
        consumer.seek(FIRST, 5)
        while not consumer.poll():
            pass

    assert checker.report().missing == ()
    assert checker.report().repeat_count == 0


class Bad:
    """Raises, or says too much."""

    def __init__(self, answer: Mapping[str, str] | Exception) -> None:
        self.answer = answer

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        return message

    def after_send(self, *_: object) -> None:
        return

    def for_queue(self, _topic: str, _queue: int) -> Mapping[str, str]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def after_receive(self, _messages: Sequence[Message]) -> None:
        raise ValueError("of a consumer's interceptor")


@pytest.mark.parametrize(
    "answer", [ValueError("x"), {"KEYS": "reserved"}, {"a": "x" * 2_000}, {"": "no name"}]
)
def test_an_interceptor_that_fails_to_speak_for_a_queue_stops_no_message(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture, answer: Mapping[str, str] | Exception
) -> None:
    interceptors = [Bad(answer), SequenceNumbering("shop")]
    with Producer(broker.url, interceptors=interceptors) as producer:
        producer.send("orders", "x", queue=0)

    found = properties_of(broker.queues["orders", 0][0])
    assert "failed to say what belongs to a queue" in caplog.text
    assert found["SEQ_NUMBER"] == "1"


def test_an_interceptor_that_raises_keeps_no_message_from_its_receiver(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"x")
    checker = SequenceChecker()
    bad = Bad({})
    with SimpleConsumer("orders", "g", broker.url, interceptors=[bad, checker]) as consumer:
        received = consumer.receive()

    assert [item.body for item in received] == [b"x"]
    assert "of a consumer's interceptor" in caplog.text
