"""Messages that failed for the last time in a lease, and dead letters that are sent again."""

import json

import pytest

from apps.engine.errors import InvalidArgument, InvalidName, StoreFull
from apps.engine.failuretypes import Resend, ResendResult
from apps.engine.types import PERM_READ, CatalogSnapshot, GroupSpec, TopicSpec
from tests.engine.broker.failurebench import FailureBench

RETRY, DEAD = "%RETRY%g", "%DLQ%g"
ONCE = GroupSpec(name="g", retry_max=1)


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench(ONCE)


def dead(*bodies: bytes, **properties: str) -> FailureBench:
    """Return a bench with dead letters of `orders`, queue 1."""
    bench = FailureBench()
    bench.put(*bodies, queue=1, **properties)
    bench.send_back(*range(len(bodies)), queue=1, delay_level=-1, reason="bad", client_id="c")
    return bench


# --- leases -----------------------------------------------------------------------------------


def test_a_lease_that_expires_for_the_last_time_is_a_dead_letter_and_never_comes_again(
    bench: FailureBench,
) -> None:
    bench.put(b"x", TAGS="a", UNIQ_KEY="id")
    (first,) = bench.receive(invisible_ms=1_000, client_id="c1").leases
    first_until_ms = first.invisible_until_ms
    bench.clock.advance(1_000)
    (second,) = bench.receive(invisible_ms=1_000, client_id="c2").leases
    assert second.attempt == 2
    bench.clock.advance(1_000)

    assert bench.receive().leases == ()
    assert bench.records(DEAD) == []
    assert bench.bury() == 1
    assert bench.receive().leases == ()
    (letter,) = bench.records(DEAD)
    assert (letter.body, letter.reconsume_times, letter.message_id) == (b"x", 2, "id")
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == "orders"
    assert json.loads(letter.properties["RETRY_HISTORY"]) == [
        [1, first_until_ms, "not acknowledged in time", "c1"],
        [2, second.invisible_until_ms, "not acknowledged in time", "c2"],
    ]
    assert bench.committed() == 1


def test_what_was_given_back_and_timed_out_is_in_the_history_once_each() -> None:
    bench = FailureBench(GroupSpec(name="g", retry_max=2))
    bench.put(b"x")
    for number, fails in enumerate(("nack", "time", "nack")):
        (lease,) = bench.receive(invisible_ms=1_000, client_id="c").leases
        if fails == "nack":
            bench.broker.settler.nack("g", [f"{lease.token}:0"], delay_ms=0, reason=f"r{number}")
        else:
            (extended,) = bench.broker.settler.extend("g", [f"{lease.token}:0"], invisible_ms=500)
            assert extended.handle
            bench.clock.advance(1_000)
        bench.restart()

    assert bench.bury() == 1
    history = json.loads(bench.records(DEAD)[0].properties["RETRY_HISTORY"])
    assert [(number, reason) for number, _, reason, _ in history] == [
        (1, "r0"), (2, "not acknowledged in time"), (3, "r2"),
    ]  # fmt: skip


def test_an_acknowledgement_of_what_was_buried_is_answered_expired(bench: FailureBench) -> None:
    bench.put(b"x")
    for _ in range(2):
        (lease,) = bench.receive(invisible_ms=1_000).leases
        bench.clock.advance(1_000)
    bench.bury()

    (result,) = bench.broker.settler.ack("g", [f"{lease.token}:0"])
    assert result.outcome.value == "expired"


def test_only_what_is_left_of_a_lease_is_buried(bench: FailureBench) -> None:
    bench.put(b"0", b"1", b"2")
    (lease,) = bench.receive(invisible_ms=1_000).leases
    bench.clock.advance(1_000)
    (lease,) = bench.receive(invisible_ms=1_000).leases
    bench.broker.settler.ack("g", [f"{lease.token}:1"])
    bench.clock.advance(1_000)

    assert bench.bury() == 2
    assert bench.bodies(DEAD) == [b"0", b"2"]
    assert bench.committed() == 3


def test_large_leases_are_buried_a_frame_at_a_time(bench: FailureBench) -> None:
    bodies = [b"%03d" % number + bytes(4_000) for number in range(100)]
    for start in range(0, 100, 25):
        bench.put(*bodies[start : start + 25])
    for _ in range(2):
        bench.receive(most=100, invisible_ms=1_000)
        bench.clock.advance(1_000)

    assert bench.bury() == 100
    assert bench.bodies(DEAD) == bodies


