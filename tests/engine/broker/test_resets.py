"""Offsets are reset where they are expected, whole or not at all, and readers begin anew."""

import pytest

from apps.engine.caretypes import QueueReset, ResetRequest
from apps.engine.errors import (
    InvalidArgument,
    LockLost,
    OffsetOutOfRange,
    OffsetsMoved,
    StaleGeneration,
    UnknownTopic,
)
from apps.engine.grouptypes import HeartbeatRequest, HeartbeatResult, QueuePlace, Subscription
from apps.engine.types import GroupSpec, Settled
from tests.engine.broker.brokerbench import BrokerBench, offsets_of


@pytest.fixture
def bench() -> BrokerBench:
    return BrokerBench()


def beat(bench: BrokerBench, client_id: str = "a", *, known: int = 0) -> HeartbeatResult:
    request = HeartbeatRequest(
        group="g",
        client_id=client_id,
        subscriptions=(Subscription(topic="orders"),),
        generation=known,
    )
    return bench.broker.membership.answer(bench.broker.membership.heartbeat(request), known)


def test_a_group_goes_on_where_it_is_told_back_or_ahead(bench: BrokerBench) -> None:
    bench.send(9)
    bench.commit(5)

    back = bench.reset(2, expected=5)

    assert [(one.before, one.after) for one in back.queues] == [(5, 2)]
    assert bench.committed() == 2
    bench.reset(9, expected=2, reset_id="s")
    assert bench.committed() == 9


def test_a_queue_nobody_has_read_is_reset_from_its_begin(bench: BrokerBench) -> None:
    bench.send(9)

    (one,) = bench.reset(4, expected=0).queues

    assert (one.before, one.after, bench.committed()) == (0, 4, 4)


def test_a_reset_outlives_a_restart_and_so_does_its_answer(bench: BrokerBench) -> None:
    bench.send(9)
    bench.commit(5)
    bench.reset(2, expected=5)
    bench.commit(3)
    bench.restart()

    again = bench.reset(2, expected=5)

    assert again.is_repeat
    assert [(one.before, one.after) for one in again.queues] == [(5, 2)]
    assert bench.committed() == 3


def test_a_reset_is_refused_whole_where_one_queue_is_elsewhere(bench: BrokerBench) -> None:
    bench.send(9)
    bench.send(9, queue=1)
    bench.commit(5)
    bench.commit(3, queue=1)
    queues = tuple(
        QueueReset(topic="orders", queue=queue, target=0, expected_min=4, expected_max=6)
        for queue in (0, 1)
    )

    with pytest.raises(OffsetsMoved, match="orders/1 is at 3, not 4 to 6"):
        bench.broker.resets.reset(ResetRequest(group="g", reset_id="r", queues=queues))

    assert (bench.committed(), bench.committed(1)) == (5, 3)


def test_a_reset_allows_for_what_is_read_meanwhile_and_no_more(bench: BrokerBench) -> None:
    bench.send(9)
    bench.commit(5)

    with pytest.raises(OffsetsMoved, match="is at 5, not 2 to 4"):
        bench.reset(0, expected=2, slack=2)
    with pytest.raises(OffsetsMoved, match="is at 5, not 6"):
        bench.reset(0, expected=6)

    assert bench.reset(0, expected=2, slack=3).queues[0].before == 5


def test_a_reset_stays_inside_the_queue_and_names_each_once(bench: BrokerBench) -> None:
    bench.send(9)
    one = QueueReset(topic="orders", queue=0, target=0, expected_min=0, expected_max=0)

    with pytest.raises(OffsetOutOfRange, match="0 to 9, not 10"):
        bench.reset(10, expected=0)
    for queues in ((), (one, one)):
        with pytest.raises(InvalidArgument):
            bench.broker.resets.reset(ResetRequest(group="g", reset_id="r", queues=queues))
    with pytest.raises(InvalidArgument, match="id"):
        bench.broker.resets.reset(ResetRequest(group="g", reset_id="", queues=(one,)))


