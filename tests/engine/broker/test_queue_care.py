"""A blocked queue is suspended, its head skipped or parked: exactly that, once, and for good."""

import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from apps.engine.broker.journal import LockReleased, decode_event, encode_event
from apps.engine.broker.lockevents import ReadInOrder
from apps.engine.broker.state import ConsumerState
from apps.engine.caretypes import CareAct
from apps.engine.errors import (
    HeadMoved,
    InvalidArgument,
    LockLost,
    NotOrdered,
    StaleGeneration,
    StoreFull,
    UnknownQueue,
)
from apps.engine.grouptypes import (
    BlockedHead,
    HeartbeatRequest,
    HeartbeatResult,
    LockChange,
    Subscription,
)
from apps.engine.types import GroupSpec, PullStatus, Settled
from tests.engine.broker.brokerbench import offsets_of
from tests.engine.broker.failurebench import FailureBench

ORDERED = GroupSpec(name="g", ordered=True)
DEAD = "%DLQ%g"
SUSPEND, RESUME, SKIP, PARK = CareAct.SUSPEND, CareAct.RESUME, CareAct.SKIP, CareAct.PARK


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench(ORDERED)


def beat(bench: FailureBench, client_id: str = "a", *, known: int = 0) -> HeartbeatResult:
    request = HeartbeatRequest(
        group="g",
        client_id=client_id,
        subscriptions=(Subscription(topic="orders"),),
        ordered=True,
        generation=known,
    )
    return bench.broker.membership.answer(bench.broker.membership.heartbeat(request), known)


# --- skip --------------------------------------------------------------------------------------


def test_a_skip_advances_by_exactly_one_message(bench: FailureBench) -> None:
    bench.send(5)
    epoch = bench.lock("a")
    assert offsets_of(bench.pull(0, epoch=epoch)) == [0, 1, 2, 3, 4]

    result = bench.attend(SKIP, 0)

    assert (result.head, result.is_repeat, bench.committed()) == (1, False, 1)


def test_a_late_commit_of_the_skipped_head_does_no_harm(bench: FailureBench) -> None:
    bench.send(5)
    epoch = bench.lock("a")
    bench.pull(0, epoch=epoch)
    bench.attend(SKIP, 0)

    with pytest.raises(LockLost):
        bench.commit(1, client_id="a", epoch=epoch)
    with pytest.raises(LockLost):
        bench.send_back(0, client_id="a", delay_level=-1, epoch=epoch)

    again = bench.lock("a")
    assert again > epoch
    assert bench.committed() == 1
    assert offsets_of(bench.pull(1, epoch=again)) == [1, 2, 3, 4]
    assert bench.records(DEAD) == []


def test_the_lock_of_a_skipped_queue_is_taken_in_the_same_frame_and_says_why(
    bench: FailureBench,
) -> None:
    bench.send(1)
    bench.lock("a")
    seen: list[object] = []
    bench.broker.recorder.on_event(seen.append)

    bench.attend(SKIP, 0)

    (released,) = [event for event in seen if isinstance(event, LockReleased)]
    assert released.change is LockChange.FORCED
    assert released.reason == "message 0 was skipped"


def test_a_skip_is_refused_where_the_head_has_moved(bench: FailureBench) -> None:
    bench.send(5)
    bench.commit(2)

    with pytest.raises(HeadMoved, match="is 2, not 1"):
        bench.attend(SKIP, 1)
    with pytest.raises(HeadMoved, match="is 2, not 3"):
        bench.attend(PARK, 3)

    assert bench.committed() == 2


def test_a_skip_that_is_repeated_is_answered_as_such_and_changes_nothing(
    bench: FailureBench,
) -> None:
    bench.send(5)
    bench.attend(SKIP, 0)

    again = bench.attend(SKIP, 0)

    assert (again.is_repeat, again.head) == (True, 1)
    with pytest.raises(HeadMoved):
        bench.attend(PARK, 0)


def test_a_skip_is_remembered_over_a_crash_of_the_answer_and_a_restart(
    bench: FailureBench,
) -> None:
    bench.send(5)
    bench.attend(SKIP, 0)

    bench.restart()

    assert bench.committed() == 1
    assert bench.attend(SKIP, 0).is_repeat