def test_what_is_over_is_buried_after_a_restart_too(bench: FailureBench) -> None:
    bench.put(b"x")
    for _ in range(2):
        bench.receive(invisible_ms=1_000)
        bench.clock.advance(1_000)
    bench.restart()

    assert bench.receive().leases == ()
    assert bench.bury() == 1


def test_a_full_disk_delays_the_burial_and_nobody_gets_the_message(bench: FailureBench) -> None:
    bench.put(b"x")
    for _ in range(2):
        bench.receive(invisible_ms=1_000)
        bench.clock.advance(1_000)
    bench.broker.log.room.reserve_bytes = 1 << 60
    bench.broker.log.room.look()
    with pytest.raises(StoreFull):
        bench.bury()
    assert bench.receive().leases == ()

    bench.broker.log.room.reserve_bytes = 0
    bench.broker.log.room.look()
    assert bench.bury() == 1


def test_a_group_that_is_allowed_more_failures_meanwhile_gets_the_message_again(
    bench: FailureBench,
) -> None:
    bench.put(b"x")
    for _ in range(2):
        bench.receive(invisible_ms=1_000)
        bench.clock.advance(1_000)
    assert bench.receive().leases == ()
    bench.publish(GroupSpec(name="g", retry_max=5))

    (lease,) = bench.receive().leases
    assert lease.attempt == 3
    assert bench.bury() == 0


def test_a_group_that_is_allowed_fewer_failures_has_dead_letters_at_once() -> None:
    bench = FailureBench(GroupSpec(name="g", retry_max=5))
    bench.put(b"x")
    bench.receive(invisible_ms=1_000)
    bench.clock.advance(1_000)
    bench.broker.expire()
    bench.publish(GroupSpec(name="g", retry_max=0))

    assert bench.bury() == 1


def test_an_ordered_group_without_a_limit_is_never_buried() -> None:
    bench = FailureBench(GroupSpec(name="g", ordered=True))
    bench.put(b"x")
    for attempt in range(1, 40):
        (lease,) = bench.receive(invisible_ms=1_000).leases
        assert lease.attempt == attempt
        bench.clock.advance(1_000)

    assert bench.bury() == 0


def test_retries_in_the_retry_topic_count_their_failures_before(bench: FailureBench) -> None:
    bench.put(b"a", b"b", TAGS="t")
    bench.send_back(0, delay_ms=0)
    (lease,) = bench.receive(invisible_ms=1_000, topics=("bills",), filter="other").leases
    assert (lease.block.topic, lease.attempt) == (RETRY, 1)
    bench.clock.advance(1_000)

    assert bench.receive(topics=("bills",)).leases == ()
    assert bench.bury() == 1
    (letter,) = bench.records(DEAD)
    assert (letter.body, letter.reconsume_times) == (b"a", 2)
    assert letter.properties["RETRY_TOPIC"] == "orders"


def test_retries_of_different_counts_are_handed_out_in_leases_of_their_own() -> None:
    bench = FailureBench()
    bench.put(b"a", b"b", b"c", b"d")
    bench.send_back(0, 1, delay_ms=0)
    bench.send_back(0, topic=RETRY, delay_ms=0)
    bench.send_back(2, delay_ms=0)

    leases = bench.receive(topics=("bills",)).leases
    # One failed twice; the first copy of it was sent back and does not come again.
    assert [len(lease.block) for lease in leases] == [1, 1, 1]
    assert bench.broker.state.leases.message_count == 3
    failed = sorted(entry.failures_before for entry in bench.broker.state.leases)
    assert failed == [1, 1, 2]


def test_a_nack_waits_as_the_policy_says_longer_each_time(bench: FailureBench) -> None:
    bench = FailureBench()
    bench.put(b"x")
    for delay_ms in (10_000, 30_000, 60_000):
        (lease,) = bench.receive().leases
        bench.broker.settler.nack("g", [f"{lease.token}:0"])
        bench.clock.advance(delay_ms - 1)
        assert bench.receive().leases == ()
        bench.clock.advance(1)


# --- sending again ----------------------------------------------------------------------------


def test_a_dead_letter_goes_back_to_its_queue_as_a_message_like_any_other() -> None:
    bench = dead(b"x", TAGS="a", KEYS="k", UNIQ_KEY="id", mine="1")

    assert bench.resend([0], by="ann") == [
        ResendResult(queue_offset=0, outcome=Resend.SENT, topic="orders", queue=1, sent_offset=1)
    ]
    record = bench.records(queue=1)[1]
    assert (record.body, record.reconsume_times) == (b"x", 0)
    assert record.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "UNIQ_KEY": "id",
        "mine": "1",
        "RESENT_BY": "ann",
        "RESENT_AT_MS": str(bench.clock.wall_ms()),
    }
    entries = bench.broker.queues.queue("orders", 1).read(0, 2)["tag_hash"]
    assert entries[0] == entries[1]


