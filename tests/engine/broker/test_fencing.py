"""What a stale client may still do: nothing that moves anything."""

import pytest

from apps.engine.errors import (
    InvalidArgument,
    InvalidName,
    LockLost,
    NotPermitted,
    StaleGeneration,
)
from apps.engine.grouptypes import QueuePlace
from apps.engine.types import GroupSpec, MessageModel, OffsetCommit, Settled
from tests.engine.broker.brokerbench import BrokerBench, offsets_of
from tests.engine.broker.lockbench import LEASE_MS

ORDERED = GroupSpec(name="g", ordered=True)


def test_without_group_or_fence_anybody_reads() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)

    assert offsets_of(bench.pull(0, group="", client_id="")) == [0, 1, 2]


def test_an_ordered_group_reads_with_the_lock_only() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    epoch = bench.lock("a")

    with pytest.raises(LockLost):
        bench.pull(0)
    with pytest.raises(LockLost):
        bench.pull(0, client_id="b", epoch=epoch)
    with pytest.raises(LockLost):
        bench.pull(0, epoch=epoch - 1)
    assert offsets_of(bench.pull(0, epoch=epoch)) == [0, 1, 2]


def test_an_epoch_that_is_given_must_be_good_in_any_group() -> None:
    bench = BrokerBench()
    bench.send(3)

    with pytest.raises(LockLost):
        bench.pull(0, epoch=1)


def test_a_paused_client_finds_its_pull_commit_and_ack_refused() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    stale = bench.lock("a")
    (lease,) = bench.receive().leases
    bench.clock.advance(LEASE_MS)
    current = bench.lock("b")

    with pytest.raises(LockLost):
        bench.pull(0, epoch=stale)
    with pytest.raises(LockLost):
        bench.commit(3, client_id="a", epoch=stale)
    with pytest.raises(LockLost):
        bench.broker.fencing.check_settle("g", [f"{lease.token}:0"], epoch=stale)

    assert bench.committed() == 0
    bench.commit(2, client_id="b", epoch=current)
    assert bench.committed() == 2


def test_a_lease_that_ended_fences_even_while_nobody_took_the_lock() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    epoch = bench.lock("a")
    bench.clock.advance(LEASE_MS)

    with pytest.raises(LockLost, match="expired"):
        bench.pull(0, epoch=epoch)
    with pytest.raises(LockLost, match="expired"):
        bench.commit(1, client_id="a", epoch=epoch)


def test_one_stale_epoch_refuses_all_commits() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3, queue=0)
    bench.send(3, queue=1)
    epoch = bench.lock("a", 0)
    commits = [
        OffsetCommit(topic="orders", queue=queue, queue_offset=1, epoch=epoch) for queue in (0, 1)
    ]

    bench.broker.fencing.check_commit("g", commits[:1], client_id="a", generation=None)
    with pytest.raises(LockLost):
        bench.broker.fencing.check_commit("g", commits, client_id="a", generation=None)
    with pytest.raises(LockLost):
        bench.commit(1, client_id="a", queue=0)

    assert bench.broker.state.progress == {}


def test_an_operator_commits_for_an_ordered_group_without_the_lock() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    bench.lock("a")

    bench.commit(2)

    assert bench.committed() == 2
    with pytest.raises(LockLost):
        bench.commit(1, epoch=1)


def test_a_generation_is_good_while_the_queue_is_the_client_s() -> None:
    bench = BrokerBench()
    bench.send(10)
    first = bench.join("b")
    bench.pull(0, client_id="b", generation=first)
    bench.join("c")
    assert (bench.owner(0), bench.owner(1)) == ("b", "c")

    bench.pull(0, client_id="b", generation=first)
    bench.commit(4, client_id="b", generation=first)
    with pytest.raises(StaleGeneration):
        bench.pull(0, client_id="b", generation=first, queue=1)
    with pytest.raises(StaleGeneration):
        bench.commit(0, client_id="b", generation=first, queue=1)


def test_a_client_that_expired_is_stale_though_its_queue_is_nobody_s() -> None:
    bench = BrokerBench()
    bench.send(3)
    generation = bench.join("a")
    bench.broker.membership.leave("g", "a")

    with pytest.raises(StaleGeneration):
        bench.pull(0, generation=generation)


def test_members_that_are_broadcast_to_need_neither_assignment_nor_lock() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    generation = bench.join("a", model=MessageModel.BROADCASTING)

    assert offsets_of(bench.pull(0, generation=generation)) == [0, 1, 2]
    assert bench.broker.access.delivered("g", "orders", 0) is None


def test_a_disabled_group_reads_nothing_and_may_finish_what_it_has() -> None:
    bench = BrokerBench(GroupSpec(name="g"))
    bench.send(4)
    generation = bench.join("a")
    bench.pull(0, generation=generation, most=2)
    (lease,) = bench.receive(client_id="b", most=1).leases
    bench.publish(GroupSpec(name="g", enabled=False))

    for refused in (
        lambda: bench.pull(2, generation=generation),
        lambda: bench.pull(2, client_id=""),
        bench.receive,
        lambda: bench.lock("a"),
        lambda: bench.broker.begin.offsets("g", [QueuePlace(topic="orders", queue=1)]),
    ):
        with pytest.raises(NotPermitted):
            refused()
    bench.broker.fencing.check_settle("g", [f"{lease.token}:0"], epoch=None)
    (settled,) = bench.broker.settler.ack("g", [f"{lease.token}:0"])
    bench.commit(2, client_id="a", generation=generation)

    assert settled.outcome is Settled.OK
    assert bench.committed() == 2


