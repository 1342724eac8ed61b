"""The access lock: what a rebalance delivers twice with and without it, and who waits how long."""

from collections import Counter

import pytest

from apps.engine.broker.accesslock import Access, AccessLocks
from apps.engine.errors import StaleGeneration
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import GroupSpec, MessageModel, PullRequest, PullStatus
from tests.engine.broker.brokerbench import BrokerBench, offsets_of

HOLD_MS = 10_000
LOCKING = GroupSpec(name="g", access_lock_ms=HOLD_MS)
PLAIN = GroupSpec(name="g")
WAITING = PullStatus.NO_NEW_MSG


class Worker:
    """A consumer of queue 0 that pulls some, works through them one by one and commits at last."""

    def __init__(self, bench: BrokerBench, client_id: str) -> None:
        """Join the group and begin where it is."""
        self.bench = bench
        self.client_id = client_id
        self.generation = bench.join(client_id)
        progress = bench.broker.state.progress.get(("g", "orders", 0))
        self.next_offset = 0 if progress is None else progress.floor
        self.undone: list[int] = []
        self.done: list[int] = []

    def pull(self, most: int) -> PullStatus:
        """Pull from where it is, and go where the answer says."""
        result = self.bench.pull(
            self.next_offset,
            client_id=self.client_id,
            generation=self.generation,
            most=most,
        )
        self.undone += offsets_of(result)
        self.next_offset = result.next_offset
        return result.status

    def work(self, count: int) -> None:
        """Do the work of the first messages it has."""
        self.done += self.undone[:count]
        del self.undone[:count]

    def commit(self) -> None:
        """Commit what is done."""
        if self.done:
            self.bench.commit(
                self.done[-1] + 1, client_id=self.client_id, generation=self.generation
            )


def rebalanced(spec: GroupSpec) -> tuple[list[int], int]:
    """Move a queue to another member amid the work; return what was done, and how long it waited.

    The old owner has 60 messages, of which it has done 25 and committed 20, when the new one comes
    that the queue is given to. It is not told before it has done all of them.
    """
    bench = BrokerBench(spec)
    bench.send(100)
    old = Worker(bench, "b")
    assert old.pull(60) is PullStatus.FOUND
    old.work(20)
    old.commit()
    old.work(5)
    new = Worker(bench, "a")
    assert bench.owner() == "a"
    waited = 0
    while new.pull(1000) is not PullStatus.FOUND:
        waited += 1
        assert waited < 50
        if old.undone:
            old.work(5)
            if not old.undone:
                old.commit()
    new.work(1000)
    new.commit()
    old.work(1000)
    assert bench.committed() == 100
    return old.done + new.done, waited


def test_the_access_lock_removes_the_duplicates_of_a_rebalance() -> None:
    without, _ = rebalanced(PLAIN)
    with_it, waited = rebalanced(LOCKING)

    assert sorted(set(without)) == sorted(set(with_it)) == list(range(100))
    assert sum(count - 1 for count in Counter(without).values()) == 40
    assert sum(count - 1 for count in Counter(with_it).values()) == 0
    assert waited > 5


def test_the_new_owner_waits_and_then_goes_on_where_the_old_one_ended() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    old_generation = bench.join("b")
    bench.pull(0, client_id="b", generation=old_generation, most=30)
    generation = bench.join("a")

    waiting = bench.pull(0, generation=generation)
    bench.commit(30, client_id="b", generation=old_generation)
    corrected = bench.pull(0, generation=generation)
    going_on = bench.pull(corrected.next_offset, generation=generation)

    assert (waiting.status, waiting.next_offset, len(waiting.block)) == (WAITING, 0, 0)
    assert (corrected.status, corrected.next_offset, len(corrected.block)) == (WAITING, 30, 0)
    assert (waiting.min_offset, waiting.max_offset) == (0, 50)
    assert offsets_of(going_on) == list(range(30, 50))


def test_the_old_owner_goes_on_until_the_new_one_asks_and_drains_from_then_on() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    old = bench.join("b")
    bench.pull(0, client_id="b", generation=old, most=10)
    new = bench.join("a")

    before = bench.pull(10, client_id="b", generation=old, most=10)
    bench.pull(0, generation=new)
    after = bench.pull(20, client_id="b", generation=old, most=10)

    assert offsets_of(before) == list(range(10, 20))
    assert (after.status, after.next_offset) == (WAITING, 20)


def test_the_old_owner_is_stale_once_the_queue_is_handed_over() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    old = bench.join("b")
    bench.pull(0, client_id="b", generation=old, most=10)
    new = bench.join("a")
    bench.commit(10, client_id="b", generation=old)
    bench.pull(10, generation=new)

    with pytest.raises(StaleGeneration):
        bench.pull(10, client_id="b", generation=old)
    with pytest.raises(StaleGeneration):
        bench.commit(20, client_id="b", generation=old)
    assert bench.committed() == 10


def test_an_owner_that_gets_its_queue_back_is_not_held_up_by_who_waited() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    old = bench.join("b")
    bench.pull(0, client_id="b", generation=old, most=10)
    bench.pull(0, generation=bench.join("a"))
    bench.broker.membership.leave("g", "a")

    back = bench.pull(10, client_id="b", generation=bench.join("b"), most=5)

    assert offsets_of(back) == list(range(10, 15))


