"""Pictures on their way to other processes: whole where there is room, and never beyond a bound."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from apps.console import travel
from apps.console.feed import Feed
from apps.console.lockgrid import CELLS_MAX, Chosen, grid_in_sight, grid_of
from apps.console.locks import LockRow, picture_of
from apps.console.picture import Picture
from apps.console.projections import Known, state_of
from apps.console.snapshot import Snapshot
from tests.rounds import seed_of_run
from tests.web.console.fakes import FakeEngine
from tests.web.console.test_locks import NOW_MS, left, lock

QUEUES = 16


def held(count: int, seed: int) -> list[LockRow]:
    """Return the rows of so many queues of groups of sixteen, as different as rows are."""
    chance = random.Random(seed)
    groups = range(-(-count // QUEUES))
    places = [(f"group-{group:04}", queue) for group in groups for queue in range(QUEUES)][:count]
    backlog = [
        replace(
            left(queue, group=group),
            committed=chance.randrange(10**9),
            max_offset=2 * 10**9,
            oldest_age_ms=chance.randrange(10**7),
        )
        for group, queue in places
    ]
    locks = [
        replace(
            lock(queue, expires_in_ms=chance.randrange(60_000)),
            group=group,
            owner=f"till-{chance.randrange(10**6)}@host-{chance.randrange(100)}",
            epoch=(3 << 32) + chance.randrange(10**6),
        )
        for group, queue in places
    ]
    return picture_of(backlog, [], [], locks, [], {}, now_ms=NOW_MS)["rows"]


def with_locks(snapshot: Snapshot, rows: Sequence[LockRow]) -> Snapshot:
    locks = {**snapshot["locks"], "rows": list(rows), "row_count": len(rows)}
    return {**snapshot, "locks": locks}  # type: ignore[typeddict-item]


@pytest.fixture
def snapshot(feed: Feed, engine: FakeEngine) -> Snapshot:
    engine.add_topic("orders", queue_count=3)
    return feed.sample(engine.api).snapshot


def test_two_thousand_locks_arrive_as_they_were(snapshot: Snapshot) -> None:
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    sent = with_locks(snapshot, held(2_000, seed))

    arrived = travel.unpacked(travel.packed(sent))

    assert arrived["locks"] == sent["locks"]
    assert [topic["name"] for topic in arrived["topics"]] == ["orders"]


def test_a_picture_without_locks_arrives_as_it_was(snapshot: Snapshot) -> None:
    arrived = travel.unpacked(travel.packed(snapshot))

    assert arrived["locks"] == snapshot["locks"]
    assert [len(topic["queues"] or ()) for topic in arrived["topics"]] == [3]


def test_rows_beyond_the_bound_stay_behind_and_those_before_them_are_all_there(
    snapshot: Snapshot,
) -> None:
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    sent = with_locks(snapshot, held(12_000, seed))

    head, *portions = travel.packed(sent)
    arrived = travel.unpacked([head, *portions])["locks"]

    carried = len(arrived["rows"])
    assert sum(map(len, portions)) <= travel.LOCKS_BYTES_MAX
    # One portion more would have been too much.
    size_bytes_max = max(map(len, portions))
    assert sum(map(len, portions)) > travel.LOCKS_BYTES_MAX - 2 * size_bytes_max
    assert carried == len(portions) * travel.PORTION_ROWS >= 2_000
    assert arrived["rows"] == sent["locks"]["rows"][:carried]
    assert arrived["row_count"] == 12_000


@pytest.mark.parametrize(
    ("view", "known"),
    [
        ("locks", Known.LIVE),
        ("locks.page=2", Known.LIVE),
        # Its last rows are of a group whose other queues have not come.
        ("locks.page=3", Known.STILL),
        ("locks.page=9", Known.STILL),
        ("locks.owner=till", Known.STILL),
    ],
)
def test_of_locks_that_were_cut_the_pages_in_sight_are_live(
    snapshot: Snapshot, view: str, known: Known
) -> None:
    rows = held(3 * CELLS_MAX + 80, 1)
    found = with_locks(snapshot, rows)
    found["locks"]["rows"] = rows[: 3 * CELLS_MAX]

    state = state_of(view, Picture(found))

    assert state["known"] == known
    if state["shown"] is not None:
        whole = state_of(view, Picture(with_locks(snapshot, rows)))
        assert whole["shown"] == state["shown"]


def test_a_page_in_sight_says_how_many_there_are_of_all() -> None:
    rows = held(3 * CELLS_MAX, 1)

    cut = grid_in_sight(rows[: 2 * CELLS_MAX], len(rows), Chosen())

    assert cut is not None
    assert (cut.found, cut.pages, cut.page) == (3 * CELLS_MAX, 3, 1)
    assert cut.cells() == grid_of(rows, Chosen()).cells()
    assert grid_in_sight([], len(rows), Chosen()) is None
    assert grid_in_sight(rows, None, Chosen()) is None
