"""Who is in a group, as pictures, frames and the group's page show it."""

import pytest
from django.test import Client

from apps.console import frames
from apps.console.board import board
from apps.console.feed import Feed
from apps.console.members import MEMBERS_MAX
from apps.console.snapshot import GroupRow
from apps.engine.types import ClientSeen
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock
from tests.web.console.test_pages import parsed
from tests.web.console.texts import worded


def seen(
    client_id: str,
    clock: HandClock,
    *,
    group: str = "billing",
    topics: tuple[str, ...] = ("orders",),
    first_s: int = 600,
    last_s: int = 0,
    is_waiting: bool = False,
    software: str = "",
    address: str = "",
) -> ClientSeen:
    """Return a client first and last seen so many seconds ago."""
    return ClientSeen(
        group=group,
        client_id=client_id,
        topics=topics,
        first_seen_ms=clock.wall_ms() - first_s * 1000,
        last_seen_ms=clock.wall_ms() - last_s * 1000,
        is_waiting=is_waiting,
        software=software,
        address=address,
    )


def the_group(feed: Feed, engine: FakeEngine) -> GroupRow:
    (group,) = feed.sample(engine.api).snapshot["groups"]
    return group


def test_a_group_has_its_own_members_by_client_id(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.seen = [
        seen("b", clock, last_s=7),
        seen("a", clock, is_waiting=True),
        seen("c", clock, group="shipping"),
    ]

    groups = feed.sample(engine.api).snapshot["groups"]

    assert [(group["name"], group["member_count"]) for group in groups] == [
        ("billing", 2),
        ("shipping", 1),
    ]
    first, second = groups[0]["members"]
    assert (first["client_id"], first["presence"], first["last_seen_s"]) == ("a", "waiting", 0)
    assert (second["client_id"], second["presence"], second["last_seen_s"]) == (
        "b",
        "not waiting",
        7,
    )
    assert (second["topics"], second["first_seen_s"]) == (["orders"], 600)
    assert groups[0]["waiting_count"] == 1


def test_a_group_that_only_waits_is_there_and_its_lag_is_unknown(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.add_topic("orders")
    engine.seen = [seen("a", clock, is_waiting=True)]

    snapshot = feed.sample(engine.api).snapshot

    (group,) = snapshot["groups"]
    assert (group["lag"], group["lag_level"], group["lag_trend"]) == (None, "unknown", None)
    assert (group["topics"], group["queues"]) == (["orders"], [])
    assert snapshot["totals"]["lag"] is None


def test_a_group_whose_clients_all_went_has_no_members(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)

    group = the_group(feed, engine)

    assert (group["members"], group["member_count"], group["members_note"]) == ([], 0, "")


def test_of_many_members_those_seen_last_are_listed_and_the_rest_is_told(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.seen = [
        seen(f"client-{number:03}", clock, last_s=number) for number in range(MEMBERS_MAX + 5)
    ]

    group = the_group(feed, engine)

    assert group["member_count"] == MEMBERS_MAX + 5
    assert [member["client_id"] for member in group["members"]] == [
        f"client-{number:03}" for number in range(MEMBERS_MAX)
    ]
    assert str(MEMBERS_MAX) in worded(group["members_note"])


def test_a_wall_clock_set_back_makes_nobody_seen_in_the_future(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.seen = [seen("a", clock, first_s=-60, last_s=-60)]

    (member,) = the_group(feed, engine)["members"]

    assert (member["first_seen_s"], member["last_seen_s"]) == (0, 0)


def test_a_frame_leaves_members_out_where_they_are_too_many_together(
    feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    def shown_of(groups: int) -> list[bool]:
        engine.seen = [
            seen(f"client-{number}", clock, group=f"group-{group:02}")
            for group in range(groups)
            for number in range(MEMBERS_MAX)
        ]
        shown = frames.shown(feed.sample(engine.api).snapshot)
        return [group["members"] is None for group in shown["groups"]]

    most = frames.MEMBERS_MAX // MEMBERS_MAX
    assert shown_of(most) == [False] * most
    assert shown_of(most + 1) == [True] * (most + 1)


@pytest.fixture
def waiting_group(feed: Feed, engine: FakeEngine, clock: HandClock) -> None:
    """Post a group with two members and no progress."""
    engine.seen = [
        seen("vm@4711#one", clock, topics=("orders", "refunds"), is_waiting=True),
        seen(POLYGLOT, clock, last_s=75),
    ]
    board.put(feed.sample(engine.api))


@pytest.mark.usefixtures("waiting_group")
@pytest.mark.django_db
def test_the_page_of_a_group_lists_its_members(browser: Client) -> None:
    answer = browser.get("/groups/billing/members/")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    for text in ("vm@4711#one", "orders, refunds", "10 min ago", "waiting", "75 s ago"):
        assert text in texts
    assert texts[texts.index("waiting now:") + 1] == "1"


@pytest.mark.usefixtures("waiting_group")
@pytest.mark.django_db
def test_a_hostile_client_id_is_text(browser: Client) -> None:
    page = parsed(browser.get("/groups/billing/members/"))

    assert POLYGLOT in page.texts
    assert [script.get("type") for script in page.all("script")] == ["module"] * 2
    assert len(page.all("img")) == 1


@pytest.mark.django_db
def test_a_member_says_what_it_is_and_where_it_comes_from(
    browser: Client, feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    engine.seen = [
        seen("a", clock, software="PYTHON 5.1.2", address="10.0.0.7:40123"),
        seen("b", clock),
        seen("c", clock, software=f"{POLYGLOT}\n\x1b", address="[fe80::1]:9"),
    ]
    board.put(feed.sample(engine.api))

    first, second, hostile = worded(the_group(feed, engine))["members"]
    texts = parsed(browser.get("/groups/billing/members/")).texts

    assert (first["software"], first["address"]) == ("PYTHON 5.1.2", "10.0.0.7:40123")
    assert (second["software"], second["address"]) == ("not told", "not told")
    assert "\n" not in hostile["software"]
    assert "\x1b" not in hostile["software"]
    for text in ("PYTHON 5.1.2", "10.0.0.7:40123", "not told", "[fe80::1]:9"):
        assert text in texts
