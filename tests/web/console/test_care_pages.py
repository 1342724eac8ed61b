"""Pages of groups and locks, and what their buttons do, against fakes of engine and care."""

from typing import Any

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.core.moments import moment
from apps.engine.caretypes import CareAct, Suspension, WhatIf
from apps.engine.clock import SystemClock
from apps.engine.errors import HeadMoved, LockLost
from apps.engine.grouptypes import LockChange, QueueBacklog, QueueLockState
from apps.engine.types import CatalogSnapshot, GroupSpec, Strategy, TopicSpec
from apps.groups.models import LockTransition, OffsetReset
from tests.web.console.fakes import POLYGLOT, FakeEngine
from tests.web.console.test_pages import parsed
from tests.web.fake_engine import FakeEngine as Care

pytestmark = pytest.mark.django_db(transaction=True)

LOCK = "/locks/billing~orders~0"


def backlog(**what: Any) -> QueueBacklog:
    values: dict[str, Any] = {
        "group": "billing", "topic": "orders", "queue": 0, "committed": 3, "delivered": 3,
        "max_offset": 9, "in_flight": 0, "oldest_age_ms": 61_000, "stalled_ms": 70_000,
        "head_attempts": 8, "owner": "till-1", "lock_epoch": 5, "lock_expires_in_ms": 9_000,
    }  # fmt: skip
    return QueueBacklog(**(values | what))


def held(owner: str = "till-1") -> QueueLockState:
    return QueueLockState(
        group="billing",
        topic="orders",
        queue=0,
        owner=owner,
        epoch=(1 << 32) + 5,
        acquired_ms=SystemClock().wall_ms() - 60_000,
        expires_in_ms=9_000,
    )


@pytest.fixture
def posted(feed: Feed, engine: FakeEngine, care: Care) -> None:
    engine.add_topic("orders")
    engine.send("orders", 0, 9)
    engine.consume("billing", "orders", 0, upto=3)
    engine.left = [backlog()]
    engine.locks = [held()]
    board.put(feed.sample(engine.api))
    care.catalog = CatalogSnapshot(
        version=1,
        topics={"orders": TopicSpec(name="orders", queue_count=1)},
        groups={"billing": GroupSpec(name="billing", ordered=True)},
    )
    care.left_to_do = [backlog()]
    care.locks = [held()]
    care.lengths["orders", 0] = 9


