"""Messages their producer has numbered: stored once, however often they are sent."""

import random
from dataclasses import replace

import numpy as np
import pytest

from apps.engine.broker.careevents import Sequenced
from apps.engine.broker.journal import decode_event, encode_event
from apps.engine.broker.repeatstate import RepeatState
from apps.engine.errors import (
    DelayTooLong,
    MalformedBatch,
    SequenceTooOld,
    StoreDamaged,
    StoreFull,
)
from apps.engine.limits import MIB, SEQUENCE_RUNS_MAX, SEQUENCES_MAX
from apps.engine.types import RecordBatch, Special
from tests.engine.broker.sendbench import CONFIG, SendBench, batch_of, record

AT_MS = 1_700_000_000_000
LARGE = replace(CONFIG, segment_bytes=4 * MIB, batch_bytes_max=2 * MIB)


def sequenced(producer_id: str, first: int, last: int) -> Sequenced:
    """Return the event of numbers that lie at offsets ten times as high."""
    rows = np.array([[first, last, 10 * first]])
    return Sequenced(producer_id=producer_id, topic="t", queue=0, rows=rows)


def delayed(records: list[bytes]) -> RecordBatch:
    batch = batch_of(records, by_message=True)
    batch.special |= Special.DELAY
    return batch


@pytest.fixture
def bench() -> SendBench:
    return SendBench()


def test_a_batch_sent_again_is_answered_with_its_first_place(bench: SendBench) -> None:
    first = bench.send(5, 6, 7, queue=1)
    bench.clock.advance(5_000)

    again = bench.send(5, 6, 7, queue=1)

    assert (first.queue_offset, first.count, dict(first.repeats)) == (0, 3, {})
    assert (again.queue, again.queue_offset, again.count) == (1, 0, 0)
    assert again.store_time_ms == first.store_time_ms
    assert dict(again.repeats) == {0: (1, 0), 1: (1, 1), 2: (1, 2)}
    assert bench.bodies("t", 1) == [b"5", b"6", b"7"]


def test_a_repeat_is_known_wherever_it_is_sent_to_this_time(bench: SendBench) -> None:
    bench.send(1, queue=0)

    again = bench.send(1, queue=1)

    assert dict(again.repeats) == {0: (0, 0)}
    assert (again.queue, again.queue_offset) == (0, 0)
    assert bench.bodies("t", 1) == []


def test_numbers_of_other_producers_and_topics_are_others(bench: SendBench) -> None:
    bench.send(1)

    other_topic = bench.send(1, topic="u")
    other_producer = bench.send(1, producer="q")

    assert (other_topic.repeats, other_producer.repeats) == ({}, {})
    assert bench.bodies("t") == [b"1", b"1"]
    assert bench.bodies("u") == [b"1"]


def test_a_producer_may_begin_anywhere_and_send_out_of_order(bench: SendBench) -> None:
    for number in (900, 898, 899, 3, 2**63 - 1, 0):
        assert not bench.send(number).repeats

    for number in (0, 2**63 - 1, 3, 898, 899, 900):
        assert bench.send(number).repeats

    assert bench.bodies() == [b"900", b"898", b"899", b"3", b"9223372036854775807", b"0"]


@pytest.mark.parametrize("how", ["kill_and_open", "stop_and_open"])
def test_what_was_stored_is_known_after_a_restart(bench: SendBench, how: str) -> None:
    bench.send(1, 2)
    bench.broker.checkpoint()
    bench.send(3)

    getattr(bench, how)()

    assert bench.send(1, 2).repeats
    assert dict(bench.send(3).repeats) == {0: (0, 2)}
    assert bench.bodies() == [b"1", b"2", b"3"]


def test_what_a_power_cut_took_back_is_stored_when_it_is_sent_again(bench: SendBench) -> None:
    bench.send(1)
    bench.sync()
    bench.send(2)

    bench.cut_and_open()

    assert bench.send(1).repeats
    assert not bench.send(2).repeats
    assert bench.bodies() == [b"1", b"2"]


def test_a_repeat_promises_no_more_than_what_is_written(bench: SendBench) -> None:
    bench.send(1)
    checked = bench.broker.appender.check([batch_of([record(number=1)])])

    _, end = bench.broker.repeats.append(checked)

    assert end == bench.broker.log.written_offset > bench.broker.log.synced_offset


def test_a_batch_of_bytes_is_repeated_whole_or_not_at_all(bench: SendBench) -> None:
    bench.send(1, 2)

    with pytest.raises(MalformedBatch, match="1 of 2 messages were stored before"):
        bench.send(2, 3)

    assert bench.bodies() == [b"1", b"2"]
    assert not bench.send(3).repeats