def test_what_was_handed_out_before_a_reset_is_void(bench: BrokerBench) -> None:
    bench.send(3)
    (lease,) = bench.receive().leases

    bench.reset(1, expected=0)

    (result,) = bench.broker.settler.ack("g", [f"{lease.token}:0-2"])
    assert result.outcome is not Settled.OK
    (again,) = bench.receive().leases
    assert (again.attempt, len(again.block)) == (1, 2)


def test_a_lock_is_taken_by_a_reset_and_its_epoch_is_over() -> None:
    bench = BrokerBench(GroupSpec(name="g", ordered=True))
    bench.send(9)
    epoch = bench.lock("a")
    bench.pull(0, epoch=epoch)
    bench.commit(4, client_id="a", epoch=epoch)

    bench.reset(1, expected=4)

    with pytest.raises(LockLost):
        bench.commit(9, client_id="a", epoch=epoch)
    assert offsets_of(bench.pull(1, epoch=bench.lock("a")))[0] == 1


def test_a_member_begins_anew_and_its_late_commits_change_nothing(bench: BrokerBench) -> None:
    bench.send(9)
    first = beat(bench)
    bench.pull(0, generation=first.generation)
    bench.commit(6, client_id="a", generation=first.generation)

    bench.reset(0, expected=6)

    for late in (first.generation, None):
        with pytest.raises(StaleGeneration):
            bench.commit(9, client_id="a", generation=late)
    without = beat(bench, known=first.generation)
    assert without.assignment == {"orders": (1,)}
    with pytest.raises(StaleGeneration):
        bench.commit(9, client_id="a", generation=without.generation)
    again = beat(bench, known=without.generation)
    assert again.assignment == {"orders": (0, 1)}
    assert bench.committed() == 0
    assert len(offsets_of(bench.pull(0, generation=again.generation))) == 9
    bench.commit(9, client_id="a", generation=again.generation)
    assert bench.committed() == 9


def test_a_member_whose_answer_was_lost_is_told_again_that_it_has_lost_the_queue(
    bench: BrokerBench,
) -> None:
    first = beat(bench)
    bench.send(3)
    bench.reset(2, expected=0)

    assert beat(bench, known=first.generation) == beat(bench, known=first.generation)
    assert beat(bench, known=first.generation).assignment == {"orders": (1,)}


def test_a_last_word_without_a_generation_counts_again_after_a_while(bench: BrokerBench) -> None:
    bench.send(9)
    beat(bench)
    bench.reset(2, expected=0)

    with pytest.raises(StaleGeneration):
        bench.commit(4, client_id="a")
    bench.clock.advance(300_000)
    bench.commit(4, client_id="a")

    assert bench.committed() == 4


def test_who_is_no_member_is_not_held_back(bench: BrokerBench) -> None:
    bench.send(9)
    bench.reset(2, expected=0)

    bench.commit(4, client_id="by-hand")

    assert bench.committed() == 4


def test_the_first_message_of_a_time_is_found_in_each_queue_inside_a_batch_too(
    bench: BrokerBench,
) -> None:
    bench.send(3)
    bench.clock.advance(1_000)
    at_ms = bench.clock.wall_ms()
    bench.send(3)
    bench.send(2, queue=1)
    bench.clock.advance(1_000)
    bench.send(3)
    places = [QueuePlace(topic="orders", queue=0), QueuePlace(topic="orders", queue=1)]

    def found(time_ms: int) -> list[int]:
        return bench.broker.resets.offsets_at(places, time_ms)(True)

    assert found(at_ms) == [3, 0]
    assert found(at_ms - 1) == [3, 0]
    assert found(at_ms + 1) == [6, 2]
    assert found(at_ms + 5_000) == [9, 2]
    with pytest.raises(UnknownTopic):
        bench.broker.resets.offsets_at([QueuePlace(topic="nope", queue=0)], 0)
