"""Queues follow members: who gets what, when it changes, and what survives a restart."""

import random

import pytest

from apps.engine.broker.fences import Fences
from apps.engine.errors import (
    EngineError,
    InvalidArgument,
    InvalidFilter,
    InvalidName,
    NotPermitted,
    StoreFull,
    UnknownTopic,
)
from apps.engine.grouptypes import (
    BlockedHead,
    HeartbeatRequest,
    HeartbeatResult,
    LockChange,
    Rebalance,
    Subscription,
)
from apps.engine.testing.crashes import CrashMode
from apps.engine.types import FilterType, GroupSpec, MessageModel, Strategy
from tests.engine.broker.brokerbench import CONFIG, BrokerBench

TIMEOUT_MS = CONFIG.member_timeout_ms
# Strategies that give every queue to somebody.
WHOLE = (None, Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH)


def beat(bench: BrokerBench, client_id: str, *topics: str, **about: object) -> HeartbeatResult:
    """Send a heartbeat of a member of group `g`, and answer it at once."""
    wanted = tuple(Subscription(topic=topic) for topic in topics or ("orders",))
    asked: dict[str, object] = {"group": "g", "subscriptions": wanted}
    request = HeartbeatRequest(client_id=client_id, **(asked | about))  # type: ignore[arg-type]
    return bench.broker.membership.answer(bench.broker.membership.heartbeat(request))


def queues(bench: BrokerBench, topic: str = "orders") -> dict[str, tuple[int, ...]]:
    """Return who has which queues of a topic."""
    states = bench.broker.membership.states("g")
    return {state.client_id: tuple(state.assignment.get(topic, ())) for state in states}


def lines(bench: BrokerBench) -> tuple[Rebalance, ...]:
    bench.sync()
    return bench.broker.history(-1).rebalances


def reasons(bench: BrokerBench) -> list[str]:
    return [line.reason for line in lines(bench)]


def test_the_first_member_gets_everything_and_the_second_a_half() -> None:
    bench = BrokerBench(orders_queue_count=4)

    alone = beat(bench, "a")
    beat(bench, "b")

    assert alone.assignment == {"orders": (0, 1, 2, 3)}
    assert queues(bench) == {"a": (0, 1), "b": (2, 3)}
    assert alone.heartbeat_ms == TIMEOUT_MS // 3


def test_a_member_that_leaves_gives_its_queues_to_the_others() -> None:
    bench = BrokerBench(orders_queue_count=4)
    beat(bench, "a")
    beat(bench, "b")

    bench.broker.membership.leave("g", "a")

    assert queues(bench) == {"b": (0, 1, 2, 3)}


def test_a_silent_member_loses_its_queues_when_it_expires() -> None:
    bench = BrokerBench(orders_queue_count=4)
    beat(bench, "a")
    bench.clock.advance(TIMEOUT_MS - 1)
    beat(bench, "b")
    bench.clock.advance(1)
    due_ms = bench.broker.membership.next_look_ms()

    bench.broker.membership.look()

    assert due_ms is not None
    assert due_ms <= bench.clock.monotonic_ms()
    assert queues(bench) == {"b": (0, 1, 2, 3)}
    assert reasons(bench) == ["join", "join", "expiry"]


def test_a_member_that_expires_keeps_its_lock_until_the_lease_ends() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    bench.clock.advance(TIMEOUT_MS - 1)
    epoch = bench.lock("a")
    bench.clock.advance(1)

    bench.broker.membership.look()

    (lock,) = bench.broker.locks.states("g")
    assert (lock.owner, lock.epoch) == ("a", epoch)
    assert lock.expires_in_ms > 0


def test_a_member_that_leaves_gives_its_locks_back() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    bench.lock("a")

    bench.broker.membership.leave("g", "a")

    bench.sync()
    changes = [line.change for line in bench.broker.history(-1).transitions]
    assert changes == [LockChange.ACQUIRED, LockChange.RELEASED]
    assert bench.broker.locks.states("g") == []