def test_messages_from_a_door_are_judged_one_by_one(bench: SendBench) -> None:
    bench.send(1, 3)
    records = [record(body=b"%d" % n, number=n) for n in (2, 3, 4, 1)]

    (answer,) = bench.append(batch_of(records, by_message=True))

    assert dict(answer.repeats) == {1: (0, 1), 3: (0, 0)}
    assert (answer.queue_offset, answer.count) == (2, 2)
    assert bench.bodies() == [b"1", b"3", b"2", b"4"]
    (again,) = bench.append(batch_of(records, by_message=True))
    assert dict(again.repeats) == {0: (0, 2), 1: (0, 1), 2: (0, 3), 3: (0, 0)}


def test_a_door_s_batch_may_mix_producers_and_messages_without_numbers(bench: SendBench) -> None:
    records = [
        record(body=b"p1", number=1),
        record(body=b"none"),
        record(body=b"q1", number=1, producer="q"),
        record(body=b"p2", number=2),
    ]

    (first,) = bench.append(batch_of(records, by_message=True))
    (again,) = bench.append(batch_of(records, by_message=True))

    assert (first.count, dict(first.repeats)) == (4, {})
    assert (again.count, again.queue_offset) == (1, 4)
    assert dict(again.repeats) == {0: (0, 0), 2: (0, 2), 3: (0, 3)}
    assert bench.bodies() == [b"p1", b"none", b"q1", b"p2", b"none"]


def test_batches_of_one_request_are_stored_together_beside_what_is_known(bench: SendBench) -> None:
    bench.send(1)

    known, fresh, plain = bench.append(
        batch_of([record(number=1)]),
        batch_of([record("t", 1, b"2", number=2)], queue=1),
        batch_of([record(body=b"plain")]),
    )

    assert (known.repeats, fresh.repeats, plain.repeats) == ({0: (0, 0)}, {}, {})
    assert (fresh.queue, fresh.queue_offset, plain.queue_offset) == (1, 0, 1)
    assert dict(bench.send(2).repeats) == {0: (1, 0)}


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(number=1), record()], "numbered throughout"),
        ([record(number=1), record(number=2, producer="q")], "one producer's"),
        ([record(number=1), record(number=1)], "twice"),
        ([record(number=1, producer=None)], "go together"),
        ([record(PRODUCER_ID="p"), record(number=1)], "go together"),
        ([record(number="-1")], "a number from 0"),
        ([record(number="1.0")], "a number from 0"),
        ([record(number="")], "a number from 0"),
        ([record(number="٣")], "a number from 0"),
        ([record(number=2**63)], "at most"),
        ([record(number=10**19)], "a number from 0"),
        ([record(number=1, producer="")], "1 to 255 characters"),
        ([record(number=1, producer="x" * 256)], "1 to 255 characters"),
        ([record(number=2 * n) for n in range(SEQUENCE_RUNS_MAX + 1)], "at most 1024 runs"),
    ],
)
def test_numbers_that_are_none_are_refused(
    bench: SendBench, records: list[bytes], reason: str
) -> None:
    big = SendBench(LARGE) if len(records) > 100 else bench

    with pytest.raises(MalformedBatch, match=reason):
        big.append(batch_of(records))

    assert big.bodies() == []


def test_a_number_twice_in_two_batches_of_a_request_is_refused(bench: SendBench) -> None:
    batches = [batch_of([record("t", q, number=1)], queue=q, by_message=True) for q in (0, 1)]

    with pytest.raises(MalformedBatch, match="twice"):
        bench.append(*batches)

    assert bench.bodies() == bench.bodies(queue=1) == []


def test_a_full_disk_stores_neither_message_nor_number() -> None:
    full = SendBench(replace(CONFIG, reserve_bytes=1 << 60))

    with pytest.raises(StoreFull):
        full.send(2)

    assert full.bodies() == []
    assert len(full.broker.state.repeats) == 0


def test_numbers_that_nothing_is_known_of_any_more_are_too_old() -> None:
    state = RepeatState()
    for number in range(0, 2 * SEQUENCE_RUNS_MAX + 2, 2):
        state.apply(sequenced("p", number, number), at_ms=AT_MS)

    with pytest.raises(SequenceTooOld, match="number 0 was stored is forgotten"):
        state.find("p", "t", np.array([0, 2]))
    assert state.find("p", "t", np.array([2])).is_known.all()
    # It was never stored, and lies above all that was forgotten.
    assert not state.find("p", "t", np.array([3])).is_known.any()
    with pytest.raises(SequenceTooOld):
        state.find("p", "t", np.array([0]))
    assert not state.find("q", "t", np.array([0])).is_known.any()


