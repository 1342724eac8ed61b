"""Messages that a reader of queues failed at: they come again, or are dead letters, once."""

import json

import numpy as np
import pytest

from apps.engine.broker.failurestate import FailureState
from apps.engine.errors import (
    EngineError,
    InvalidArgument,
    InvalidName,
    LockLost,
    StaleGeneration,
    StoreFull,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.failuretypes import RetryPolicy, Returned
from apps.engine.grouptypes import HeartbeatRequest, QueuePlace, Subscription
from apps.engine.types import ConsumeFrom, GroupSpec, PullStatus, Strategy
from tests.engine.broker.brokerbench import offsets_of
from tests.engine.broker.failurebench import FailureBench

RETRY, DEAD = "%RETRY%g", "%DLQ%g"


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench()


def outcomes(results: object) -> list[str]:
    return [result.outcome.value for result in results]  # type: ignore[attr-defined]


def test_a_message_sent_back_comes_again_in_the_retry_topic_after_its_level(
    bench: FailureBench,
) -> None:
    bench.put(b"x", queue=1, TAGS="a", KEYS="k", UNIQ_KEY="id", mine="1")
    (result,) = bench.send_back(0, queue=1, client_id="c", reason="no stock")
    assert result.outcome is Returned.RETRY
    assert result.due_ms == bench.clock.wall_ms() + 10_000
    at_ms = bench.clock.wall_ms()

    bench.clock.advance(9_999)
    assert bench.deliver() == 0
    bench.clock.advance(1)
    assert bench.deliver() == 1

    (record,) = bench.records(RETRY)
    assert (record.body, record.reconsume_times, record.is_intact) == (b"x", 1, True)
    assert record.message_id == "id"
    assert record.properties.pop("UNIQ_KEY") == "id"
    assert json.loads(record.properties.pop("RETRY_HISTORY")) == [[1, at_ms, "no stock", "c"]]
    assert record.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "mine": "1",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "id",
        "ORIGIN_QUEUE": "1",
        "ORIGIN_OFFSET": "0",
        "TIMER_DELAY_LEVEL": "3",
        "TIMER_OUT_MS": str(result.due_ms),
    }


def test_a_message_fails_seventeen_times_and_is_a_dead_letter_that_tells_of_each(
    bench: FailureBench,
) -> None:
    bench.put(b"x")
    origin_id = bench.records()[0].message_id
    due_ms = 0
    (result,) = bench.send_back(0, reason="failure 1")
    for number in range(16):
        assert result.outcome is Returned.RETRY
        assert result.due_ms is not None
        due_ms += result.due_ms - bench.clock.wall_ms()
        bench.clock.advance(result.due_ms - bench.clock.wall_ms())
        assert bench.deliver() == 1
        (result,) = bench.send_back(number, topic=RETRY, reason=f"failure {number + 2}")

    assert result.outcome is Returned.DEAD_LETTER
    assert due_ms == 17_140_000
    (letter,) = bench.records(DEAD)
    assert letter.reconsume_times == 17
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == letter.properties["RETRY_TOPIC"] == "orders"
    assert letter.properties["DLQ_ORIGIN_MESSAGE_ID"] == origin_id
    assert letter.properties["ORIGIN_OFFSET"] == "0"
    history = json.loads(letter.properties["RETRY_HISTORY"])
    assert [row[0] for row in history] == list(range(1, 18))
    assert history[-1][2] == "failure 17"
    assert "DELAY" not in letter.properties


def test_sending_back_twice_stores_one_copy(bench: FailureBench) -> None:
    bench.put(b"x", b"y")

    assert outcomes(bench.send_back(0, 0)) == ["retry", "already"]
    assert outcomes(bench.send_back(0, 1)) == ["already", "retry"]
    bench.restart()
    assert outcomes(bench.send_back(0)) == ["already"]
    bench.clock.advance(10_000)
    assert bench.deliver() == 2


