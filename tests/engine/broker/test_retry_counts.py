"""How often what is to come again has failed: counted where it is, in a bounded look."""

import numpy as np
import pytest

from apps.engine.broker import retrycounts
from apps.engine.broker.retrycounts import Counting
from apps.engine.codec.copies import copy_record
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.errors import InvalidName, StoreDamaged
from apps.engine.failuretypes import GroupRetries, RetryPolicy
from apps.engine.types import GroupSpec, OffsetCommit
from tests.engine.broker import delayed
from tests.engine.broker.failurebench import FailureBench

RETRY = "%RETRY%g"


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench()


def look(bench: FailureBench, counting: Counting) -> None:
    while counting.portions:
        bench.broker.retrycounts.look(counting, wait=True)


def counted(bench: FailureBench, group: str = "g") -> GroupRetries:
    counting = bench.broker.retrycounts.begin(group)
    look(bench, counting)
    return counting.answer()


def table(found: GroupRetries) -> dict[int, tuple[int, int, int]]:
    return {one.failures: (one.in_topic, one.delayed, one.in_place) for one in found.counts}


def copy(topic: str, failures: int) -> bytes:
    """Return a record of a retry topic that has failed so often."""
    whole = decode_record(encode_record(topic=topic.encode(), queue=0, body=b"x"))
    return copy_record(whole, topic=topic, queue=0, properties={}, reconsume_times=failures)


def fail_again(bench: FailureBench, *offsets: int, wait_ms: int = 7_200_000) -> None:
    """Send messages of the retry topic back, as its reader does, and let them come again."""
    bench.send_back(*offsets, topic=RETRY)
    bench.clock.advance(wait_ms)
    bench.deliver()


def test_a_group_that_never_failed_has_no_counts(bench: FailureBench) -> None:
    bench.put(b"x")
    bench.receive()

    found = counted(bench)

    assert found == GroupRetries(group="g", counts=(), is_complete=True)


def test_a_message_is_counted_on_its_way_through_a_level_and_then_in_the_retry_topic(
    bench: FailureBench,
) -> None:
    bench.put(b"x", b"y", b"z")
    bench.send_back(0, 1)

    waiting = table(counted(bench))
    bench.clock.advance(10_000)
    bench.deliver()
    there = table(counted(bench))

    assert waiting == {1: (0, 2, 0)}
    assert there == {1: (2, 0, 0)}


def test_what_failed_more_often_is_counted_by_its_own_number(bench: FailureBench) -> None:
    bench.put(b"x", b"y", b"z")
    bench.send_back(0, 1, 2)
    bench.clock.advance(10_000)
    bench.deliver()
    fail_again(bench, 0, 1)
    fail_again(bench, 3)

    found = table(counted(bench))

    # The first copies of two and the second of one were sent back: they do not count there.
    assert found == {1: (1, 0, 0), 2: (1, 0, 0), 3: (1, 0, 0)}


def test_what_is_settled_is_counted_no_more(bench: FailureBench) -> None:
    bench.put(b"x", b"y", b"z")
    bench.send_back(0, 1, 2)
    bench.clock.advance(10_000)
    bench.deliver()
    commit = OffsetCommit(topic=RETRY, queue=0, queue_offset=2)
    bench.broker.offsets.commit("g", [commit], client_id="a")

    assert table(counted(bench)) == {1: (1, 0, 0)}


def test_a_retry_with_a_delay_of_its_own_is_counted_among_others() -> None:
    bench = FailureBench(
        GroupSpec(name="g", retry_policy=RetryPolicy.CUSTOM, retry_delays_ms=(86_400_000,))
    )
    bench.put(b"x", b"y", TIMER_DELAY_MS="1")
    bench.put(b"later", TIMER_DELAY_MS="90000000")
    bench.put(b"x", b"y")
    bench.send_back(0, 1)

    assert table(counted(bench)) == {1: (0, 2, 0)}


def test_a_delay_of_its_own_is_counted_when_it_waits_on_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = delayed.Store(tuning=delayed.TINY)
    broker, now_ms = store.open(), store.clock.wall_ms()
    delayed.send_at(broker, {f"{n}": now_ms + 1_000 * (n + 60) for n in range(12)}, topic="t")
    for topic, failures in ((RETRY, (2, 5)), ("%RETRY%h", (5,))):
        copies = [copy(topic, number) for number in failures]
        due_ms = np.array([now_ms + 1_000 * (60 + number) for number in failures])
        broker.recorder.commit([], [broker.delays.parcel(topic, 0, copies, due_ms)])
    assert delayed.move(broker)
    assert any(run.unread for run in broker.delays.waiting.runs.values()), "nothing is in a run"

    def count() -> GroupRetries:
        counting = broker.retrycounts.begin("g")
        while counting.portions:
            broker.retrycounts.look(counting, wait=True)
        return counting.answer()

    whole = count()
    monkeypatch.setattr(retrycounts, "ROWS_MAX", 0)
    cut = count()

    assert table(whole) == {2: (0, 1, 0), 5: (0, 1, 0)}
    assert (whole.is_complete, cut.is_complete) == (True, False)


