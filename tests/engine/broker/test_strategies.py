"""The six strategies: RocketMQ's own figures, and what each promises of any clients and queues."""

from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from apps.engine.broker.strategies.allocation import allocate
from apps.engine.broker.strategies.queues import BrokerQueue, Shares
from apps.engine.broker.strategies.ring import by_ring, point_of, text_of
from apps.engine.errors import InvalidArgument
from apps.engine.types import Strategy

BALANCED = [Strategy.AVG, Strategy.AVG_BY_CIRCLE]
WHOLE = [*BALANCED, Strategy.CONSISTENT_HASH]

clients = st.lists(st.text(max_size=6), min_size=1, max_size=12, unique=True)
brokers = st.sampled_from(["b", "north@b1", "north@b2", "south@b1", "@b", "x@", "a@b@c"])
queues = st.lists(
    st.builds(BrokerQueue, st.sampled_from(["t", "u"]), brokers, st.integers(0, 20)),
    max_size=40,
    unique=True,
)


def some_queues(count: int, broker: str = "B") -> list[BrokerQueue]:
    return [BrokerQueue("T", broker, number) for number in range(count)]


def some_clients(count: int) -> list[str]:
    return [f"c{number + 1}" for number in range(count)]


def numbers(shares: Shares) -> str:
    """Write shares as the figures are written: the numbers of each client, divided by bars."""
    return "|".join("".join(str(queue.queue) for queue in share) for share in shares.values())


def given_out(shares: Shares) -> list[BrokerQueue]:
    return sorted(queue for share in shares.values() for queue in share)


# --- figures of RocketMQ -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "queue_count", "client_count", "expected"),
    [
        (Strategy.AVG, 8, 3, "012|345|67"),
        (Strategy.AVG, 10, 4, "012|345|67|89"),
        (Strategy.AVG, 3, 5, "0|1|2||"),
        (Strategy.AVG, 5, 2, "012|34"),
        (Strategy.AVG_BY_CIRCLE, 8, 3, "036|147|25"),
        (Strategy.AVG_BY_CIRCLE, 2, 3, "0|1|"),
        (Strategy.CONSISTENT_HASH, 8, 3, "013567|24|"),
    ],
)
def test_a_strategy_gives_what_rocketmq_gives(
    strategy: Strategy, queue_count: int, client_count: int, expected: str
) -> None:
    shares = allocate(strategy, some_clients(client_count), some_queues(queue_count))

    assert numbers(shares) == expected


def test_machine_room_gives_runs_and_then_what_is_left() -> None:
    shares = allocate(
        Strategy.MACHINE_ROOM, some_clients(3), some_queues(8, "room@B"), rooms=["room"]
    )

    assert numbers(shares) == "016|237|45"


def test_averagely_follows_rocketmqs_formula() -> None:
    for n in range(30):
        for m in range(1, 12):
            shares = allocate(Strategy.AVG, [f"{i:02}" for i in range(m)], some_queues(n))
            for i, share in enumerate(shares.values()):
                left = n % m
                size = 1 if n <= m else n // m + 1 if left > 0 and i < left else n // m
                start = i * size if left > 0 and i < left else i * size + left
                expected = [start + k for k in range(min(size, n - start))]
                assert [queue.queue for queue in share] == expected, (n, m, i)


def test_points_of_the_ring_are_rocketmqs() -> None:
    assert point_of("c1-0") == 3886541579
    assert text_of(BrokerQueue("T", "B", 0)) == "MessageQueue [topic=T, brokerName=B, queueId=0]"
    assert point_of(text_of(BrokerQueue("T", "B", 0))) == 2023734228


# --- promises ----------------------------------------------------------------------------------


@given(st.sampled_from([*WHOLE, Strategy.MACHINE_ROOM_NEARBY]), clients, queues)
def test_every_queue_is_given_to_exactly_one_known_client(
    strategy: Strategy, clients: list[str], queues: list[BrokerQueue]
) -> None:
    shares = allocate(strategy, clients, queues)

    assert given_out(shares) == sorted(queues)
    assert sorted(shares) == sorted(clients)
    assert all(share == sorted(share) for share in shares.values())


@given(st.sampled_from(BALANCED), clients, queues)
def test_counted_shares_differ_by_one_at_most(
    strategy: Strategy, clients: list[str], queues: list[BrokerQueue]
) -> None:
    counts = [len(share) for share in allocate(strategy, clients, queues).values()]

    assert max(counts) - min(counts) <= 1


@given(
    st.sampled_from(list(Strategy)), clients, queues, st.randoms(use_true_random=False), st.data()
)
def test_the_order_of_clients_and_queues_makes_no_difference(
    strategy: Strategy,
    clients: list[str],
    queues: list[BrokerQueue],
    rng: object,
    data: st.DataObject,
) -> None:
    fixed = {client: data.draw(st.lists(st.sampled_from(queues or [None]))) for client in clients}
    sites = {client: data.draw(st.sampled_from(["", "north", "east"])) for client in clients}
    more: dict[str, object] = {"fixed": fixed, "rooms": ["north"], "sites": sites}
    expected = allocate(strategy, clients, queues, **more)  # type: ignore[arg-type]

    rng.shuffle(clients)  # type: ignore[attr-defined]
    rng.shuffle(queues)  # type: ignore[attr-defined]
    found = allocate(strategy, clients * 2, queues * 2, **more)  # type: ignore[arg-type]

    assert found == expected
    assert list(found) == list(expected)