def texts(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    return " ".join(parsed(answer).texts)


TABS = ("", "members/", "locks/", "retries/", "offsets/", "diagnosis/", "what-if/")


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.usefixtures("posted")
def test_each_tab_of_a_group_is_a_page_that_leads_to_the_others(browser: Client, tab: str) -> None:
    page = parsed(browser.get(f"/groups/billing/{tab}"))

    links = [link["href"] for link in page.all("a")]
    assert [f"/groups/billing/{other}" in links for other in TABS] == [True] * len(TABS)
    (here,) = [link for link in page.all("a") if link.get("aria-current") == "page"]
    assert here["href"] == f"/groups/billing/{tab}"


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.usefixtures("posted")
def test_each_tab_of_an_unknown_group_is_a_404(browser: Client, tab: str) -> None:
    assert browser.get(f"/groups/nobody/{tab}").status_code == 404


@pytest.mark.usefixtures("posted")
def test_the_backlog_has_owner_age_and_a_link_to_the_queue(browser: Client) -> None:
    page = parsed(browser.get("/groups/billing/"))

    assert "/locks/billing~orders~0/" in [link["href"] for link in page.all("a")]
    assert {"till-1", "61 s ago"} <= set(page.texts)


@pytest.mark.usefixtures("posted")
def test_the_page_of_a_lock_offers_what_may_be_done(browser: Client) -> None:
    page = parsed(browser.get(f"{LOCK}/"))

    said = " ".join(page.texts)
    assert "Blocked: the message at the head does not get done." in said
    assert "8 times" in said or "The message cannot be shown" in said
    links = [link["href"] for link in page.all("a")]
    for act in ("suspend", "skip", "park"):
        assert f"{LOCK}/confirm?act={act}" in links
    (owner,) = [one for one in page.all("input") if one.get("name") == "expected_owner"]
    assert owner["value"] == "till-1"


@pytest.mark.usefixtures("posted")
def test_the_locks_page_leads_to_what_is_stuck(browser: Client) -> None:
    page = parsed(browser.get("/locks"))

    links = [link["href"] for link in page.all("a")]
    assert [f"{LOCK}/confirm?act={act}" in links for act in ("skip", "park", "suspend")] == [
        True
    ] * 3
    assert f"{LOCK}/" in links


@pytest.mark.usefixtures("posted")
def test_a_confirmation_names_the_offset_that_is_posted(browser: Client, care: Care) -> None:
    page = parsed(browser.get(f"{LOCK}/confirm?act=skip"))
    (offset,) = [one for one in page.all("input") if one.get("name") == "expected_offset"]
    assert offset["value"] == "3"

    answer = browser.post(
        f"{LOCK}/skip", {"expected_offset": offset["value"], "reason": "poison"}, follow=True
    )

    (asked,) = care.attended
    assert (asked.act, asked.expected_offset, asked.reason) == (CareAct.SKIP, 3, "poison")
    assert asked.by.startswith("anonymous at")
    assert "Skipped message 3; the head is 4 now." in parsed(answer).texts


@pytest.mark.parametrize("act", ["suspend", "resume", "park"])
@pytest.mark.usefixtures("posted")
def test_each_button_does_its_act(browser: Client, care: Care, act: str) -> None:
    answer = browser.post(f"{LOCK}/{act}", {"expected_offset": "3", "reason": "a look"})

    assert (answer.status_code, answer["Location"]) == (303, f"{LOCK}/")
    (asked,) = care.attended
    assert asked.act == act


@pytest.mark.usefixtures("posted")
def test_what_is_refused_is_said_and_nothing_is_done_without_a_reason(
    browser: Client, care: Care
) -> None:
    answer = browser.post(f"{LOCK}/skip", {"expected_offset": "3", "reason": " "}, follow=True)
    assert "A reason has 1 to 500 characters." in parsed(answer).texts
    answer = browser.post(f"{LOCK}/skip", {"expected_offset": "x", "reason": "y"}, follow=True)
    assert "Nothing was done: the page did not say which message is meant." in parsed(answer).texts
    assert care.attended == []

    care.operator_refusal = HeadMoved("the head of orders/0 is 4, not 3")
    answer = browser.post(f"{LOCK}/park", {"expected_offset": "3", "reason": "y"}, follow=True)
    assert "The head of orders/0 is 4, not 3." in parsed(answer).texts


@pytest.mark.parametrize("act", ["skip", "park", "suspend", "resume", "release"])
@pytest.mark.usefixtures("posted")
def test_no_act_is_done_by_looking_at_it(browser: Client, care: Care, act: str) -> None:
    assert browser.get(f"{LOCK}/{act}").status_code == 405
    assert care.attended == []


@pytest.mark.usefixtures("posted")
def test_a_lock_is_released_from_whom_it_was_shown_with(browser: Client, care: Care) -> None:
    body = {"expected_owner": "till-1", "reason": "stuck"}

    answer = browser.post(f"{LOCK}/release", body, follow=True)
    again = browser.post(f"{LOCK}/release", body, follow=True)
    care.locks = [held("till-2")]
    refused = browser.post(f"{LOCK}/release", body, follow=True)

    assert "The lock was taken from till-1." in parsed(answer).texts
    assert "Nobody had the lock." in parsed(again).texts
    assert "The lock is till-2's." in parsed(refused).texts
    assert LockLost.code == "lock_lost"


@pytest.mark.usefixtures("posted")
def test_a_suspended_queue_says_by_whom_and_why_and_can_be_resumed(
    browser: Client, care: Care
) -> None:
    suspension = Suspension(at_ms=0, by="ann", reason=POLYGLOT[:60])
    care.left_to_do = [backlog(suspension=suspension)]

    page = parsed(browser.get(f"{LOCK}/"))

    assert any(f"by ann: {POLYGLOT[:60]}" in text for text in page.texts)
    links = [link["href"] for link in page.all("a")]
    assert f"{LOCK}/confirm?act=resume" in links
    assert f"{LOCK}/confirm?act=suspend" not in links


@pytest.mark.usefixtures("posted")
def test_owners_are_drawn_over_time(browser: Client) -> None:
    now_ms = SystemClock().wall_ms()
    for number, (change, owner, before) in enumerate(
        [
            (LockChange.ACQUIRED, "till-1", ""),
            (LockChange.TAKEN_OVER, "till-2", "till-1"),
            (LockChange.FORCED, "", "till-2"),
        ]
    ):
        LockTransition.objects.create(
            store_id="s",
            number=number,
            at=moment(now_ms - 1_800_000 + number * 600_000),
            group="billing",
            topic="orders",
            queue=0,
            change=change.value,
            owner=owner,
            previous_owner=before,
            epoch=number,
            reason="",
        )

    for path in (f"{LOCK}/", "/groups/billing/locks/"):
        page = parsed(browser.get(path))
        bars = [one for one in page.all("rect") if "owned" in (one["class"] or "")]
        marks = [one["class"] for one in page.all("rect") if "mark" in (one["class"] or "")]
        assert len(bars) == 2
        assert marks == ["mark taken_over", "mark forced"]
    assert "No lock changed hands" not in texts(browser, f"{LOCK}/?hours=24")


@pytest.mark.parametrize("lock", ["x", "a~b", "a~b~c", "%2E%2E", "a~b~99999"])
@pytest.mark.usefixtures("posted")
def test_what_names_no_lock_is_a_404(browser: Client, lock: str) -> None:
    assert browser.get(f"/locks/{lock}/").status_code == 404
    assert browser.get(f"/locks/{lock}/confirm?act=skip").status_code == 404


@pytest.mark.usefixtures("posted")
def test_an_act_that_is_none_is_a_404(browser: Client) -> None:
    assert browser.get(f"{LOCK}/confirm?act=explode").status_code == 404


# --- offsets -----------------------------------------------------------------------------------


def token_of(page: Any) -> str:
    (field,) = [one for one in page.all("input") if one.get("name") == "token"]
    return str(field["value"])


@pytest.mark.usefixtures("posted")
def test_offsets_are_previewed_applied_and_undone_by_pages(browser: Client, care: Care) -> None:
    care.at["billing", "orders", 0] = 3
    page = parsed(browser.get("/groups/billing/offsets/?target=earliest"))
    assert "3 messages come again, 0 are passed over" in " ".join(page.texts)

    answer = browser.post(
        "/groups/billing/offsets/apply", {"token": token_of(page), "reason": "again"}, follow=True
    )

    assert "The group goes on at earliest in 1 queues. It can be undone below." in " ".join(
        parsed(answer).texts
    )
    assert care.at["billing", "orders", 0] == 0
    row = OffsetReset.objects.get()
    undone = browser.post(
        "/groups/billing/offsets/undo", {"undo_id": str(row.pk), "reason": "oh"}, follow=True
    )
    assert "Undone: the group goes on where it was in 1 queues." in parsed(undone).texts
    assert care.at["billing", "orders", 0] == 3
    assert {"undone", f"undo of {row.pk}"} <= set(parsed(undone).texts)


@pytest.mark.usefixtures("posted")
def test_a_group_that_moved_meanwhile_is_told_and_nothing_is_written(
    browser: Client, care: Care
) -> None:
    page = parsed(browser.get("/groups/billing/offsets/?target=latest"))
    care.at["billing", "orders", 0] = 5

    answer = browser.post(
        "/groups/billing/offsets/apply", {"token": token_of(page), "reason": "x"}, follow=True
    )

    assert "Orders/0 is at 5." in parsed(answer).texts
    assert not OffsetReset.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        "target=time",
        "target=offset",
        "target=offset&offset=-1",
        "target=x",
        "target=earliest&queue=0",
    ],
)
@pytest.mark.usefixtures("posted")
def test_a_target_that_lacks_something_says_so_beside_the_field(
    browser: Client, query: str
) -> None:
    page = parsed(browser.get(f"/groups/billing/offsets/?{query}"))

    assert page.all("span")
    assert not [one for one in page.all("input") if one.get("name") == "token"]


