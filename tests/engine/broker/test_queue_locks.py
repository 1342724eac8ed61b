"""The rules of queue locks: whose one is, for how long, and what an old epoch is worth."""

import pytest

from apps.engine.broker.journal import LockReleased
from apps.engine.broker.locktable import LockTable
from apps.engine.errors import (
    InvalidArgument,
    InvalidName,
    LockLost,
    NotPermitted,
    Overloaded,
    StoreFull,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.grouptypes import LockChange, LockRefusal
from apps.engine.limits import PLACES_MAX
from tests.engine.broker.lockbench import GROUP, LEASE_MS, LockBench, place


def test_a_free_lock_is_the_first_client_s_that_asks() -> None:
    bench = LockBench()

    answer = bench.locks.acquire(GROUP, "a", [place(0), place(1)])

    assert [(grant.queue, grant.expires_in_ms) for grant in answer.locked] == [
        (0, LEASE_MS),
        (1, LEASE_MS),
    ]
    assert answer.locked[0].epoch < answer.locked[1].epoch
    assert answer.refused == ()


def test_another_s_lock_is_refused_and_its_holder_named() -> None:
    bench = LockBench()
    bench.acquire("a", 0)

    answer = bench.locks.acquire(GROUP, "b", [place(0), place(1)])

    assert answer.refused == (LockRefusal(topic="orders", queue=0, owner="a"),)
    assert [grant.queue for grant in answer.locked] == [1]


def test_refusals_are_counted_by_queue_until_the_queue_is_gone() -> None:
    bench = LockBench()
    bench.acquire("a", 0)

    for _ in range(3):
        bench.locks.acquire(GROUP, "b", [place(0), place(1)])

    assert bench.locks.refused.total(GROUP, "orders", 0) == 3
    assert bench.locks.refused.total(GROUP, "orders", 1) == 0
    bench.publish("bills")
    bench.locks.forget_expired()
    assert bench.locks.refused.total(GROUP, "orders", 0) == 0


def test_groups_lock_the_same_queue_without_each_other() -> None:
    bench = LockBench()
    bench.acquire("a", 0)

    answer = bench.locks.acquire("other", "b", [place(0)])

    assert len(answer.locked) == 1


def test_a_renewal_keeps_the_epoch_and_is_not_written_down() -> None:
    bench = LockBench()
    first = bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS - 1)
    written = len(bench.journal)

    again = bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS - 1)

    assert again == first
    assert len(bench.journal) == written
    assert bench.holds("a", first[0])


def test_a_lease_that_ended_is_taken_over_with_a_higher_epoch() -> None:
    bench = LockBench()
    old = bench.acquire("a", 0)[0]
    bench.clock.advance(LEASE_MS - 1)
    too_early = bench.acquire("b", 0)
    bench.clock.advance(1)

    new = bench.acquire("b", 0)[0]

    assert too_early == {}
    assert new > old
    assert bench.holds("b", new)
    assert not bench.holds("a", old)


def test_a_client_that_let_its_own_lease_end_comes_back_with_another_epoch() -> None:
    bench = LockBench()
    old = bench.acquire("a", 0)[0]
    bench.clock.advance(LEASE_MS)

    expired_holds = bench.holds("a", old)
    new = bench.acquire("a", 0)[0]

    assert not expired_holds
    assert new > old
    assert not bench.holds("a", old)
    assert bench.lines[-1].change is LockChange.ACQUIRED


def test_a_jump_of_the_wall_clock_ends_no_lease() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    bench.clock.set_wall(bench.clock.wall_ms() + 3_600_000)

    assert bench.acquire("b", 0) == {}
    assert bench.holds("a", epoch)


def test_a_lock_is_given_back_by_its_holder_only() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    refused = bench.locks.release(GROUP, "b", [place(0), place(1)])
    still_holds = bench.holds("a", epoch)
    released = bench.locks.release(GROUP, "a", [place(0), place(0)])

    assert refused.refused == (LockRefusal(topic="orders", queue=0, owner="a"),)
    assert still_holds
    assert (released.locked, released.refused) == ((), ())
    assert not bench.holds("a", epoch)
    assert bench.acquire("b", 0)[0] > epoch