def test_nothing_changes_where_nothing_has_changed() -> None:
    bench = BrokerBench()
    first = beat(bench, "a")
    end = bench.broker.log.written_offset

    again = beat(bench, "a")
    changed = bench.broker.rebalance(reason="beat")
    bench.publish()

    assert again.generation == first.generation
    assert changed == []
    assert bench.broker.log.written_offset == end


def test_a_rebalance_that_is_asked_for_expires_silent_members() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    bench.clock.advance(TIMEOUT_MS - 1)
    second = beat(bench, "b")
    bench.clock.advance(1)

    (changed,) = bench.broker.rebalance(reason="beat")

    assert changed.group == "g"
    assert changed.generation > second.generation
    assert changed.assignment == {"b": {"orders": (0, 1)}}
    assert changed.queues_moved == 1


@pytest.mark.parametrize("reason", ["", "x" * 201, "a\0b"])
def test_a_reason_is_a_short_text(reason: str) -> None:
    with pytest.raises(InvalidArgument):
        BrokerBench().broker.rebalance(reason=reason)


def test_generations_only_grow_also_over_restarts() -> None:
    bench = BrokerBench()
    seen = [beat(bench, "a").generation]
    for _ in range(3):
        seen.append(beat(bench, "b").generation)
        bench.broker.membership.leave("g", "b")
        bench.restart()
        seen.append(beat(bench, "a").generation)

    assert seen == sorted(set(seen))
    assert all(generation < 2**53 for generation in seen)


def test_a_group_that_everybody_left_begins_anew_above_its_old_generations() -> None:
    bench = BrokerBench()
    before = beat(bench, "a").generation
    bench.broker.membership.leave("g", "a")
    bench.restart()

    after = beat(bench, "a").generation

    assert bench.broker.membership.rebalances("h") == []
    assert after > before


def test_more_queues_are_shared_out_as_soon_as_they_are_there() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    beat(bench, "b")
    bench.orders_queue_count = 4

    bench.publish()

    assert queues(bench) == {"a": (0, 1), "b": (2, 3)}
    assert reasons(bench)[-1] == "queue_count"


def test_a_topic_that_is_deleted_is_nobodys_and_puts_no_member_out() -> None:
    bench = BrokerBench()
    beat(bench, "a", "orders", "bills")

    bench.publish(deleted="bills")
    still = beat(bench, "a", "orders", "bills")

    assert still.assignment == {"orders": (0, 1)}
    assert bench.broker.assigner.owner("g", "bills", 0) is None


def test_the_groups_strategy_wins_and_its_change_is_a_rebalance() -> None:
    bench = BrokerBench(orders_queue_count=4)
    beat(bench, "a", strategy=Strategy.AVG)
    beat(bench, "b", strategy=Strategy.AVG)

    bench.publish(GroupSpec(name="g", strategy=Strategy.AVG_BY_CIRCLE))

    assert queues(bench) == {"a": (0, 2), "b": (1, 3)}
    assert reasons(bench)[-1] == "strategy"
    assert lines(bench)[-1].strategy is Strategy.AVG_BY_CIRCLE


def test_without_one_most_members_decide() -> None:
    bench = BrokerBench(orders_queue_count=6)
    circle = {"strategy": Strategy.AVG_BY_CIRCLE}
    beat(bench, "a", strategy=Strategy.AVG)
    beat(bench, "b", **circle)
    beat(bench, "c", **circle)

    assert queues(bench) == {"a": (0, 3), "b": (1, 4), "c": (2, 5)}


@pytest.mark.parametrize("strategy", [Strategy.CONFIG, Strategy.MACHINE_ROOM])
def test_a_wish_that_would_leave_everybody_without_queues_is_not_heard(
    strategy: Strategy,
) -> None:
    bench = BrokerBench()

    assert beat(bench, "a", strategy=strategy).assignment == {"orders": (0, 1)}