def test_a_silent_owner_loses_access_when_its_time_is_over() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    bench.pull(0, client_id="b", generation=bench.join("b"), most=10)
    new = bench.join("a")
    bench.clock.advance(HOLD_MS - 1)

    too_early = bench.pull(0, generation=new)
    bench.clock.advance(1)
    in_time = bench.pull(0, generation=new, most=5)

    assert too_early.status is WAITING
    assert offsets_of(in_time) == list(range(5))


def test_an_owner_whose_pull_is_parked_counts_as_seen() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(10)
    old = bench.join("b")
    bench.pull(0, client_id="b", generation=old)
    new = bench.join("a")
    parked = PullRequest(topic="orders", queue=0, queue_offset=10, group="g", client_id="b")

    with bench.broker.access.waiting(parked):
        bench.clock.advance(10 * HOLD_MS)
        during = bench.pull(0, generation=new)
    bench.clock.advance(HOLD_MS - 1)
    just_after = bench.pull(0, generation=new)
    bench.clock.advance(1)

    assert during.status is just_after.status is WAITING
    assert offsets_of(bench.pull(0, generation=new)) == list(range(10))


def test_an_owner_that_leaves_loses_access_at_once() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    bench.pull(0, client_id="b", generation=bench.join("b"), most=10)
    new = bench.join("a")
    waiting = bench.pull(0, generation=new)

    bench.broker.membership.leave("g", "b")

    assert waiting.status is WAITING
    assert offsets_of(bench.pull(0, generation=new, most=3)) == [0, 1, 2]


def test_an_owner_that_expires_loses_access_at_once() -> None:
    bench = BrokerBench(GroupSpec(name="g", access_lock_ms=3_600_000))
    bench.send(50)
    bench.pull(0, client_id="b", generation=bench.join("b"), most=10)
    bench.join("a")
    bench.clock.advance(29_000)
    new = bench.join("a")
    waiting = bench.pull(0, generation=new)
    bench.clock.advance(1_000)

    bench.broker.membership.look()

    assert waiting.status is WAITING
    assert offsets_of(bench.pull(0, generation=new, most=3)) == [0, 1, 2]


def test_whoever_is_neither_owner_nor_has_access_is_stale() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(5)
    generation = bench.join("a")
    bench.pull(0, generation=generation)

    with pytest.raises(StaleGeneration):
        bench.pull(0, client_id="stranger", generation=generation)


def test_without_a_generation_a_stranger_waits_for_the_owner() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(5)
    bench.pull(0, generation=bench.join("a"))

    result = bench.pull(0, client_id="stranger")

    assert (result.status, result.next_offset) == (WAITING, 0)


def test_an_operator_that_sets_the_offset_back_leaves_nothing_to_drain() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(50)
    bench.pull(0, client_id="b", generation=bench.join("b"), most=30)
    new = bench.join("a")
    bench.commit(5)

    corrected = bench.pull(0, generation=new)

    assert (corrected.status, corrected.next_offset) == (WAITING, 5)
    assert offsets_of(bench.pull(5, generation=new, most=2)) == [5, 6]


def test_members_that_are_broadcast_to_do_not_wait_for_each_other() -> None:
    bench = BrokerBench(LOCKING)
    bench.send(5)
    generations = [bench.join(name, model=MessageModel.BROADCASTING) for name in ("a", "b")]

    results = [
        bench.pull(0, client_id=name, generation=generation)
        for name, generation in zip(("a", "b"), generations, strict=True)
    ]

    assert [offsets_of(result) for result in results] == [[0, 1, 2, 3, 4]] * 2


def test_without_the_access_lock_the_old_owner_is_stale_at_once_and_the_new_one_reads() -> None:
    bench = BrokerBench(PLAIN)
    bench.send(50)
    old = bench.join("b")
    bench.pull(0, client_id="b", generation=old, most=30)
    new = bench.join("a")

    with pytest.raises(StaleGeneration):
        bench.pull(30, client_id="b", generation=old)
    assert offsets_of(bench.pull(0, generation=new, most=2)) == [0, 1]
    assert bench.broker.access.delivered("g", "orders", 0) == 30


def test_the_longest_silent_reader_is_forgotten_above_the_limit() -> None:
    access = AccessLocks(ManualClock(), progress={}, readers_max=2)
    for queue in (0, 1, 0, 2):
        access.pulled("g", "t", queue, "c", 10 + queue)

    assert sorted(access.queues()) == [("g", "t", 0), ("g", "t", 2)]
    assert access.delivered("g", "t", 1) is None
    assert access.leave("g", "c") == [("t", 0), ("t", 2)]
    assert not access.has_access("g", "t", 0, "c")


def test_a_pull_parked_before_a_handover_does_not_count_for_who_came_after() -> None:
    clock = ManualClock()
    access = AccessLocks(clock, progress={}, readers_max=10)
    parked = PullRequest(topic="t", queue=0, queue_offset=0, group="g", client_id="a")

    def enter(client_id: str) -> Access:
        return access.enter("g", "t", 0, client_id, is_owner=True, hold_ms=HOLD_MS)

    first = enter("a")
    with access.waiting(parked):
        second = enter("b")
        third = enter("a")
        access.pulled("g", "t", 0, "a", 5)
    clock.advance(HOLD_MS - 1)
    waits = enter("b")
    clock.advance(1)

    assert (first, second, third) == (Access.GRANTED, Access.HANDED_OVER, Access.HANDED_OVER)
    assert (waits, enter("b")) == (Access.WAITS, Access.HANDED_OVER)
