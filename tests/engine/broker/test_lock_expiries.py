"""The end of a lease is noticed, written down once, and told apart from giving a lock back."""

import pytest

from apps.engine.broker.journal import decode_event
from apps.engine.broker.lockevents import LockExpired
from apps.engine.broker.locktable import LockTable
from apps.engine.errors import StoreFull
from apps.engine.grouptypes import LockChange
from tests.engine.broker.lockbench import GROUP, LEASE_MS, LockBench, place


def changes(bench: LockBench) -> list[tuple[str, str, str]]:
    return [(line.change.value, line.previous_owner, line.owner) for line in bench.lines]


def test_a_dead_owner_is_told_of_before_the_one_that_takes_over() -> None:
    bench = LockBench()
    bench.acquire("dead", 0)
    bench.clock.advance(LEASE_MS)
    bench.locks.expiries.note()

    bench.acquire("heir", 0)

    assert changes(bench) == [
        ("acquired", "", "dead"),
        ("expired", "dead", ""),
        ("taken_over", "dead", "heir"),
    ]


def test_the_lock_stays_its_owners_until_somebody_takes_it() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS + 5)

    bench.locks.expiries.note()

    (state,) = bench.locks.states(GROUP)
    assert (state.owner, state.expires_in_ms) == ("a", -5)


def test_an_end_is_noted_once_however_often_it_is_looked_at() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS)

    assert [bench.locks.expiries.note() for _ in range(3)] == [1, 0, 0]
    assert bench.locks.expiries.next_look_ms() is None


def test_a_renewed_lock_is_looked_at_again_when_its_new_lease_ends() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS - 1)
    bench.acquire("a", 0)
    bench.clock.advance(1)

    assert bench.locks.expiries.note() == 0
    assert bench.locks.expiries.next_look_ms() == bench.clock.monotonic_ms() + LEASE_MS - 1
    bench.clock.advance(LEASE_MS - 1)
    assert bench.locks.expiries.note() == 1


def test_one_that_was_given_back_and_taken_anew_has_one_end() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.locks.release_all(GROUP, "a", reason="leave")
    bench.clock.advance(10)
    bench.acquire("b", 0)
    bench.clock.advance(LEASE_MS)

    assert bench.locks.expiries.note() == 1
    assert changes(bench)[-1] == ("expired", "b", "")


def test_a_late_look_says_by_how_much() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS + 12_000)

    bench.locks.expiries.note()

    assert bench.lines[-1].change is LockChange.EXPIRED
    assert bench.lines[-1].reason == "noticed 12000 ms after the lease had ended"


def test_on_a_full_disk_the_end_is_noted_a_second_after_there_is_room() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS)
    bench.room = len(bench.journal)

    with pytest.raises(StoreFull):
        bench.locks.expiries.note()
    bench.room = None

    assert bench.locks.expiries.note() == 0
    bench.clock.advance(1_000)
    assert bench.locks.expiries.note() == 1


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_after_a_restart_what_was_over_is_over_and_not_noted_again(from_checkpoint: bool) -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS)
    bench.locks.expiries.note()

    bench.start(from_checkpoint=from_checkpoint)

    (state,) = bench.locks.states(GROUP)
    assert (state.owner, state.expires_in_ms) == ("a", 0)
    assert bench.locks.expiries.next_look_ms() is None
    assert bench.acquire("b", 0)


def test_after_a_restart_a_lock_that_was_held_has_a_whole_lease_and_then_an_end() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    bench.clock.advance(LEASE_MS - 1)

    bench.start()

    bench.clock.advance(LEASE_MS - 1)
    assert bench.locks.expiries.note() == 0
    bench.clock.advance(1)
    assert bench.locks.expiries.note() == 1


def test_a_lock_of_an_old_checkpoint_is_taken_for_held() -> None:
    table = LockTable()

    table.load([["g", "orders", 0, "a", 7, 1_000]])

    ((_, _, entry),) = table
    assert not entry.is_over


def test_many_ends_are_noted_in_several_looks() -> None:
    bench = LockBench()
    for number in range(8):
        for group in range(126):
            bench.locks.acquire(f"g{group}", "a", [place(number)])
    bench.clock.advance(LEASE_MS)

    assert bench.locks.expiries.note() == 1_000
    assert bench.locks.expiries.next_look_ms() == bench.clock.monotonic_ms()
    assert bench.locks.expiries.note() == 8


def test_an_event_of_another_possession_changes_nothing() -> None:
    bench = LockBench()
    epoch = bench.acquire("a", 0)[0]

    bench.record(LockExpired(group=GROUP, topic="orders", queue=0, epoch=epoch - 1, late_ms=0))

    assert isinstance(decode_event(bench.journal[-1][0]), LockExpired)
    assert changes(bench) == [("acquired", "", "a")]