@settings(max_examples=300)
@given(clients, queues, st.text(max_size=6))
def test_on_the_ring_a_client_that_comes_or_goes_moves_its_own_queues_only(
    clients: list[str], queues: list[BrokerQueue], comer: str
) -> None:
    without = [client for client in clients if client != comer] or ["other" + comer]

    before = allocate(Strategy.CONSISTENT_HASH, without, queues)
    after = allocate(Strategy.CONSISTENT_HASH, [*without, comer], queues)

    for client in without:
        kept = set(after[client])
        assert kept <= set(before[client])
        assert set(before[client]) - kept <= set(after[comer])


def test_more_points_balance_the_ring() -> None:
    queues = some_queues(1000)

    few = by_ring(some_clients(10), queues, virtual_nodes=1)
    many = by_ring(some_clients(10), queues, virtual_nodes=500)

    def spread(shares: Mapping[str, list[BrokerQueue]]) -> int:
        return max(map(len, shares.values())) - min(map(len, shares.values()))

    assert spread(many) < 60 < spread(few)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_nobody_gets_nothing_and_nothing_is_given_to_everybody(strategy: Strategy) -> None:
    assert allocate(strategy, [], some_queues(3)) == {}
    assert allocate(strategy, ["a", "b"], []) == {"a": [], "b": []}


# --- by configuration --------------------------------------------------------------------------


@given(clients, queues, st.data())
def test_config_gives_what_is_listed_and_nothing_else(
    clients: list[str], queues: list[BrokerQueue], data: st.DataObject
) -> None:
    gone = BrokerQueue("gone", "b", 0)
    listed = st.lists(st.sampled_from([*queues, gone]))
    fixed = data.draw(st.dictionaries(st.sampled_from([*clients, "stranger!"]), listed))

    shares = allocate(Strategy.CONFIG, clients, queues, fixed=fixed)

    wanted = {queue for client in clients for queue in fixed.get(client, ())} - {gone}
    assert given_out(shares) == sorted(wanted)
    assert all(set(share) <= set(fixed.get(client, ())) for client, share in shares.items())
    assert sorted(shares) == sorted(clients)


def test_a_queue_that_two_list_is_the_first_clients_that_is_there() -> None:
    (queue,) = some_queues(1)
    fixed = {"b": [queue], "a": [queue]}

    assert allocate(Strategy.CONFIG, ["b", "a"], [queue], fixed=fixed) == {"a": [queue], "b": []}
    assert allocate(Strategy.CONFIG, ["b", "c"], [queue], fixed=fixed) == {"b": [queue], "c": []}


# --- machine rooms -----------------------------------------------------------------------------


@given(clients, queues, st.lists(st.sampled_from(["north", "south", "", "a", "x"])))
def test_machine_room_gives_the_queues_of_its_rooms_evenly(
    clients: list[str], queues: list[BrokerQueue], rooms: list[str]
) -> None:
    shares = allocate(Strategy.MACHINE_ROOM, clients, queues, rooms=rooms)

    expected = [
        queue for queue in queues if any(queue.broker in (f"{r}@b1", f"{r}@b2") for r in rooms if r)
    ]
    counts = [len(share) for share in shares.values()]
    assert given_out(shares) == sorted(expected)
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("broker", "room"),
    [("north@b1", "north"), ("b1", ""), ("@b1", ""), ("north@", ""), ("a@b@c", ""), ("", "")],
)
def test_a_broker_says_its_room_before_one_at_sign(broker: str, room: str) -> None:
    assert BrokerQueue("t", broker, 0).room == room


@pytest.mark.parametrize("inner", WHOLE)
def test_nearby_gives_a_rooms_queues_to_the_clients_in_it(inner: Strategy) -> None:
    north, south = some_queues(5, "north@b"), some_queues(7, "south@b")
    sites = {"n1": "north", "n2": "north", "s1": "south", "e1": "east"}

    shares = allocate(
        Strategy.MACHINE_ROOM_NEARBY, list(sites), [*north, *south], sites=sites, inner=inner
    )

    of_north = allocate(inner, ["n1", "n2"], north)
    assert shares == {**of_north, "s1": south, "e1": []}


@pytest.mark.parametrize("inner", WHOLE)
def test_nearby_gives_queues_of_a_room_without_clients_to_all(inner: Strategy) -> None:
    north, south = some_queues(4, "north@b"), some_queues(9, "south@b")
    sites = {"n1": "north", "n2": "north"}

    shares = allocate(
        Strategy.MACHINE_ROOM_NEARBY,
        ["n1", "n2", "nowhere"],
        [*south, *north],
        sites=sites,
        inner=inner,
    )

    of_north = {**allocate(inner, ["n1", "n2"], north), "nowhere": []}
    of_south = allocate(inner, ["n1", "n2", "nowhere"], south)
    assert shares == {client: of_north[client] + of_south[client] for client in of_south}


def test_brokers_in_no_room_and_clients_of_no_site_are_together() -> None:
    plain, north = some_queues(4), some_queues(2, "north@b")
    sites = {"n1": "north", "stranger": "north"}

    shares = allocate(Strategy.MACHINE_ROOM_NEARBY, ["n1", "a", "b"], [*plain, *north], sites=sites)

    assert shares == {"a": plain[:2], "b": plain[2:], "n1": north}


@pytest.mark.parametrize(
    "inner", [Strategy.MACHINE_ROOM_NEARBY, Strategy.MACHINE_ROOM, Strategy.CONFIG]
)
def test_an_inner_strategy_gives_every_queue_to_somebody(inner: Strategy) -> None:
    with pytest.raises(InvalidArgument, match=f"{inner} cannot share out"):
        allocate(Strategy.MACHINE_ROOM_NEARBY, ["a"], some_queues(1), inner=inner)
