"""The table of retries on a group's page: bars by failures, and what is not known."""

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.deathwatch import OLD_AFTER_MS, DeathWatch
from apps.console.feed import Feed
from apps.engine.errors import Unreachable
from apps.engine.failuretypes import RetryCount
from apps.engine.types import CatalogSnapshot, GroupSpec
from tests.web.console.fakes import FakeEngine, HandClock
from tests.web.console.test_deathwatch import waiting
from tests.web.console.test_pages import Page, parsed
from tests.web.fake_engine import FakeEngine as Care


@pytest.fixture(autouse=True)
def posted(feed: Feed, engine: FakeEngine) -> None:
    engine.add_topic("orders")
    engine.send("orders", 0, 5)
    engine.consume("billing", "orders", 0, upto=0)
    board.put(feed.sample(engine.api))


def shown(browser: Client) -> tuple[Page, str]:
    answer = browser.get("/groups/billing/retries/")
    assert answer.status_code == 200
    page = parsed(answer)
    return page, " ".join(page.texts)


def test_counts_are_rows_with_bars(browser: Client, care: Care) -> None:
    care.catalog = CatalogSnapshot(
        version=1, groups={"billing": GroupSpec(name="billing", retry_max=3)}
    )
    care.to_come["billing"] = (
        RetryCount(failures=0, in_topic=1),
        RetryCount(failures=2, in_topic=30, delayed=8, in_place=2),
    )

    page, texts = shown(browser)

    assert "sent again by hand 1 1 0 0 once 0 0 0 0 2 times 40 30 8 2 3 times 0 0 0 0" in texts
    bars = [path["d"] for path in page.all("path") if (path["d"] or "").startswith("M0 4")]
    assert bars == ["M0 4H2", "M0 4H100"]
    assert "A message that has failed 3 times dies with its next failure." in texts
    assert "There was more" not in texts


def test_a_look_that_was_cut_says_so(browser: Client, care: Care) -> None:
    care.to_come["billing"] = (RetryCount(failures=1, in_topic=1),)
    care.is_counted_whole = False

    assert "There was more than is looked at: these are the first." in shown(browser)[1]


def test_nothing_to_come_and_no_limit_are_said(browser: Client, care: Care) -> None:
    care.catalog = CatalogSnapshot(
        version=1, groups={"billing": GroupSpec(name="billing", ordered=True)}
    )

    _, texts = shown(browser)

    assert "Nothing is to come again." in texts
    assert "No message of this group dies" in texts


def test_dead_letters_are_told_with_their_age(
    browser: Client,
    care: Care,
    feed: Feed,
    engine: FakeEngine,
    deaths: DeathWatch,
    clock: HandClock,
) -> None:
    unknown = shown(browser)[1]
    deaths.take(lambda: [waiting("billing", 2, clock=clock, minutes=10)])
    board.put(feed.sample(engine.api))
    known = shown(browser)[1]
    clock.now_ms += OLD_AFTER_MS + 1
    board.put(feed.sample(engine.api))
    stale = shown(browser)[1]
    deaths.take(lambda: [waiting("another", 2, clock=clock)])
    board.put(feed.sample(engine.api))
    without = shown(browser)[1]

    assert "dead letters: not read yet" in unknown
    assert "2 dead letters wait, the oldest for 10 min; 3 died in 24 hours" in known
    assert "3 died in 24 hours, as of 20 s ago: the database is away" in stale
    assert "0 dead letters wait; 0 died in 24 hours" in without


def test_an_engine_that_cannot_count_leaves_the_rest(browser: Client, care: Care) -> None:
    care.care_refusal = Unreachable("no answer")

    _, texts = shown(browser)

    assert "The retries cannot be counted: no answer." in texts
    assert "What if" in texts