def test_messages_of_other_groups_and_topics_in_the_same_levels_are_not_counted(
    bench: FailureBench,
) -> None:
    bench.put(b"x", b"y")
    bench.put(b"delayed", DELAY="3")
    bench.send_back(0)
    bench.send_back(0, 1, group="h")

    assert table(counted(bench)) == {1: (0, 1, 0)}
    assert table(counted(bench, "h")) == {1: (0, 2, 0)}


def test_what_a_receiver_failed_at_is_counted_where_it_lies(bench: FailureBench) -> None:
    bench.put(b"x", b"y", b"z")
    (lease,) = bench.receive(most=2, invisible_ms=1_000).leases
    first_try = table(counted(bench))
    bench.clock.advance(1_000)
    bench.broker.expire()
    timed_out = table(counted(bench))
    (again,) = bench.receive(most=2, invisible_ms=1_000).leases
    second_try = table(counted(bench))
    bench.broker.settler.nack("g", [f"{again.token}:0-0"], delay_ms=5_000)
    given_back = table(counted(bench))

    assert lease.attempt == 1
    assert first_try == {}
    assert timed_out == second_try == {1: (0, 0, 2)}
    assert given_back == {1: (0, 0, 1), 2: (0, 0, 1)}


def test_a_retry_that_a_receiver_failed_at_has_both_numbers_together(bench: FailureBench) -> None:
    bench.put(b"x", b"y")
    bench.send_back(0, 1)
    bench.clock.advance(10_000)
    bench.deliver()
    (lease,) = bench.receive(most=1, topics=("bills",)).leases
    out = table(counted(bench))
    bench.broker.settler.nack("g", [f"{lease.token}:0-0"], delay_ms=60_000)

    assert out == {1: (2, 0, 0)}
    assert table(counted(bench)) == {1: (1, 0, 0), 2: (1, 0, 0)}


def test_what_was_sent_again_to_the_group_has_failed_no_time(bench: FailureBench) -> None:
    bench.put(b"x")
    bench.send_back(0, delay_level=-1)
    bench.resend([0], topic=RETRY)

    assert table(counted(bench)) == {0: (1, 0, 0)}


@pytest.mark.parametrize("name", ["TOPIC_MAX", "LEVEL_MAX"])
def test_a_look_is_bounded_and_says_so(
    bench: FailureBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(retrycounts, name, 3)
    monkeypatch.setattr(retrycounts, "_PORTION", 2)
    bench.put(*[b"x"] * 8)
    for count in (3, 5):
        bench.send_back(*range(count))
        if name == "TOPIC_MAX":
            bench.clock.advance(10_000)
            bench.deliver()
        place = 0 if name == "TOPIC_MAX" else 1
        found = counted(bench)

        assert table(found)[1][place] == 3
        assert found.is_complete == (count == 3)


def test_rows_with_a_delay_of_their_own_are_bounded_too(
    bench: FailureBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrycounts, "OWN_MAX", 2)
    bench.put(*[b"x"] * 3)
    for offset in range(3):
        bench.send_back(offset, delay_ms=60_000)
        found = counted(bench)

        assert table(found) == {1: (0, min(offset + 1, 2), 0)}
        assert found.is_complete == (offset < 2)


def test_a_portion_that_would_wait_for_the_disk_changes_nothing_and_is_repeated(
    bench: FailureBench,
) -> None:
    bench.put(b"x", b"y")
    bench.send_back(0, 1)
    bench.restart()
    counting = bench.broker.retrycounts.begin("g")
    bench.disk.make_cold()

    with pytest.raises(ColdRead):
        bench.broker.retrycounts.look(counting, wait=False)
    assert bench.disk.faults["cold"], "the fault did not fire"
    assert counting.answer().counts == ()
    look(bench, counting)

    assert table(counting.answer()) == {1: (0, 2, 0)}


def test_a_record_that_is_not_where_its_entry_says_is_damage(
    bench: FailureBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(b"x")
    bench.send_back(0)
    counting = bench.broker.retrycounts.begin("g")
    whole = bench.broker.log.read_records

    def shifted(log_offsets: np.ndarray, sizes: np.ndarray, *, wait: bool) -> memoryview:
        return whole(log_offsets - 8, sizes, wait=wait)

    monkeypatch.setattr(bench.broker.log, "read_records", shifted)

    with pytest.raises(StoreDamaged, match="SCHEDULE_TOPIC_XXXX/2 offset 0"):
        bench.broker.retrycounts.look(counting, wait=True)


def test_a_name_that_is_none_is_refused(bench: FailureBench) -> None:
    with pytest.raises(InvalidName):
        bench.broker.retrycounts.begin("no name")
