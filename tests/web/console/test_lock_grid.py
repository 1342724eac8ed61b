"""The grid of locks: what a page of it shows, what cells say, and that addresses name views."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.console.lockgrid import CELLS_MAX, Chosen, Grid, chosen_by, chosen_in, everything, grid_of
from apps.console.locks import LockRow, picture_of
from apps.console.projections import is_view
from apps.engine.caretypes import Suspension
from apps.engine.grouptypes import QueueBacklog, QueueLockState
from tests.web.console.fakes import POLYGLOT, FakeEngine, Viewer
from tests.web.console.test_locks import NOW_MS, left, lock
from tests.web.console.test_pages import parsed


def rows(*backlog: QueueBacklog, locks: tuple[QueueLockState, ...] = ()) -> list[LockRow]:
    return picture_of(backlog, [], [], locks, [], {}, now_ms=NOW_MS)["rows"]


def many(groups: int, queues: int) -> list[LockRow]:
    """Return the rows of groups with a topic each, its queues held by two owners in turn."""
    backlog = [
        left(queue, group=f"group-{group:02}", owner=f"owner-{queue % 2}")
        for group in range(groups)
        for queue in range(queues)
    ]
    return rows(*backlog)


def only_cell(row: LockRow) -> Any:
    (line,) = grid_of([row], Chosen()).lines
    ((_row, cell),) = line.cells
    return cell


def test_fifty_groups_of_sixteen_queues_are_two_pages_and_every_queue_is_on_one() -> None:
    found = many(50, 16)

    pages = [grid_of(found, Chosen(page=page)) for page in (1, 2)]

    assert [len(page.lines) for page in pages] == [25, 25]
    assert [page.pages for page in pages] == [2, 2]
    assert len({row["id"] for page in pages for row in page.rows}) == 800


def test_a_page_behind_the_last_one_is_the_last_one() -> None:
    assert grid_of(many(2, 2), Chosen(page=9)).page == 1
    assert grid_of([], Chosen(page=9)).pages == 1


def test_owners_have_letters_by_group_that_are_the_same_on_every_page() -> None:
    found = many(1, CELLS_MAX + 2)

    first, second = (grid_of(found, Chosen(page=page)) for page in (1, 2))

    assert first.lines[0].owners == second.lines[0].owners == "A owner-0, B owner-1"
    assert [cell["letter"] for _, cell in second.lines[0].cells] == ["A", "B"]


@pytest.mark.parametrize(
    ("left_ms", "ring"), [(60_000, "12"), (30_000, "6"), (1_000, "1"), (-1, "0"), (-90_000, "0")]
)
def test_the_ring_is_what_is_left_of_the_lease(left_ms: int, ring: str) -> None:
    held = replace(lock(expires_in_ms=left_ms), lease_ms=60_000)
    (row,) = rows(left(owner="till-1"), locks=(held,))

    assert only_cell(row)["ring"] == ring


def test_a_lease_of_unknown_length_has_no_ring() -> None:
    (row,) = rows(left(owner="till-1"), locks=(lock(),))

    assert only_cell(row)["ring"] == ""


def test_a_free_queue_has_no_owner_no_letter_and_no_colour() -> None:
    (row,) = rows(left())

    cell = only_cell(row)
    assert (cell["hold"], cell["owner"], cell["colour"], cell["letter"]) == ("free", None, "", "·")


def test_a_mark_says_what_is_wrong_and_refusals_only_where_nothing_worse_is() -> None:
    stopped = Suspension(at_ms=NOW_MS, by="eve", reason="look")
    backlog = [left(0, head_attempts=7), left(1, suspension=stopped), left(2), left(3)]
    refused = {("billing", "orders", queue): 1.0 for queue in (0, 2)}
    found = picture_of(backlog, [], [], [], [], {}, refused=refused, now_ms=NOW_MS)["rows"]

    (line,) = grid_of(found, Chosen()).lines

    assert [cell["mark"] for _, cell in line.cells] == ["blocked", "suspended", "refused", ""]


@pytest.mark.parametrize(
    ("chosen", "queues"),
    [
        (Chosen(group="ill"), [0, 1, 2]),
        (Chosen(topic="nothing"), []),
        (Chosen(owner="till"), [1]),
        (Chosen(state="free"), [2]),
        (Chosen(state="held"), [1]),
        (Chosen(state="blocked"), [0]),
        (Chosen(state="refused"), []),
    ],
)
def test_queues_are_chosen_by_parts_of_names_and_by_state(
    chosen: Chosen, queues: list[int]
) -> None:
    backlog = [left(0, owner="x", head_attempts=7), left(1), left(2)]
    found = rows(*backlog, locks=(lock(1),))

    assert [row["queue"] for row in grid_of(found, chosen).rows] == queues


@pytest.mark.parametrize(
    "values",
    [
        {"state": "nonsense"}, {"page": "0"}, {"page": "-1"}, {"page": "x"}, {"page": "²"},
        {"page": "9" * 40}, {"group": "  "},
    ],
)  # fmt: skip
def test_what_an_address_cannot_mean_is_left_out(values: dict[str, str]) -> None:
    assert chosen_by(values) == Chosen()


def test_a_choice_reads_back_from_its_own_text() -> None:
    chosen = Chosen(group="a&b=c", topic="%", owner="größer", state="held", page=3)

    assert chosen_in(chosen.query()) == chosen
    assert chosen.query(page=1) == "group=a%26b%3Dc&topic=%25&owner=gr%C3%B6%C3%9Fer&state=held"


@pytest.mark.parametrize(
    ("view", "is_one"),
    [
        ("locks", True),
        ("locks.group=a", True),
        ("locks.group=a&page=2", True),
        ("locks.", False),
        ("locks.page=1", False),
        ("locks.page=2&group=a", False),
        ("locks.nothing=1", False),
        ("locks." + "&".join(f"a{n}=1" for n in range(9)), False),
        ("locks.group=" + "a" * 600, False),
    ],
)
def test_only_what_the_page_itself_would_write_names_a_view(view: str, is_one: bool) -> None:
    assert is_view(view) is is_one


def test_a_page_has_another_revision_when_a_queue_comes_or_gets_into_trouble() -> None:
    def revision(*backlog: QueueBacklog) -> str:
        return revision_of(grid_of(rows(*backlog), Chosen()))

    def revision_of(grid: Grid) -> str:
        return grid.revision()

    assert revision(left(0)) == revision(left(0, committed=91))
    assert (
        len({revision(left(0)), revision(left(0), left(1)), revision(left(0, head_attempts=7))})
        == 3
    )


def test_what_is_pushed_is_the_page_and_no_other_queue() -> None:
    picture = picture_of([left(0), left(1, group="x")], [], [], [], [], {}, now_ms=NOW_MS)
    chosen = Chosen(group="x")

    shown = everything(picture, chosen, grid_of(picture["rows"], chosen))

    assert [row["group"] for row in shown["rows"]] == ["x"]
    assert [cell["id"] for cell in shown["cells"]] == ["x/orders", "x/orders/1"]
    assert (shown["row_count"], shown["found_count"]) == (2, 1)


@pytest.fixture
def busy(engine: FakeEngine) -> FakeEngine:
    """Return an engine with two groups, one of them with hostile names."""
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)
    engine.left = [left(0, owner=POLYGLOT), left(0, group="shipping", owner="ship-1")]
    engine.locks = [replace(lock(), owner=POLYGLOT, lease_ms=60_000)]
    return engine


def test_each_cell_is_a_link_with_its_state_in_words(
    browser: Client, feed: Feed, busy: FakeEngine
) -> None:
    board.put(feed.sample(busy.api))

    page = parsed(browser.get("/locks"))

    assert {"/locks/billing~orders~0/", "/locks/shipping~orders~0/"} <= {
        link["href"] for link in page.all("a")
    }
    assert {"held", "assigned", POLYGLOT} <= set(page.texts)


def test_a_filtered_page_shows_what_was_asked_for_and_watches_the_same(
    browser: Client, feed: Feed, busy: FakeEngine
) -> None:
    board.put(feed.sample(busy.api))

    page = parsed(browser.get("/locks?group=ship&state=assigned"))

    (main,) = page.all("main")
    assert main["data-name"] == "group=ship&state=assigned"
    assert "/locks/billing~orders~0/" not in [link["href"] for link in page.all("a")]
    assert "/locks/shipping~orders~0/" in [link["href"] for link in page.all("a")]


async def test_viewers_of_a_filtered_page_get_its_cells_pushed(
    feed: Feed, busy: FakeEngine
) -> None:
    board.put(feed.sample(busy.api))
    viewer = Viewer("locks.group=ship")
    await viewer.arrive()

    frame = await viewer.frame()
    await viewer.leave()

    assert [row["group"] for row in frame["rows"]] == ["shipping"]
    assert [cell["owners"] for cell in frame["cells"]] == ["A ship-1", ""]