def test_a_fixed_list_leaves_what_it_does_not_name_to_nobody() -> None:
    fixed = {"a": {"orders": (0,)}, "absent": {"orders": (1,)}}
    bench = BrokerBench(GroupSpec(name="g", strategy=Strategy.CONFIG, fixed=fixed))

    beat(bench, "a")
    beat(bench, "b")

    assert queues(bench) == {"a": (0,), "b": ()}
    assert [bench.owner(0), bench.owner(1), bench.owner(7)] == ["a", "", ""]


def test_an_inner_strategy_that_cannot_be_one_is_taken_for_avg() -> None:
    spec = GroupSpec(name="g", strategy=Strategy.MACHINE_ROOM_NEARBY, inner=Strategy.CONFIG)
    bench = BrokerBench(spec)

    assert beat(bench, "a").assignment == {"orders": (0, 1)}


def test_members_share_only_the_topics_they_subscribe_to() -> None:
    bench = BrokerBench()
    beat(bench, "a", "orders", "bills")
    beat(bench, "b", "orders")

    assert queues(bench) == {"a": (0,), "b": (1,)}
    assert queues(bench, "bills") == {"a": (0,), "b": ()}


def test_a_member_that_is_broadcast_to_gets_all_and_takes_nothing_from_the_others() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    beat(bench, "all", model=MessageModel.BROADCASTING)

    assert queues(bench) == {"a": (0, 1), "all": (0, 1)}
    assert bench.owner(1) == "a"


def test_the_last_member_that_shares_and_turns_to_broadcasting_owns_nothing_more() -> None:
    bench = BrokerBench()
    shared = beat(bench, "a")

    broadcast = beat(bench, "a", model=MessageModel.BROADCASTING)

    assert broadcast.assignment == shared.assignment
    assert broadcast.generation > shared.generation
    assert bench.owner(0) is None


def test_more_members_than_queues_leaves_some_idle() -> None:
    bench = BrokerBench()
    for client_id in "abc":
        beat(bench, client_id)

    assert queues(bench) == {"a": (0,), "b": (1,), "c": ()}


def test_a_large_group_is_not_shared_out_at_every_single_join() -> None:
    bench = BrokerBench(orders_queue_count=64)
    for number in range(200):
        beat(bench, f"c{number:03}")

    joins = len(lines(bench))
    bench.clock.advance(100)
    bench.broker.membership.look()

    assert joins == 33
    assert len(lines(bench)) == joins + 1
    assert len(bench.broker.state.assignments.all()[0].members) == 200
    assert bench.broker.assigner.next_due_ms() is None


def test_a_restart_knows_the_members_again_and_shares_out_nothing() -> None:
    bench = BrokerBench(orders_queue_count=4)
    wanted = (Subscription(topic="orders", filter="A || B"),)
    beat(bench, "a", subscriptions=wanted, site="north", ordered=True, strategy=Strategy.AVG)
    beat(bench, "b")
    before = bench.broker.membership.states("g")
    in_force = bench.broker.membership.rebalances()

    bench.restart()
    again = beat(bench, "b", generation=before[1].generation)
    bench.broker.rebalance(reason="beat")

    assert bench.broker.membership.rebalances() == in_force
    assert again.generation == in_force[0].generation
    (a, b) = bench.broker.membership.states("g")
    assert (a.subscriptions, a.site, a.ordered, a.strategy) == (wanted, "north", True, "AVG")
    assert (a.joined_ms, b.joined_ms) == (before[0].joined_ms, before[1].joined_ms)
    assert (a.assignment, b.assignment) == ({"orders": (0, 1)}, {"orders": (2, 3)})


def test_a_restart_knows_what_a_member_wants_no_more() -> None:
    bench = BrokerBench()
    beat(bench, "a", "bills")
    beat(bench, "b", "bills", "orders")
    beat(bench, "b", "orders")

    bench.restart()
    bench.broker.membership.leave("g", "a")

    assert queues(bench, "bills") == {"b": ()}