def test_what_was_committed_is_not_sent_back_any_more(bench: FailureBench) -> None:
    bench.put(b"x", b"y")
    bench.send_back(0)
    bench.commit(1)

    assert outcomes(bench.send_back(0)) == ["already"]
    assert outcomes(bench.send_back(1)) == ["retry"]


def test_what_is_not_there_is_gone(bench: FailureBench) -> None:
    bench.put(b"x")
    bench.publish(deleted="orders")
    bench.publish()

    assert outcomes(bench.send_back(0, 1, 1 << 40)) == ["gone", "gone", "gone"]
    assert outcomes(bench.send_back(-1)) == ["gone"]


def test_a_pull_of_the_group_passes_over_what_it_sent_back(bench: FailureBench) -> None:
    bench.put(b"0", b"1", b"2")
    bench.send_back(1)

    found = bench.pull(0)
    assert (offsets_of(found), found.next_offset) == ([0, 2], 3)
    only = bench.pull(1, most=1)
    assert (only.status, only.next_offset) == (PullStatus.NO_MATCHED_MSG, 2)
    assert offsets_of(bench.pull(0, group="other")) == [0, 1, 2]
    assert offsets_of(bench.pull(0, group="", client_id="")) == [0, 1, 2]
    bench.restart()
    assert offsets_of(bench.pull(0)) == [0, 2]


def test_a_receive_of_the_group_passes_over_what_it_sent_back(bench: FailureBench) -> None:
    bench.put(b"0", b"1", b"2")
    bench.send_back(1)

    (lease,) = bench.receive().leases
    assert len(lease.block) == 2
    bench.broker.settler.ack("g", [f"{lease.token}:0-2"])
    assert bench.committed() == 3


def test_what_is_handed_out_and_sent_back_is_in_its_lease_no_more(bench: FailureBench) -> None:
    bench.put(b"0", b"1")
    (lease,) = bench.receive(invisible_ms=1_000).leases
    bench.send_back(0)

    (result,) = bench.broker.settler.ack("g", [f"{lease.token}:0"])
    assert result.outcome.value == "expired"
    bench.clock.advance(1_000)
    (again,) = bench.receive().leases
    assert len(again.block) == 1


@pytest.mark.parametrize(("what", "topic"), [({"delay_level": -1}, DEAD), ({"delay_ms": 0}, RETRY)])
def test_a_message_goes_where_it_is_asked_for_at_once(
    bench: FailureBench, what: dict[str, int], topic: str
) -> None:
    bench.put(b"x", TAGS="a")
    bench.send_back(0, **what)

    (record,) = bench.records(topic)
    assert (record.body, record.reconsume_times) == (b"x", 1)


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1_000), (0, 10_000), (500, 7_200_000)])
def test_a_level_that_is_asked_for_is_the_delay(
    bench: FailureBench, level: int, delay_ms: int
) -> None:
    bench.put(b"x")

    (result,) = bench.send_back(0, delay_level=level)
    assert result.due_ms == bench.clock.wall_ms() + delay_ms


@pytest.mark.parametrize(
    ("spec", "what", "delay_ms"),
    [
        (GroupSpec(name="g"), {"delay_ms": 1_234}, 1_234),
        (GroupSpec(name="g", retry_policy=RetryPolicy.EXPONENTIAL), {}, 5_000),
        (GroupSpec(name="g", retry_policy=RetryPolicy.CUSTOM, retry_delays_ms=(77,)), {}, 77),
    ],
)
def test_a_delay_that_is_no_level_waits_with_the_timer(
    spec: GroupSpec, what: dict[str, int], delay_ms: int
) -> None:
    bench = FailureBench(spec)
    bench.put(b"x")

    (result,) = bench.send_back(0, **what)
    assert result.due_ms == bench.clock.wall_ms() + delay_ms
    assert bench.broker.delaylist.status().pending == 1
    assert bench.broker.delaylist.status().next_due_ms == result.due_ms


