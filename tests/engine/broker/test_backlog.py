"""What is left to do: how much, for how long, whose it is, and what is not known."""

from apps.engine.grouptypes import BlockedHead, QueueBacklog
from apps.engine.types import ConsumeFrom, GroupSpec, MessageModel
from tests.engine.broker.brokerbench import BrokerBench
from tests.engine.broker.lockbench import LEASE_MS


def row(bench: BrokerBench, queue: int = 0, group: str | None = "g") -> QueueBacklog:
    rows = bench.broker.backlog.rows(group)
    assert [r.queue for r in rows] == list(range(bench.orders_queue_count))
    assert {(r.group, r.topic) for r in rows} == {("g", "orders")}
    return rows[queue]


def test_a_group_that_did_nothing_is_not_listed() -> None:
    bench = BrokerBench(GroupSpec(name="g", consume_from=ConsumeFrom.LAST))
    bench.send(5)

    assert bench.broker.backlog.rows() == []
    assert bench.broker.backlog.rows("g") == []


def test_what_was_pulled_and_not_committed_is_in_flight() -> None:
    bench = BrokerBench()
    bench.send(10)
    bench.pull(0, most=6)
    bench.commit(2, client_id="a")

    found = row(bench)

    assert (found.committed, found.delivered, found.max_offset) == (2, 6, 10)
    assert found.in_flight == 4
    assert row(bench, 1).in_flight == 0


def test_what_was_handed_out_is_in_flight_until_it_is_settled_or_comes_back() -> None:
    bench = BrokerBench()
    bench.send(10)
    (lease,) = bench.receive(most=6, invisible_ms=1_000).leases
    bench.broker.settler.ack("g", [f"{lease.token}:0-1"])

    out = row(bench)
    bench.clock.advance(1_000)
    bench.broker.expire()
    back = row(bench)

    assert (out.committed, out.delivered, out.in_flight) == (2, 6, 4)
    assert (back.committed, back.delivered, back.in_flight) == (2, 6, 0)


def test_messages_pulled_behind_those_handed_out_count_once() -> None:
    bench = BrokerBench()
    bench.send(10)
    bench.receive(most=6)
    bench.pull(0, most=4)

    assert row(bench).in_flight == 6


def test_the_oldest_message_not_committed_has_an_age() -> None:
    bench = BrokerBench()
    bench.send(1)
    bench.clock.advance(700)
    bench.send(1)
    bench.clock.advance(300)
    bench.commit(0, client_id="a")

    first = row(bench).oldest_age_ms
    bench.commit(1, client_id="a")
    second = row(bench).oldest_age_ms
    bench.commit(2, client_id="a")

    assert (first, second, row(bench).oldest_age_ms) == (1_000, 300, None)


def test_an_age_is_never_negative_whatever_the_wall_clock_does() -> None:
    bench = BrokerBench()
    bench.send(1)
    bench.commit(0, client_id="a")
    bench.clock.set_wall(bench.clock.wall_ms() - 5_000)

    assert row(bench).oldest_age_ms == 0


def test_an_age_that_needs_the_disk_is_unknown_until_somebody_reads_the_message() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.commit(0, client_id="a")
    bench.restart()
    bench.disk.make_cold()

    cold = row(bench)
    bench.pull(0)
    warm = row(bench)

    assert cold.oldest_age_ms is None
    assert warm.oldest_age_ms == 0


def test_a_queue_stands_still_while_there_is_something_to_do_and_nothing_is_committed() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.commit(0, client_id="a")

    first_seen = row(bench).stalled_ms
    bench.clock.advance(5_000)
    standing = row(bench).stalled_ms
    bench.clock.advance(5_000)
    still = row(bench).stalled_ms
    bench.commit(3, client_id="a")
    moved = row(bench).stalled_ms
    bench.clock.advance(1_000)
    again = row(bench).stalled_ms

    assert (first_seen, standing, still, moved, again) == (None, 5_000, 10_000, None, 1_000)


def test_a_queue_with_nothing_to_do_does_not_stand_still() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.commit(5, client_id="a")
    row(bench)
    bench.clock.advance(60_000)
    idle = row(bench).stalled_ms
    bench.clock.advance(60_000)
    bench.send(1)
    bench.clock.advance(400)

    assert idle is None
    assert row(bench).stalled_ms == 400