def test_a_dead_letter_is_sent_once_however_often_it_is_asked_for() -> None:
    bench = dead(b"x", b"y")

    assert [r.outcome for r in bench.resend([1, 1, 0])] == [
        Resend.SENT, Resend.ALREADY, Resend.SENT,
    ]  # fmt: skip
    assert [r.outcome for r in bench.resend([0, 1])] == [Resend.ALREADY] * 2
    bench.restart()
    assert [r.outcome for r in bench.resend([0, 1])] == [Resend.ALREADY] * 2
    assert bench.bodies(queue=1) == [b"x", b"y", b"x", b"y"]


def test_what_is_no_dead_letter_is_gone() -> None:
    bench = dead(b"x")

    assert [r.outcome for r in bench.resend([-1, 1, 1 << 70])] == [Resend.GONE] * 3
    assert [r.outcome for r in FailureBench().resend([0])] == [Resend.GONE]


def test_dead_letters_may_go_to_the_retry_topic_of_their_group_only() -> None:
    bench = dead(b"x")
    bench.send_back(0, group="h", queue=1, delay_level=-1)

    (other,) = bench.resend([0], topic="%RETRY%h")
    assert other.outcome is Resend.FAILED
    (own,) = bench.resend([0], topic=RETRY)
    assert (own.outcome, own.topic, own.queue) == (Resend.SENT, RETRY, 0)
    (record,) = bench.records(RETRY)
    assert record.reconsume_times == 0
    assert record.properties["RETRY_TOPIC"] == "orders"
    assert "RETRY_HISTORY" not in record.properties
    # It fails again and is the dead letter of the same origin.
    bench.send_back(0, topic=RETRY, delay_level=-1)
    letter = bench.records(DEAD)[1]
    assert (letter.reconsume_times, letter.properties["DLQ_ORIGIN_TOPIC"]) == (1, "orders")


@pytest.mark.parametrize("topic", ["nope", "closed", DEAD, "SCHEDULE_TOPIC_XXXX", ""])
def test_a_topic_that_takes_no_messages_fails_each_and_leaves_it_to_be_sent(topic: str) -> None:
    bench = dead(b"x")
    topics = dict(bench.broker.catalog.snapshot.topics)
    topics["closed"] = TopicSpec(name="closed", queue_count=1, perm=PERM_READ)
    version = bench.broker.catalog.snapshot.version + 1
    bench.broker.publish_catalog(CatalogSnapshot(version=version, topics=topics))

    (result,) = bench.resend([0], topic=topic)
    assert result.outcome is Resend.FAILED
    assert result.detail
    assert bench.resend([0])[0].outcome is Resend.SENT


def test_an_origin_that_is_gone_fails_and_one_with_fewer_queues_takes_another() -> None:
    bench = dead(b"x")
    bench.publish(deleted="orders")
    assert bench.resend([0])[0].outcome is Resend.FAILED

    bench.orders_queue_count = 1
    bench.publish()
    (result,) = bench.resend([0])
    assert (result.outcome, result.queue) == (Resend.SENT, 0)


def test_many_dead_letters_are_sent_in_several_frames() -> None:
    bodies = [b"%03d" % number + bytes(4_000) for number in range(60)]
    bench = dead(*bodies)

    results = bench.resend(range(60), topic="bills")
    assert {result.outcome for result in results} == {Resend.SENT}
    assert [result.sent_offset for result in results] == list(range(60))
    assert bench.bodies("bills") == bodies


@pytest.mark.parametrize(
    ("offsets", "by", "error"),
    [((), "ann", InvalidArgument), (range(1_001), "ann", InvalidArgument),
     ((0,), "a\x01", InvalidArgument), ((0,), "a" * 256, InvalidArgument)],
)  # fmt: skip
def test_a_bad_resend_changes_nothing(offsets: range, by: str, error: type[Exception]) -> None:
    bench = dead(b"x")
    end = bench.broker.log.written_offset

    with pytest.raises(error):
        bench.resend(offsets, by=by)
    with pytest.raises(InvalidName):
        bench.broker.deadletters.begin("a b", [0], topic=None, by="")

    assert bench.broker.log.written_offset == end