def test_the_producer_silent_for_longest_is_forgotten_first() -> None:
    state = RepeatState()
    for index in range(SEQUENCES_MAX):
        state.apply(sequenced(f"p{index}", 7, 7), at_ms=AT_MS)
    state.apply(sequenced("p0", 8, 8), at_ms=AT_MS)

    state.apply(sequenced("another", 1, 1), at_ms=AT_MS)

    assert len(state) == SEQUENCES_MAX
    assert state.find("p0", "t", np.array([7, 8])).is_known.all()
    assert not state.find("p1", "t", np.array([7])).is_known.any()


def test_the_table_is_the_same_after_a_checkpoint() -> None:
    rng = random.Random(4)
    state, again = RepeatState(), RepeatState()
    for _ in range(50):
        first = rng.randrange(0, 10_000, 10)
        if state.find("p", "t", np.array([first])).is_known.any():
            continue
        state.apply(sequenced("p", first, first + rng.randrange(10)), at_ms=AT_MS + first)

    again.load(state.dump())

    assert again.dump() == state.dump()
    numbers = np.arange(10_000)
    before, after = state.find("p", "t", numbers), again.find("p", "t", numbers)
    assert (before.is_known == after.is_known).all()
    assert (before.offsets == after.offsets)[before.is_known].all()


def test_the_event_survives_writing_and_reading() -> None:
    rows = np.array([[1, 3, 40], [9, 9, 43]])
    event = Sequenced(producer_id="p", topic="t", queue=2, rows=rows)
    delayed = Sequenced(
        producer_id="ü", topic="t", queue=2, rows=np.array([[1, 2, -1]]), due_ms=(5, 6),
        handles=("a", "b"),
    )  # fmt: skip

    read, told = decode_event(encode_event(event)), decode_event(encode_event(delayed))

    assert isinstance(read, Sequenced)
    assert (read.producer_id, read.topic, read.queue, read.due_ms) == ("p", "t", 2, ())
    assert read.rows.tolist() == rows.tolist()
    assert isinstance(told, Sequenced)
    assert (told.producer_id, told.due_ms, told.handles) == ("ü", (5, 6), ("a", "b"))
    for cut in range(1, len(encode_event(delayed))):
        with pytest.raises(StoreDamaged):
            decode_event(encode_event(delayed)[:cut])


# --- delayed -----------------------------------------------------------------------------------


def test_a_message_with_a_delay_level_waits_once_and_is_due_when_it_was(bench: SendBench) -> None:
    first = bench.send(1, 2, DELAY="3")
    bench.clock.advance(700)

    again = bench.send(1, 2, DELAY="3")

    assert tuple(again.due_ms) == tuple(first.due_ms)
    assert dict(again.repeats) == {0: (0, -1), 1: (0, -1)}
    assert again.is_delayed
    assert bench.broker.queues.queue("SCHEDULE_TOPIC_XXXX", 2).end == 2


def test_a_message_with_a_delay_of_its_own_is_answered_with_its_first_handle(
    bench: SendBench,
) -> None:
    first = bench.send(1, 2, TIMER_DELAY_MS="60000")
    bench.broker.checkpoint()
    bench.clock.advance(700)
    bench.kill_and_open()

    again = bench.send(1, 2, TIMER_DELAY_MS="60000")

    assert len(first.handles) == 2
    assert tuple(again.handles) == tuple(first.handles)
    assert tuple(again.due_ms) == tuple(first.due_ms)
    assert again.count == 0
    assert bench.broker.queues.queue("rmq_sys_wheel_timer", 0).end == 1


def test_only_the_new_ones_of_delayed_messages_from_a_door_wait(bench: SendBench) -> None:
    def sent(*numbers: int) -> list[bytes]:
        return [record(number=number, TIMER_DELAY_MS="5000") for number in numbers]

    (first,) = bench.append(delayed(sent(1)))
    bench.clock.advance(10)
    (second,) = bench.append(delayed(sent(1, 2)))

    assert dict(second.repeats) == {0: (0, -1)}
    assert tuple(second.due_ms) == (first.due_ms[0] + 10,)
    assert len(second.handles) == second.count == 1


def test_a_delay_that_is_too_long_is_refused_and_its_number_stays_free(bench: SendBench) -> None:
    with pytest.raises(DelayTooLong):
        bench.send(1, TIMER_DELAY_MS=str(bench.config.delay_ms_max + 1))

    assert not bench.send(1).repeats