def test_a_head_that_is_to_be_read_again_is_skipped_anew(bench: FailureBench) -> None:
    bench.send(5)
    bench.attend(SKIP, 0)
    bench.commit(0)

    assert not bench.attend(SKIP, 0).is_repeat
    assert bench.committed() == 1


def test_nothing_is_skipped_at_the_end_of_a_queue(bench: FailureBench) -> None:
    bench.send(2)
    bench.commit(2)

    with pytest.raises(HeadMoved, match="has no message at 2"):
        bench.attend(SKIP, 2)


def test_a_skip_of_a_received_head_leaves_the_rest_of_its_lease(bench: FailureBench) -> None:
    bench.send(3)
    (lease,) = bench.receive(ordered=True).leases
    assert len(lease.block) == 3

    bench.attend(SKIP, 0)

    (entry,) = bench.broker.state.leases
    assert entry.offsets.tolist() == [1, 2]
    assert bench.committed() == 1


def test_a_received_head_is_not_delivered_again_after_a_skip(bench: FailureBench) -> None:
    bench.send(2)
    bench.receive(ordered=True, most=1, invisible_ms=1_000)
    bench.clock.advance(1_000)

    bench.attend(SKIP, 0)

    (lease,) = bench.receive(ordered=True, most=1).leases
    assert lease.attempt == 1
    assert bench.broker.state.progress["g", "orders", 0].floor == 1


def test_a_group_that_reads_in_no_order_has_no_head(bench: FailureBench) -> None:
    bench.publish()
    bench.send(3)

    for act in (SKIP, PARK):
        with pytest.raises(NotOrdered, match="in order"):
            bench.attend(act, 0)

    bench.receive(ordered=True, most=1)
    assert bench.attend(SKIP, 0).head == 1


def test_a_group_that_only_receives_in_order_is_known_after_a_restart(bench: FailureBench) -> None:
    bench.publish()
    bench.send(3)
    bench.receive(ordered=True, most=1, invisible_ms=1_000)
    bench.restart()
    bench.clock.advance(1_000)

    assert bench.attend(SKIP, 0).head == 1


def test_it_is_known_from_the_journal_as_well(bench: FailureBench) -> None:
    events = [decode_event(encode_event(ReadInOrder(group=name))) for name in ("g", "größer")]
    state = ConsumerState(bench.clock)

    for number, event in enumerate(events):
        state.apply(event, number=number, at_ms=0)

    assert list(state.in_order) == ["g", "größer"]


def test_that_a_group_receives_in_order_is_written_down_once(bench: FailureBench) -> None:
    bench.publish()
    bench.send(3)
    written = []
    bench.broker.recorder.on_event(written.append)

    for _ in range(3):
        bench.receive(ordered=True, most=1, invisible_ms=1_000)
        bench.clock.advance(1_000)

    assert [type(event).__name__ for event in written].count("ReadInOrder") == 1


def test_what_was_sent_back_is_no_head_any_more(bench: FailureBench) -> None:
    bench.send(3)
    epoch = bench.lock("a")
    bench.pull(0, epoch=epoch)
    bench.send_back(0, client_id="a", delay_level=-1, epoch=epoch)
    assert len(bench.records(DEAD)) == 1

    with pytest.raises(HeadMoved, match="is 1, not 0"):
        bench.attend(PARK, 0)
    bench.attend(SKIP, 1)

    assert bench.committed() == 2
    assert len(bench.records(DEAD)) == 1


def test_a_skip_and_a_park_need_to_know_the_head(bench: FailureBench) -> None:
    with pytest.raises(InvalidArgument, match="needs its expected_offset"):
        bench.attend(SKIP)
    with pytest.raises(UnknownQueue):
        bench.attend(SKIP, 0, queue=7)
    with pytest.raises(InvalidArgument, match="reason"):
        bench.attend(SKIP, 0, reason="x" * 1_001)


# --- park --------------------------------------------------------------------------------------