@pytest.mark.usefixtures("posted")
def test_a_bad_undo_is_refused_in_words(browser: Client) -> None:
    for number in ("", "x", "7"):
        answer = browser.post(
            "/groups/billing/offsets/undo", {"undo_id": number, "reason": "x"}, follow=True
        )
        assert answer.status_code == 200


# --- what-if -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("posted")
def test_what_if_shows_who_would_read_what(browser: Client, care: Care) -> None:
    care.imagined = WhatIf(
        strategy=Strategy.AVG_BY_CIRCLE,
        assignment={"a": {"orders": (0, 2)}, "~1": {}},
        before={"a": {"orders": (0,)}, "b": {"orders": (1,)}},
        added=("~1",),
        idle=("~1",),
        queues_moved=2,
    )

    said = texts(browser, "/groups/billing/what-if/?strategy=AVG_BY_CIRCLE&members=2")

    (asked,) = care.what_ifs
    assert (asked.strategy, asked.member_count) == (Strategy.AVG_BY_CIRCLE, 2)
    assert "By AVG_BY_CIRCLE" in said
    assert "2 queues would move, 1 member idle" in said
    assert "a orders 0 orders 0, 2" in said
    for query in ("members=-1", "members=x", "strategy=MINE"):
        assert texts(browser, f"/groups/billing/what-if/?{query}")
    assert len(care.what_ifs) == 1