def test_a_settlement_needs_the_epoch_it_gives_of_every_queue() -> None:
    bench = BrokerBench()
    bench.send(2, queue=0)
    bench.send(2, queue=1)
    handles = {lease.block.queue: f"{lease.token}:0-1" for lease in bench.receive().leases}
    epoch = bench.lock("a", 0)

    bench.broker.fencing.check_settle("g", [handles[0]], epoch=epoch)
    with pytest.raises(LockLost):
        bench.broker.fencing.check_settle("g", [handles[0], handles[1]], epoch=epoch)
    with pytest.raises(LockLost):
        bench.broker.fencing.check_settle("g", [handles[0]], epoch=epoch + 1)
    with pytest.raises(InvalidName):
        bench.broker.fencing.check_settle("", [], epoch=epoch)


def test_a_settlement_sent_twice_is_answered_as_the_first_time() -> None:
    bench = BrokerBench()
    bench.send(2)
    epoch = bench.lock("a")
    (lease,) = bench.receive().leases
    handles = [f"{lease.token}:0-1"]
    bench.broker.fencing.check_settle("g", handles, epoch=epoch)
    bench.broker.settler.ack("g", handles)
    bench.clock.advance(LEASE_MS)

    bench.broker.fencing.check_settle("g", handles, epoch=epoch)
    (again,) = bench.broker.settler.ack("g", handles)

    assert again.outcome is Settled.OK


def test_handles_of_nothing_prove_nothing() -> None:
    bench = BrokerBench()

    bench.broker.fencing.check_settle("g", ["nonsense", "1.1-00000000:1"], epoch=7)

    assert bench.broker.settler.ack("g", ["nonsense"])[0].outcome is Settled.INVALID


def test_a_receive_passes_over_queues_that_another_client_has_locked() -> None:
    bench = BrokerBench()
    bench.send(2, queue=0)
    bench.send(2, queue=1)
    bench.lock("a", 0)

    of_another = bench.receive(client_id="b")
    of_nobody = bench.receive(client_id="")
    of_the_holder = bench.receive(client_id="a")

    assert [lease.block.queue for lease in of_another.leases] == [1]
    assert of_another.blocked == (("orders", 0),)
    assert (of_nobody.leases, of_nobody.blocked) == ((), (("orders", 0),))
    assert [lease.block.queue for lease in of_the_holder.leases] == [0]
    assert of_the_holder.blocked == ()


def test_an_expired_lock_holds_no_receive_back() -> None:
    bench = BrokerBench()
    bench.send(2)
    bench.lock("a")
    bench.clock.advance(LEASE_MS)

    result = bench.receive(client_id="b")

    assert len(result.leases) == 1
    assert result.blocked == ()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"group": "", "epoch": 1}, InvalidArgument),
        ({"group": "", "generation": 1}, InvalidArgument),
        ({"client_id": "", "generation": 1}, InvalidArgument),
        ({"client_id": "x" * 256}, InvalidArgument),
        ({"client_id": "a\0"}, InvalidArgument),
        ({"group": "a b"}, InvalidName),
        ({"group": "rmq_sys_x"}, InvalidName),
    ],
)
def test_a_bad_pull_is_told_apart_from_a_stale_one(
    asked: dict[str, object], error: type[Exception]
) -> None:
    bench = BrokerBench()

    with pytest.raises(error):
        bench.pull(0, **asked)


def test_a_commit_with_a_generation_names_its_client() -> None:
    bench = BrokerBench()

    with pytest.raises(InvalidArgument):
        bench.commit(0, generation=1)


def test_what_a_member_commits_late_or_twice_moves_nothing_back() -> None:
    bench = BrokerBench()
    bench.send(10)
    bench.commit(6, client_id="a")
    written = bench.broker.queues.queue("rmq_sys_consumer_state", 0).end

    bench.commit(4, client_id="a")
    bench.commit(6, client_id="b")

    assert bench.committed() == 6
    assert bench.broker.queues.queue("rmq_sys_consumer_state", 0).end == written
    bench.commit(4)
    assert bench.committed() == 4


def test_the_first_commit_of_a_member_begins_the_group_even_at_the_start() -> None:
    bench = BrokerBench()
    bench.send(3)

    bench.commit(0, client_id="a")

    assert bench.committed() == 0


def test_a_restart_keeps_the_lock_and_its_epoch_and_a_higher_one_comes_next() -> None:
    bench = BrokerBench(ORDERED)
    bench.send(3)
    epoch = bench.lock("a")
    bench.restart()
    kept = offsets_of(bench.pull(0, epoch=epoch))
    bench.clock.advance(LEASE_MS)

    taken_over = bench.lock("b")

    assert kept == [0, 1, 2]
    assert taken_over > epoch
    assert taken_over >> 32 > epoch >> 32
    with pytest.raises(LockLost):
        bench.pull(0, epoch=epoch)