def test_a_parked_head_is_a_dead_letter_with_its_reason_and_who(bench: FailureBench) -> None:
    bench.put(b"bad", b"good", KEYS="k")
    at_ms = bench.clock.wall_ms()

    result = bench.attend(PARK, 0)

    (letter,) = bench.records(DEAD)
    assert (letter.body, letter.properties["DLQ_ORIGIN_TOPIC"]) == (b"bad", "orders")
    assert json.loads(letter.properties["RETRY_HISTORY"]) == [[1, at_ms, "parked: poison", "ann"]]
    assert (result.head, result.dead_letter_offset) == (1, 0)
    assert bench.committed() == 1


def test_a_parked_head_keeps_the_attempts_of_its_lease(bench: FailureBench) -> None:
    bench.put(b"bad")
    bench.receive(ordered=True, invisible_ms=1_000, client_id="c")
    bench.clock.advance(1_000)
    bench.broker.expire()

    bench.attend(PARK, 0)

    (letter,) = bench.records(DEAD)
    reasons = [row[2] for row in json.loads(letter.properties["RETRY_HISTORY"])]
    assert reasons == ["not acknowledged in time", "parked: poison"]


def test_a_parked_head_keeps_what_its_reader_said_of_it(bench: FailureBench) -> None:
    bench.put(b"bad")
    head = BlockedHead(topic="orders", queue=0, queue_offset=0, attempts=9, reason="no stock")
    bench.join("a", blocked=(head, replace(head, queue=1, attempts=70)))

    bench.attend(PARK, 0)

    (letter,) = bench.records(DEAD)
    rows = json.loads(letter.properties["RETRY_HISTORY"])
    assert [(number, reason, who) for number, _, reason, who in rows] == [
        (9, "no stock", "a"),
        (9, "parked: poison", "ann"),
    ]
    assert letter.reconsume_times == 9


def test_a_park_that_is_repeated_makes_no_second_dead_letter(bench: FailureBench) -> None:
    bench.put(b"bad")
    bench.attend(PARK, 0)

    again = bench.attend(PARK, 0)

    assert (again.is_repeat, again.dead_letter_offset) == (True, None)
    assert len(bench.records(DEAD)) == 1


def test_a_park_without_room_changes_nothing(bench: FailureBench) -> None:
    bench.put(b"bad")
    bench.disk.capacity_bytes = 0

    with suppress(StoreFull):
        for _ in range(1_000):
            bench.put(b"x" * 4_000)
    with pytest.raises(StoreFull):
        bench.attend(PARK, 0)

    assert ("g", "orders", 0) not in bench.broker.state.progress


# --- suspend and resume ------------------------------------------------------------------------


def test_a_suspended_queue_gives_its_group_nothing_and_others_everything(
    bench: FailureBench,
) -> None:
    bench.send(3)
    epoch = bench.lock("a")

    result = bench.attend(SUSPEND)

    assert result.suspension is not None
    assert (result.suspension.by, result.suspension.reason) == ("ann", "poison")
    pulled = bench.pull(0, epoch=epoch)
    assert (pulled.status, pulled.next_offset) == (PullStatus.NO_NEW_MSG, 0)
    assert bench.receive(ordered=True).blocked == (("orders", 0),)
    assert offsets_of(bench.pull(0, group="h")) == [0, 1, 2]
    assert offsets_of(bench.pull(0, group="")) == [0, 1, 2]


def test_a_suspension_outlives_a_restart_and_ends_with_a_resume(bench: FailureBench) -> None:
    bench.send(3)
    bench.attend(SUSPEND)
    bench.restart()
    assert bench.receive(ordered=True).leases == ()

    resumed = bench.attend(RESUME)

    assert resumed.suspension is None
    assert len(bench.receive(ordered=True).leases) == 1
    bench.restart()
    assert bench.broker.state.operators.suspensions == {}


def test_what_is_in_flight_may_be_settled_while_its_queue_is_suspended(
    bench: FailureBench,
) -> None:
    bench.send(3)
    epoch = bench.lock("a")
    bench.pull(0, epoch=epoch)
    bench.attend(SUSPEND)

    bench.commit(2, client_id="a", epoch=epoch)

    assert bench.committed() == 2