def test_an_ordered_group_never_has_dead_letters_by_itself(bench: FailureBench) -> None:
    bench.publish(GroupSpec(name="g", ordered=True))
    bench.put(b"x")
    bench.send_back(0, delay_ms=0)
    for offset in range(40):
        assert outcomes(bench.send_back(offset, topic=RETRY, delay_ms=0)) == ["retry"]

    assert bench.records(RETRY)[-1].reconsume_times == 41
    assert outcomes(bench.send_back(40, topic=RETRY, delay_level=-1)) == ["dead_letter"]


def test_origins_and_counts_that_a_client_made_up_are_not_believed(bench: FailureBench) -> None:
    bench.put(b"x", RETRY_TOPIC="secret", ORIGIN_OFFSET="77", RETRY_HISTORY="[[16,0,'','']]")
    bench.send_back(0, delay_ms=0)

    (record,) = bench.records(RETRY)
    assert record.properties["RETRY_TOPIC"] == "orders"
    assert record.properties["ORIGIN_OFFSET"] == "0"
    assert [row[0] for row in json.loads(record.properties["RETRY_HISTORY"])] == [1]


def test_a_history_is_cut_and_the_longest_properties_are_lost_before_the_message_is(
    bench: FailureBench,
) -> None:
    bench.put(b"x", TAGS="a", small="1", large="l" * 32_000)
    bench.send_back(0, delay_level=1, reason="r" * 900)
    bench.clock.advance(1_000)
    bench.deliver()
    (record,) = bench.records(RETRY)
    assert record.properties["large"] == "l" * 32_000
    assert len(json.loads(record.properties["RETRY_HISTORY"])[0][2]) in (0, 40)

    bench.put(b"y", small="1", large="l" * 32_700)
    bench.send_back(1, delay_level=1)
    bench.clock.advance(1_000)
    bench.deliver()
    record = bench.records(RETRY)[1]
    assert "large" not in record.properties
    assert record.properties["LOST_PROPERTIES"] == "1"
    assert record.properties["small"] == "1"


def test_a_history_keeps_its_last_attempts_and_any_text(bench: FailureBench) -> None:
    bench.publish(GroupSpec(name="g", retry_max=100))
    bench.put(b"x")
    bench.send_back(0, delay_ms=0, reason="é\x01\x02\n中" + "x" * 300)
    (row,) = json.loads(bench.records(RETRY)[0].properties["RETRY_HISTORY"])
    assert row[2] == "é\x01\x02\n中" + "x" * 195
    for offset in range(40):
        bench.send_back(offset, topic=RETRY, delay_ms=0)

    history = json.loads(bench.records(RETRY)[-1].properties["RETRY_HISTORY"])
    assert [row[0] for row in history] == list(range(10, 42))


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"topic": "nope"}, UnknownTopic),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, UnknownTopic),
        ({"queue": 2}, UnknownQueue),
        ({"group": "a b"}, InvalidName),
        ({"delay_level": -2}, InvalidArgument),
        ({"delay_level": 1, "delay_ms": 1}, InvalidArgument),
        ({"delay_ms": 1 << 60}, InvalidArgument),
        ({"client_id": "x" * 256}, InvalidArgument),
        ({"epoch": 1, "client_id": "c"}, LockLost),
        ({"generation": 1, "client_id": "c"}, StaleGeneration),
    ],
)
def test_a_bad_request_changes_nothing(
    bench: FailureBench, what: dict[str, object], error: type[EngineError]
) -> None:
    bench.put(b"x", b"y")
    end = bench.broker.log.written_offset

    with pytest.raises(error):
        bench.send_back(0, 1, **what)  # type: ignore[arg-type]

    assert bench.broker.log.written_offset == end


def test_a_request_of_none_or_too_many_messages_is_refused(bench: FailureBench) -> None:
    for offsets in ((), range(1_001)):
        with pytest.raises(InvalidArgument):
            bench.send_back(*offsets)