def test_only_the_assigned_client_is_granted() -> None:
    bench = LockBench()
    bench.owners[GROUP, "orders", 0] = "a"

    answer = bench.locks.acquire(GROUP, "b", [place(0), place(1)])

    assert answer.refused == (LockRefusal(topic="orders", queue=0, owner="a"),)
    assert [grant.queue for grant in answer.locked] == [1]
    assert 0 in bench.acquire("a", 0)


def test_a_queue_assigned_to_nobody_is_locked_by_nobody() -> None:
    bench = LockBench()
    bench.owners[GROUP, "orders", 0] = ""

    assert bench.acquire("a", 0) == {}


def test_a_holder_no_longer_assigned_keeps_its_lease_and_cannot_renew_it() -> None:
    bench = LockBench()
    bench.owners[GROUP, "orders", 0] = "a"
    epoch = bench.acquire("a", 0)[0]
    bench.owners[GROUP, "orders", 0] = "b"
    bench.clock.advance(LEASE_MS // 2)

    waiting = bench.locks.acquire(GROUP, "b", [place(0)])
    renewal = bench.locks.acquire(GROUP, "a", [place(0)])
    still_holds = bench.holds("a", epoch)
    bench.clock.advance(LEASE_MS // 2)

    assert waiting.refused[0].owner == "a"
    assert renewal.refused[0].owner == "b"
    assert still_holds
    assert bench.acquire("b", 0)[0] > epoch
    assert bench.lines[-1].change is LockChange.TAKEN_OVER
    assert bench.lines[-1].previous_owner == "a"


def test_a_client_that_leaves_gives_back_all_its_locks_of_the_group() -> None:
    bench = LockBench()
    bench.acquire("a", 0, 1)
    bench.acquire("b", 2)
    bench.locks.acquire("other", "a", [place(0)])

    freed = bench.locks.release_all(GROUP, "a", reason="leave")

    assert sorted(freed) == [("orders", 0), ("orders", 1)]
    assert [(s.group, s.queue, s.owner) for s in bench.locks.states()] == [
        (GROUP, 2, "b"),
        ("other", 0, "a"),
    ]
    assert {line.reason for line in bench.lines[-2:]} == {"leave"}


def test_an_operator_takes_a_lock_from_the_owner_expected() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    line = bench.locks.force(GROUP, place(0), reason="stuck " * 1000, expected_owner="a")

    assert line is not None
    assert line == bench.lines[-1]
    assert (line.change, line.previous_owner, line.epoch) == (LockChange.FORCED, "a", epoch)
    assert len(line.reason) == 1000
    assert not bench.holds("a", epoch)
    assert bench.locks.force(GROUP, place(0), reason="again", expected_owner=None) is None


def test_an_operator_who_expects_another_owner_changes_nothing() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    with pytest.raises(LockLost, match="'a'"):
        bench.locks.force(GROUP, place(0), reason="stuck", expected_owner="b")

    assert bench.holds("a", epoch)


def test_the_fence_wants_the_epoch_and_where_it_is_told_the_client() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    assert bench.holds("a", epoch)
    assert bench.holds("", epoch)
    assert not bench.holds("b", epoch)
    assert not bench.holds("a", epoch - 1)
    assert not bench.holds("a", epoch + 1)
    assert not bench.holds("a", epoch, queue=1)
    with pytest.raises(LockLost, match="epoch"):
        bench.locks.check(GROUP, "orders", 0, client_id="a", epoch=None)


def test_a_lock_is_another_s_only_while_its_lease_runs() -> None:
    bench = LockBench()
    bench.acquire("a", 0)

    assert bench.locks.is_anothers(GROUP, "orders", 0, "b")
    assert bench.locks.is_anothers(GROUP, "orders", 0, "")
    assert not bench.locks.is_anothers(GROUP, "orders", 0, "a")
    assert not bench.locks.is_anothers(GROUP, "orders", 1, "b")
    bench.clock.advance(LEASE_MS)
    assert not bench.locks.is_anothers(GROUP, "orders", 0, "b")


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_after_a_restart_a_lock_has_its_epoch_and_a_whole_lease(from_checkpoint: bool) -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]
    (before,) = bench.locks.states(GROUP)
    bench.clock.advance(LEASE_MS - 1)

    bench.start(from_checkpoint=from_checkpoint)
    bench.clock.advance(LEASE_MS - 1)

    (after,) = bench.locks.states(GROUP)
    assert (after.owner, after.epoch, after.acquired_ms) == ("a", epoch, before.acquired_ms)
    assert after.expires_in_ms == 1
    assert bench.acquire("b", 0) == {}
    assert bench.holds("a", epoch)
    bench.clock.advance(1)
    assert bench.acquire("b", 0)[0] > epoch


def test_epochs_grow_over_a_power_cut_that_takes_a_grant_back() -> None:
    bench = LockBench()
    lost = bench.acquire("a", 0)[0]

    bench.cut_power()

    assert bench.locks.states() == []
    assert bench.acquire("b", 0)[0] > lost
    assert not bench.holds("a", lost)


def test_a_late_release_of_an_epoch_that_is_over_takes_nothing() -> None:
    bench = LockBench()
    old = bench.acquire("a", 0)[0]
    bench.clock.advance(LEASE_MS)
    new = bench.acquire("b", 0)[0]
    lines = len(bench.lines)

    bench.record(LockReleased(group=GROUP, topic="orders", queue=0, epoch=old))

    assert bench.holds("b", new)
    assert len(bench.lines) == lines


def test_a_full_store_grants_what_it_could_write_down() -> None:
    bench = LockBench()
    bench.room = 1

    with pytest.raises(StoreFull):
        bench.locks.acquire(GROUP, "a", [place(0), place(1)])

    assert [(s.queue, s.owner) for s in bench.locks.states(GROUP)] == [(0, "a")]
    bench.room = None
    assert sorted(bench.acquire("a", 0, 1)) == [0, 1]


def test_locks_of_a_topic_that_is_gone_are_dropped_once_they_expired() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.locks.acquire(GROUP, "a", [place(0, "bills")])
    bench.publish("orders")

    while_it_runs = bench.locks.forget_expired()
    bench.clock.advance(LEASE_MS)
    dropped = bench.locks.forget_expired()

    assert (while_it_runs, dropped) == (0, 1)
    assert [state.topic for state in bench.locks.states()] == ["orders"]
    assert bench.lines[-1].reason == "expired"


def test_a_lock_nobody_renews_is_dropped_after_an_hour() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS + 3_600_000 - 1)

    early = bench.locks.forget_expired()
    (shown,) = bench.locks.states(GROUP)
    bench.clock.advance(1)

    assert early == 0
    assert shown.expires_in_ms == -3_600_000 + 1
    assert bench.locks.forget_expired() == 1
    assert len(bench.table) == 0
    assert bench.table.dump() == []