def test_a_restored_member_has_the_whole_time_out() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    bench.clock.advance(TIMEOUT_MS - 1)
    bench.restart()
    bench.clock.advance(TIMEOUT_MS - 1)
    bench.broker.membership.look()
    assert queues(bench) == {"a": (0, 1)}

    bench.clock.advance(1)
    bench.broker.membership.look()

    assert queues(bench) == {}
    assert bench.broker.membership.rebalances() == []


def test_a_generation_that_a_power_cut_took_back_is_passed_by_a_higher_one() -> None:
    bench = BrokerBench()
    beat(bench, "a")
    bench.sync()
    lost = beat(bench, "b")
    bench.disk = bench.disk.crash_image(random.Random(0), CrashMode.NOTHING)
    bench.open()
    assert bench.broker.assigner.share("g", "a")[0] < lost.generation

    answer = beat(bench, "a", generation=lost.generation)

    assert answer.generation > lost.generation
    assert reasons(bench) == ["join", "recovery"]
    assert beat(bench, "a", generation=lost.generation).generation == answer.generation


def test_a_generation_that_never_was_changes_nothing() -> None:
    bench = BrokerBench()
    first = beat(bench, "a")

    answer = beat(bench, "a", generation=2**53)

    assert answer.generation == first.generation


def test_a_full_disk_leaves_the_old_assignment_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = BrokerBench()
    first = beat(bench, "a")
    refused = []

    def refuse(*batches: object, is_internal: bool) -> None:
        refused.append(is_internal)
        raise StoreFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(bench.broker.appender, "write", refuse)
        with pytest.raises(StoreFull):
            beat(bench, "b")

    assert refused == [True]
    assert bench.broker.assigner.share("g", "a") == (first.generation, {"orders": (0, 1)})
    assert beat(bench, "a").generation > first.generation
    assert queues(bench) == {"a": (0,), "b": (1,)}
    assert reasons(bench) == ["join", "join"]