def test_the_attempts_at_the_head_are_counted_by_leases() -> None:
    bench = BrokerBench()
    bench.send(5)
    untried = bench.broker.backlog.rows()
    for _ in range(3):
        bench.receive(most=2, invisible_ms=1_000)
        bench.clock.advance(1_000)

    tried = row(bench).head_attempts
    (lease,) = bench.receive(most=1).leases
    bench.broker.settler.ack("g", [f"{lease.token}:0"])

    assert untried == []
    assert tried == 3
    assert row(bench).head_attempts == 3
    bench.commit(2)
    assert row(bench).head_attempts is None


def test_the_attempts_at_the_head_are_counted_by_what_members_say() -> None:
    bench = BrokerBench()
    bench.send(5)

    def blocked(offset: int, attempts: int) -> BlockedHead:
        return BlockedHead(topic="orders", queue=0, queue_offset=offset, attempts=attempts)

    bench.commit(2, client_id="a")
    bench.join("b", blocked=(blocked(2, 4),))
    bench.join("a", blocked=(blocked(2, 9),))
    named = row(bench).head_attempts
    bench.commit(3, client_id="a")

    assert named == 9
    assert row(bench).head_attempts is None


def test_a_queue_s_owner_and_lock_are_named() -> None:
    bench = BrokerBench()
    bench.join("a")
    epoch = bench.lock("a", 1)
    bench.clock.advance(10_000)

    owned, locked = row(bench, 0), row(bench, 1)

    assert (owned.owner, owned.lock_epoch, owned.lock_expires_in_ms) == ("a", None, None)
    assert (locked.owner, locked.lock_epoch) == ("a", epoch)
    assert locked.lock_expires_in_ms == LEASE_MS - 10_000
    assert (owned.committed, owned.delivered, owned.in_flight) == (0, 0, 0)


def test_a_lock_alone_lists_the_topic_and_names_no_owner() -> None:
    bench = BrokerBench()
    epoch = bench.lock("a", 1)

    assert (row(bench, 1).owner, row(bench, 1).lock_epoch) == (None, epoch)


def test_members_that_are_broadcast_to_have_no_backlog_in_the_broker() -> None:
    bench = BrokerBench()
    bench.send(5)
    generation = bench.join("a", model=MessageModel.BROADCASTING)
    bench.pull(0, generation=generation)

    assert bench.broker.backlog.rows() == []


def test_one_group_s_rows_are_the_same_among_all() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.pull(0, most=3)
    bench.pull(0, most=2, group="h")

    bench.broker.backlog.rows()
    everything = bench.broker.backlog.rows()

    assert [(r.group, r.queue) for r in everything] == [("g", 0), ("g", 1), ("h", 0), ("h", 1)]
    assert [r.delivered for r in everything] == [3, 0, 2, 0]
    assert bench.broker.backlog.rows("g") == everything[:2]


def test_queues_of_a_deleted_topic_are_listed_and_remembered_no_more() -> None:
    bench = BrokerBench()
    bench.send(5)
    bench.pull(0)
    row(bench)
    bench.publish(deleted="orders")

    assert bench.broker.backlog.rows() == []
    assert bench.broker.backlog._watches == {}


def test_listing_thousands_of_queues_again_reads_nothing_again() -> None:
    bench = BrokerBench(orders_queue_count=200)
    for queue in range(200):
        bench.send(2, queue=queue)
        for group in ("g", "h", "i", "j", "k"):
            bench.pull(0, queue=queue, group=group)
    looks = 0
    read = bench.broker.log.read_records

    def counted(*what: object, **how: object) -> memoryview:
        nonlocal looks
        looks += 1
        return read(*what, **how)  # type: ignore[arg-type]

    bench.broker.log.read_records = counted  # type: ignore[method-assign,assignment]
    first = bench.broker.backlog.rows()
    looks_first = looks
    second = bench.broker.backlog.rows()

    assert len(first) == len(second) == 1_000
    assert all(r.oldest_age_ms == 0 for r in first)
    # One look serves all groups that are at the same message.
    assert (looks_first, looks) == (200, 200)