def test_a_table_that_is_full_takes_no_further_lock_and_renews_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.engine.broker.queuelocks.LOCKS_MAX", 2)
    bench = LockBench()
    bench.acquire("a", 0, 1)

    with pytest.raises(Overloaded):
        bench.locks.acquire(GROUP, "a", [place(1), place(2)])

    assert sorted(bench.acquire("a", 0, 1)) == [0, 1]


@pytest.mark.parametrize(
    ("group", "client_id", "places", "error"),
    [
        ("", "a", [place()], InvalidName),
        ("rmq_sys_x", "a", [place()], InvalidName),
        ("g", "", [place()], InvalidArgument),
        ("g", "a\n", [place()], InvalidArgument),
        ("g", "x" * 256, [place()], InvalidArgument),
        ("g", "a", [], InvalidArgument),
        ("g", "a", [place()] * (PLACES_MAX + 1), InvalidArgument),
        ("g", "a", [place(0), place(8)], UnknownQueue),
        ("g", "a", [place(0), place(-1)], UnknownQueue),
        ("g", "a", [place(0), place(0, "nowhere")], UnknownTopic),
        ("g", "a", [place(0), place(0, "blind")], NotPermitted),
        ("off", "a", [place()], NotPermitted),
    ],
)
def test_a_bad_request_locks_nothing(
    group: str, client_id: str, places: list[object], error: type[Exception]
) -> None:
    bench = LockBench()
    bench.publish(disabled="off")

    with pytest.raises(error):
        bench.locks.acquire(group, client_id, places)  # type: ignore[arg-type]

    assert bench.locks.states() == []
    assert bench.journal == []


@pytest.mark.parametrize(
    "row", [[], ["g", "t", 0, "a", 1], ["g", "t", "0", "a", 1, 1], ["g", 5, 0, "a", 1, 1]]
)
def test_a_checkpoint_with_something_else_than_locks_is_not_taken_up(row: list[object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        LockTable().load([row])