@pytest.mark.parametrize("seed", range(4))
def test_every_queue_has_one_owner_who_wants_it_whatever_happens(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    bench = BrokerBench(orders_queue_count=5)
    wishes: dict[str, tuple[str, ...]] = {}
    last = 0
    for _ in range(300):
        client_id = rng.choice("abcdef")
        match rng.randrange(8):
            case 0 | 1:
                bench.broker.membership.leave("g", client_id)
                wishes.pop(client_id, None)
            case 2:
                bench.orders_queue_count = rng.randrange(1, 9)
                bench.publish(GroupSpec(name="g", strategy=rng.choice(WHOLE)))
            case 3:
                bench.restart()
            case 4:
                bench.broker.rebalance(reason="beat")
            case _:
                topics = rng.choice([("orders",), ("bills",), ("bills", "orders")])
                beat(bench, client_id, *topics)
                wishes[client_id] = topics
        generation, _ = bench.broker.assigner.share("g", "")
        assert generation >= last or not wishes
        last = max(last, generation)
        for topic, count in (("orders", bench.orders_queue_count), ("bills", 1)):
            wanting = {name for name, topics in wishes.items() if topic in topics}
            shares = queues(bench, topic)
            given = [(number, name) for name, share in shares.items() for number in share]
            owners = [bench.broker.assigner.owner("g", topic, n) for n in range(count)]
            assert set(shares) == set(wishes)
            if wanting:
                assert sorted(given) == list(enumerate(owners))
                assert set(owners) <= wanting
            else:
                assert given == []
                assert owners == [None] * count


def test_moved_queues_are_counted() -> None:
    bench = BrokerBench(orders_queue_count=4)
    beat(bench, "a")
    beat(bench, "b")
    beat(bench, "c")
    bench.broker.membership.leave("g", "b")

    # a: 0123; a: 01, b: 23; a: 01, b: 2, c: 3; a: 01, c: 23.
    assert [line.queues_moved for line in lines(bench)] == [4, 2, 1, 1]


def test_members_are_listed_with_what_they_said() -> None:
    bench = BrokerBench()
    head = BlockedHead(topic="orders", queue=0, queue_offset=3, attempts=7, reason="no stock")
    beat(bench, "a", blocked=(head,))
    beat(bench, "b", subscriptions=(Subscription(topic="orders", filter="A"),))

    (a, b) = bench.broker.membership.states()

    assert (a.client_id, a.blocked, a.conflicts) == ("a", (head,), ("orders",))
    assert (b.client_id, b.blocked, b.conflicts) == ("b", (), ("orders",))
    assert a.last_seen_ms == bench.clock.wall_ms()


def test_a_heartbeat_counts_as_the_client_being_seen() -> None:
    bench = BrokerBench()
    beat(bench, "a", "orders", "bills")

    (client,) = bench.broker.sessions.clients("g")

    assert (client.client_id, client.topics) == ("a", ("bills", "orders"))


@pytest.mark.parametrize(
    ("about", "error"),
    [
        ({"group": "a/b"}, InvalidName),
        ({"group": "rmq_sys_x"}, InvalidName),
        ({"client_id": ""}, InvalidArgument),
        ({"client_id": "x" * 256}, InvalidArgument),
        ({"wait_ms": 30_001}, InvalidArgument),
        ({"wait_ms": -1}, InvalidArgument),
        ({"generation": -1}, InvalidArgument),
        ({"site": "x" * 128}, InvalidArgument),
        ({"site": "a\0"}, InvalidArgument),
        ({"subscriptions": (Subscription(topic="gone"),)}, UnknownTopic),
        ({"subscriptions": (Subscription(topic="orders", filter="A ||"),)}, InvalidFilter),
        (
            {
                "subscriptions": (
                    Subscription(topic="orders", filter="1 +", filter_type=FilterType.SQL92),
                )
            },
            InvalidFilter,
        ),
        (
            {"subscriptions": (Subscription(topic="orders"), Subscription(topic="orders"))},
            InvalidArgument,
        ),
        (
            {"subscriptions": tuple(Subscription(topic=f"t{n}") for n in range(257))},
            InvalidArgument,
        ),
        (
            {"blocked": (BlockedHead(topic="t", queue=0, queue_offset=0, attempts=1),) * 1_025},
            InvalidArgument,
        ),
        ({"group": "closed"}, NotPermitted),
    ],
)
def test_a_bad_heartbeat_joins_nobody(about: dict[str, object], error: type[EngineError]) -> None:
    bench = BrokerBench(GroupSpec(name="closed", enabled=False))
    asked: dict[str, object] = {"group": "g", "client_id": "a"}

    with pytest.raises(error):
        bench.broker.membership.heartbeat(HeartbeatRequest(**(asked | about)))  # type: ignore[arg-type]

    assert len(bench.broker.members) == 0
    assert lines(bench) == ()


def test_a_change_that_is_refused_leaves_the_subscriptions_as_they_were() -> None:
    bench = BrokerBench()
    beat(bench, "a")

    with pytest.raises(UnknownTopic):
        beat(bench, "a", "orders", "gone")

    (state,) = bench.broker.membership.states("g")
    assert state.subscriptions == (Subscription(topic="orders"),)


def test_who_is_no_member_may_leave_and_nothing_happens() -> None:
    bench = BrokerBench()

    bench.broker.membership.leave("g", "stranger")

    assert lines(bench) == ()
    with pytest.raises(InvalidName):
        bench.broker.membership.leave("a/b", "a")


def test_fences_of_a_later_start_are_above_all_of_an_earlier_one() -> None:
    early, late = Fences(7), Fences(8)
    last = [early.next() for _ in range(1_000)][-1]

    assert late.next() > last
    assert late.first > last
    assert Fences(2**21 - 1).next() < 2**53
