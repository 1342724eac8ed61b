"""Who holds what, what is left and what changed: the picture, the page and the socket."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.console.locks import (
    HistoryTail,
    LockRow,
    LocksPicture,
    line_of,
    picture_of,
)
from apps.engine.grouptypes import (
    BlockedHead,
    LockChange,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    Rebalance,
    Subscription,
)
from apps.engine.types import ClientSeen, MessageModel, Strategy
from apps.groups.fences import fence_text
from tests.web.console.fakes import POLYGLOT, FakeEngine, Viewer
from tests.web.console.test_pages import parsed
from tests.web.console.texts import worded

NOW_MS = 1_763_000_000_000
EPOCH = (3 << 32) | 17


def left(queue: int = 0, **changes: Any) -> QueueBacklog:
    """Return a queue with ten messages left, but for the changes."""
    usual = QueueBacklog(
        group="billing",
        topic="orders",
        queue=queue,
        committed=90,
        delivered=95,
        max_offset=100,
        in_flight=5,
        oldest_age_ms=42_900,
        stalled_ms=None,
        head_attempts=None,
        owner=None,
        lock_epoch=None,
        lock_expires_in_ms=None,
    )
    return replace(usual, **changes)


def lock(queue: int = 0, *, expires_in_ms: int = 59_000) -> QueueLockState:
    return QueueLockState(
        group="billing",
        topic="orders",
        queue=queue,
        owner="till-1",
        epoch=EPOCH,
        acquired_ms=NOW_MS - 125_000,
        expires_in_ms=expires_in_ms,
    )


def transition(
    number: int, change: LockChange = LockChange.ACQUIRED, **more: Any
) -> LockTransition:
    return LockTransition(
        number=number,
        at_ms=NOW_MS,
        group="billing",
        topic="orders",
        queue=3,
        change=change,
        owner=more.pop("owner", "till-1"),
        previous_owner=more.pop("previous_owner", ""),
        epoch=EPOCH,
        **more,
    )


def rebalance(number: int) -> Rebalance:
    return Rebalance(
        number=number,
        at_ms=NOW_MS,
        group="billing",
        generation=EPOCH,
        reason="join",
        strategy=Strategy.AVG,
        assignment={"till-1": {"orders": (0, 1)}, "till-2": {"orders": (2, 3)}},
        queues_moved=1,
    )


def shown(*backlog: QueueBacklog, locks: tuple[QueueLockState, ...] = ()) -> LocksPicture:
    return picture_of(backlog, [], [], locks, [], {}, now_ms=NOW_MS)


def only_row(*backlog: QueueBacklog, locks: tuple[QueueLockState, ...] = ()) -> LockRow:
    (row,) = shown(*backlog, locks=locks)["rows"]
    return row


def test_a_lock_shows_owner_epoch_age_and_what_is_left_of_it() -> None:
    row = only_row(left(owner="till-1"), locks=(lock(),))

    assert (row["hold"], row["owner"], row["epoch"]) == ("held", "till-1", "3.17")
    assert (row["held_s"], row["expires_in_s"]) == (125, 59)
    assert (row["lag"], row["in_flight"], row["oldest_age_s"]) == (10, 5, 42)


def test_a_lock_whose_time_is_over_is_told_from_one_that_is_held() -> None:
    row = only_row(left(), locks=(lock(expires_in_ms=-2_500),))

    assert (row["hold"], row["expires_in_s"]) == ("expired", -2)


@pytest.mark.parametrize(
    ("owner", "clients", "hold"),
    [("till-1", ["till-1"], "assigned"), (None, ["sharer"], "shared"), (None, [], "free")],
)
def test_a_queue_without_a_lock_is_a_members_or_everybodys_or_nobodys(
    owner: str | None, clients: list[str], hold: str
) -> None:
    picture = picture_of(
        [left(owner=owner)], [], [seen(name) for name in clients], [], [], {}, now_ms=NOW_MS
    )

    (row,) = picture["rows"]
    assert (row["hold"], row["owner"]) == (hold, owner)
    assert row["epoch"] is row["held_s"] is row["expires_in_s"] is None


def test_what_is_not_known_is_not_shown_as_nothing() -> None:
    row = only_row(left(oldest_age_ms=None))

    assert row["oldest_age_s"] is row["lag_trend"] is row["drain_s"] is None


@pytest.mark.parametrize(
    ("rates", "trend", "drain_s"),
    [((10.0, 30.0), "falling", 0), ((30.0, 10.0), "rising", None), ((0.0, 2.0), "falling", 5)],
)
def test_the_trend_says_in_which_time_a_queue_is_drained(
    rates: tuple[float, float], trend: str, drain_s: int | None
) -> None:
    picture = picture_of([left()], [], [], [], [], {("billing", "orders", 0): rates}, now_ms=NOW_MS)

    (row,) = picture["rows"]
    assert (row["lag_trend"], row["drain_s"]) == (trend, drain_s)


def test_a_blocked_queue_is_counted_and_named() -> None:
    picture = shown(left(0), left(1, owner="till-1", head_attempts=7), locks=(lock(1),))

    assert [row["state"] for row in picture["rows"]] == ["", "blocked"]
    assert (picture["blocked_count"], picture["blocked_level"]) == (1, "high")
    assert (
        worded(picture["rows"][1]["trouble"])
        == "Blocked at offset 90: tried 7 times without success."
    )


def test_what_the_owner_says_of_the_blocked_head_is_shown() -> None:
    head = BlockedHead(
        topic="orders", queue=0, queue_offset=90, attempts=4, reason="LookupError: no till"
    )
    owner = replace(state("till-1", {"orders": (0,)}), blocked=(head,))

    picture = picture_of(
        [left(owner="till-1", stalled_ms=61_000)], [owner], [], [], [], {}, now_ms=NOW_MS
    )

    assert worded(picture["rows"][0]["trouble"]) == (
        "Blocked at offset 90: tried 4 times without success, nothing done for 61 s. "
        "LookupError: no till"
    )


def test_refusals_are_told_by_the_minute_and_one_is_not_rounded_to_none() -> None:
    refused = {("billing", "orders", 0): 0.01, ("billing", "orders", 1): 2.0}

    picture = picture_of(
        [left(0), left(1), left(2)], [], [], [], [], {}, refused=refused, now_ms=NOW_MS
    )

    assert [row["refused_per_min"] for row in picture["rows"]] == [1, 120, None]
    assert picture["refused_per_min"] == 121
    assert shown(left())["refused_per_min"] is None


@pytest.mark.parametrize(
    ("line", "change", "text"),
    [
        (transition(1), "acquired", "by till-1, epoch 3.17"),
        (
            transition(1, LockChange.TAKEN_OVER, previous_owner="till-0"),
            "taken over",
            "by till-1 from till-0, whose time was over, epoch 3.17",
        ),
        (
            transition(1, LockChange.EXPIRED, owner="", previous_owner="till-0"),
            "expired",
            "of till-0, which did not renew it, epoch 3.17",
        ),
        (
            transition(1, LockChange.FORCED, owner="", previous_owner="till-0", reason="stuck"),
            "forced",
            "from till-0, epoch 3.17: stuck",
        ),
    ],
)
def test_a_change_of_a_lock_is_told_in_words(line: LockTransition, change: str, text: str) -> None:
    told = line_of(line)

    assert (told["change"], told["what"], worded(told["text"])) == (
        change,
        "billing · orders/3",
        text,
    )


def test_a_rebalance_is_told_in_words() -> None:
    told = line_of(rebalance(1))

    assert worded(told["text"]) == "join: 2 members, 1 queue moved, AVG, generation 3.17"


def test_the_tail_takes_up_each_line_once_and_keeps_the_newest() -> None:
    engine = FakeEngine()
    engine.transitions = [transition(number) for number in (1, 2, 4, 5)]
    engine.shared_out = [rebalance(3)]
    tail = HistoryTail(lines_max=4)

    lines = tail.follow(engine.api)
    again = tail.follow(engine.api)
    engine.transitions.append(transition(9))
    newer = tail.follow(engine.api)

    assert [line["id"] for line in lines] == ["5", "4", "3", "2"]
    assert again == lines
    assert [line["id"] for line in newer] == ["9", "5", "4", "3"]


def test_a_fence_is_the_stores_epoch_and_a_number() -> None:
    assert fence_text((1 << 32) | 1) == "1.1"


@pytest.fixture
def busy(engine: FakeEngine) -> FakeEngine:
    """Return an engine with a held queue, a line of history and hostile names."""
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)
    engine.left = [left(owner=POLYGLOT, head_attempts=7)]
    engine.locks = [replace(lock(), owner=POLYGLOT)]
    engine.transitions = [transition(1, owner=POLYGLOT)]
    return engine


def test_the_page_shows_locks_and_changes_and_runs_no_markup_of_others(
    browser: Client, feed: Feed, busy: FakeEngine
) -> None:
    board.put(feed.sample(busy.api))

    answer = browser.get("/locks")

    page = parsed(answer)
    assert answer.status_code == 200
    for text in ("held", "3.17", "acquired", "billing · orders/3"):
        assert text in page.texts
    assert POLYGLOT in page.texts
    assert not [image for image in page.all("img") if image.get("onerror")]


def test_an_empty_page_says_how_a_lock_comes_about(
    browser: Client, feed: Feed, engine: FakeEngine
) -> None:
    board.put(feed.sample(engine.api))

    page = parsed(browser.get("/locks"))

    assert "No group has read anything yet." in page.texts
    assert "No lock and no assignment has changed of late." in page.texts


async def test_viewers_get_the_locks_pushed(feed: Feed, busy: FakeEngine) -> None:
    board.put(feed.sample(busy.api))
    viewer = Viewer("locks")
    await viewer.arrive()

    frame = await viewer.frame()
    await viewer.leave()

    (row,) = frame["rows"]
    assert row["owner"] == POLYGLOT
    assert frame["lines"][0]["change"] == "acquired"


@pytest.mark.django_db
def test_a_member_shows_its_queues_and_what_is_wrong_with_it(
    browser: Client, feed: Feed, engine: FakeEngine
) -> None:
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)
    engine.seen = [seen("till-1"), seen("till-2"), seen("sharer")]
    engine.states = [
        state("till-1", {"orders": (0, 1, 2, 5)}, conflicts=("orders",)),
        state("till-2", {}),
    ]
    board.put(feed.sample(engine.api))

    texts = parsed(browser.get("/groups/billing/members/")).texts

    assert "orders 0-2, 5" in texts
    assert any(text.startswith("Wants something else of orders") for text in texts)
    assert "Idle: the others have all queues." in texts
    assert "shared" in texts


def seen(client_id: str) -> ClientSeen:
    return ClientSeen(
        group="billing",
        client_id=client_id,
        topics=("orders",),
        first_seen_ms=NOW_MS,
        last_seen_ms=NOW_MS,
        is_waiting=True,
    )


def state(
    client_id: str, assignment: dict[str, tuple[int, ...]], conflicts: tuple[str, ...] = ()
) -> MemberState:
    return MemberState(
        group="billing",
        client_id=client_id,
        subscriptions=(Subscription(topic="orders"),),
        model=MessageModel.CLUSTERING,
        ordered=True,
        strategy=None,
        site="",
        generation=EPOCH,
        joined_ms=NOW_MS,
        last_seen_ms=NOW_MS,
        is_waiting=True,
        assignment=assignment,
        conflicts=conflicts,
    )