def test_suspending_twice_is_a_repeat_that_keeps_the_first_reason(bench: FailureBench) -> None:
    bench.attend(SUSPEND)

    again = bench.attend(SUSPEND, reason="another")

    assert again.is_repeat
    assert again.suspension is not None
    assert again.suspension.reason == "poison"
    assert bench.attend(RESUME).is_repeat is False
    assert bench.attend(RESUME).is_repeat is True


def test_a_suspension_may_be_bound_to_the_head(bench: FailureBench) -> None:
    bench.send(3)
    bench.commit(1)

    with pytest.raises(HeadMoved):
        bench.attend(SUSPEND, 0)
    assert bench.attend(SUSPEND, 1).head == 1


def test_the_backlog_shows_a_suspended_queue_also_where_nobody_has_read_it(
    bench: FailureBench,
) -> None:
    bench.attend(SUSPEND, queue=1)

    rows = {row.queue: row.suspension for row in bench.broker.backlog.rows("g")}

    assert rows[0] is None
    assert rows[1] is not None
    assert rows[1].by == "ann"


def test_a_lock_is_listed_with_the_suspension_of_its_queue(bench: FailureBench) -> None:
    bench.lock("a")
    bench.lock("a", queue=1)
    bench.attend(SUSPEND)

    states = {lock.queue: lock.suspension for lock in bench.broker.locks.states("g")}

    assert states[0] is not None
    assert (states[0].by, states[1]) == ("ann", None)


# --- what members are told ---------------------------------------------------------------------


def test_a_member_is_told_that_a_suspended_queue_is_not_its_to_read(bench: FailureBench) -> None:
    first = beat(bench)
    assert first.assignment == {"orders": (0, 1)}

    bench.attend(SUSPEND)

    told = beat(bench, known=first.generation)
    assert told.generation > first.generation
    assert told.assignment == {"orders": (1,)}
    bench.attend(RESUME)
    assert beat(bench, known=told.generation).assignment == {"orders": (0, 1)}


def test_a_member_is_told_of_a_skip_in_two_steps_so_that_it_begins_anew(
    bench: FailureBench,
) -> None:
    bench.send(3)
    first = beat(bench)
    bench.attend(SKIP, 0)

    without = beat(bench, known=first.generation)
    assert without.assignment == {"orders": (1,)}
    again = beat(bench, known=without.generation)
    assert again.assignment == {"orders": (0, 1)}
    assert first.generation < without.generation < again.generation
    assert beat(bench, known=again.generation) == again
    assert beat(bench, "b").generation > again.generation


def test_what_a_member_says_under_a_generation_from_before_is_refused(
    bench: FailureBench,
) -> None:
    bench.publish()
    bench.send(3)
    first = beat(bench)
    bench.lock("a")
    bench.attend(SKIP, 0)
    without = beat(bench, known=first.generation)
    again = beat(bench, known=without.generation)

    for late in (first.generation, without.generation, None):
        with pytest.raises(StaleGeneration, match="begin anew"):
            bench.commit(3, client_id="a", generation=late)
    with pytest.raises(StaleGeneration):
        bench.pull(0, generation=first.generation)

    bench.commit(3, client_id="a", generation=again.generation)
    assert bench.committed() == 3


def test_a_skip_its_fence_and_the_next_generation_are_one_frame(bench: FailureBench) -> None:
    bench.send(3)
    first = beat(bench)
    bench.sync()
    synced = bench.disk.crash_image(random.Random(0), "nothing")
    bench.attend(SKIP, 0)

    bench.restart()
    without = beat(bench, known=first.generation)
    again = beat(bench, known=without.generation)
    assert without.assignment == {"orders": (1,)}
    assert again.assignment == {"orders": (0, 1)}
    assert again.generation > without.generation
    bench.disk = synced
    bench.open()
    assert beat(bench, known=first.generation).assignment == {"orders": (0, 1)}


def test_acknowledging_what_was_skipped_settles_nothing_else(bench: FailureBench) -> None:
    bench.send(2)
    (lease,) = bench.receive(ordered=True, most=1).leases
    handle = f"{lease.token}:0"
    bench.attend(SKIP, 0)

    (result,) = bench.broker.settler.ack("g", [handle])

    assert result.outcome is not Settled.OK
    assert bench.committed() == 1