def test_the_holder_of_the_lock_may_send_back_and_a_stale_one_may_not(
    bench: FailureBench,
) -> None:
    bench.publish(GroupSpec(name="g", ordered=True, retry_max=0))
    bench.put(b"x")
    epoch = bench.lock("c")
    with pytest.raises(LockLost):
        bench.send_back(0, client_id="d", epoch=epoch)

    assert outcomes(bench.send_back(0, client_id="c", epoch=epoch)) == ["dead_letter"]


def test_a_full_disk_refuses_and_the_message_stays(bench: FailureBench) -> None:
    bench.put(b"x")
    room = bench.broker.log.room.reserve_bytes
    bench.broker.log.room.reserve_bytes = 1 << 60
    bench.broker.log.room.look()
    with pytest.raises(StoreFull):
        bench.send_back(0)
    assert bench.pull(0).status is PullStatus.FOUND

    bench.broker.log.room.reserve_bytes = room
    bench.broker.log.room.look()
    assert outcomes(bench.send_back(0)) == ["retry"]


@pytest.mark.parametrize("group", ["g" * 127, "%" * 127])
def test_the_longest_group_name_has_retries_and_dead_letters_after_a_recovery(
    bench: FailureBench, group: str
) -> None:
    bench.put(b"x", b"y")
    bench.send_back(0, group=group, delay_level=1)
    bench.send_back(1, group=group, delay_level=-1)
    bench.clock.advance(1_000)
    bench.deliver()
    for lost in ((), ("checkpoint/consumequeue", "checkpoint/consumers")):
        bench.broker.close()
        for path in lost:
            bench.disk.remove(path)
        bench.open()

        assert bench.bodies("%RETRY%" + group) == [b"x"]
        assert bench.bodies("%DLQ%" + group) == [b"y"]
        (lease,) = bench.receive(group=group, topics=("bills",), invisible_ms=10).leases
        assert lease.block.topic == "%RETRY%" + group
        bench.clock.advance(1_000)


def test_a_group_that_begins_at_the_end_still_gets_its_first_retry(bench: FailureBench) -> None:
    bench.publish(GroupSpec(name="g", consume_from=ConsumeFrom.LAST))
    bench.put(b"x")
    bench.send_back(0, delay_ms=0)
    places = [QueuePlace(topic=RETRY, queue=0), QueuePlace(topic="orders", queue=0)]

    begun = bench.broker.begin.offsets("g", places)
    assert [item.queue_offset for item in begun] == [0, 1]


def test_the_retry_topic_is_one_members_whatever_the_strategy(bench: FailureBench) -> None:
    bench.publish(GroupSpec(name="g", strategy=Strategy.CONFIG, fixed={"a": {"orders": (0, 1)}}))
    for client_id in ("a", "b"):
        bench.broker.membership.heartbeat(
            HeartbeatRequest(
                group="g",
                client_id=client_id,
                subscriptions=(Subscription(topic="orders"), Subscription(topic=RETRY)),
            )
        )

    assert bench.broker.assigner.owner("g", RETRY, 0) in ("a", "b")


def test_a_commit_forgets_what_was_sent_back_below_it() -> None:
    bench = FailureBench()
    bench.put(*[b"x"] * 10)
    bench.send_back(1, 3, 7)
    bench.commit(4)

    failures = bench.broker.state.failures
    assert failures.sent_back("g", "orders", 0).tolist() == [7]
    bench.commit(10)
    assert failures.dump()["sent_back"] == []


def test_what_failed_survives_its_dump() -> None:
    bench = FailureBench()
    bench.put(*[b"x"] * 10)
    bench.send_back(1, 2, 7)
    again = FailureState()
    again.load(bench.broker.state.failures.dump())  # type: ignore[arg-type]

    assert np.array_equal(again.sent_back("g", "orders", 0), [1, 2, 7])
