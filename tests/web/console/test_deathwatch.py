"""Dead letters on the overview: figures of rows that are as old as they say."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client

from apps.console.board import board
from apps.console.deathwatch import GROUPS_SHOWN, OLD_AFTER_MS, DeathWatch, cut, of_group
from apps.console.feed import Feed
from apps.console.frames import shown
from apps.core.moments import moment
from apps.deadletters.selectors import Waiting
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock
from tests.web.console.test_pages import parsed
from tests.web.console.texts import worded


def waiting(group: str, count: int, *, clock: HandClock, minutes: int = 0) -> Waiting:
    died_at = moment(clock.wall_ms()) - timedelta(minutes=minutes)
    return Waiting(
        group=group, waiting=count, oldest_at=died_at if count else None, died_today=count + 1
    )


def test_before_the_first_reading_nothing_is_known(deaths: DeathWatch) -> None:
    picture = deaths.picture()

    assert (picture["state"], picture["waiting"], picture["died_today"]) == (
        "not known", None, None,
    )  # fmt: skip
    assert picture["groups"] == []


def test_the_groups_with_most_are_told_and_how_many_are_left_out(
    deaths: DeathWatch, clock: HandClock
) -> None:
    found = [waiting(f"g{n}", 9 - n, clock=clock, minutes=n) for n in range(8)]
    deaths.take(lambda: [*found, waiting("done", 0, clock=clock)])
    clock.now_ms += 3_000

    picture = deaths.picture()

    assert (picture["state"], picture["note"]) == ("fresh", "")
    assert (picture["waiting"], picture["died_today"]) == (44, 44 + 8 + 1)
    assert picture["oldest_s"] == 7 * 60 + 3
    assert [row["group"] for row in cut(picture)["groups"]] == [
        f"g{n}" for n in range(GROUPS_SHOWN)
    ]
    assert len(picture["groups"]) == 9
    assert worded(picture["note_of_groups"]) == "and 3 more groups"


def test_without_any_that_waits_zero_is_zero(deaths: DeathWatch, clock: HandClock) -> None:
    deaths.take(lambda: [waiting("done", 0, clock=clock)])

    picture = deaths.picture()

    assert (picture["waiting"], picture["died_today"], picture["oldest_s"]) == (0, 1, None)
    assert picture["note_of_groups"] == ""
    assert cut(picture)["groups"] == []
    assert of_group(picture, "done") == picture["groups"][0]


def test_while_the_database_is_away_the_figures_stay_and_say_how_old_they_are(
    deaths: DeathWatch, clock: HandClock
) -> None:
    def away() -> list[Waiting]:
        raise OperationalError

    deaths.take(lambda: [waiting("g", 2, clock=clock)])
    clock.now_ms += OLD_AFTER_MS
    with pytest.raises(OperationalError):
        deaths.take(away)
    still_fresh = deaths.picture()
    clock.now_ms += 1_000
    stale = deaths.picture()

    assert still_fresh["state"] == "fresh"
    assert (stale["state"], stale["waiting"], stale["oldest_s"]) == ("stale", 2, 21)
    assert worded(stale["note"]) == "as of 21 s ago: the database is away"


def test_the_overview_has_a_line_and_links_to_the_groups(
    browser: Client, feed: Feed, engine: FakeEngine, deaths: DeathWatch, clock: HandClock
) -> None:
    deaths.take(lambda: [waiting("bill ing", 3, clock=clock, minutes=10)])
    board.put(feed.sample(engine.api))

    page = parsed(browser.get("/"))
    texts = " ".join(page.texts)

    assert "Dead letters 3 wait for somebody, the oldest for 10 min ; 4 died in 24 hours" in texts
    assert "/dead-letters/bill%20ing/" in [link["href"] for link in page.all("a")]


def test_the_overview_without_dead_letters_has_no_table_of_them(
    browser: Client, feed: Feed, engine: FakeEngine
) -> None:
    board.put(feed.sample(engine.api))

    page = parsed(browser.get("/"))

    (table,) = [table for table in page.all("table") if table.get("data-rows") == "deaths.groups"]
    assert "hidden" in table
    assert "not read yet" in page.texts


def test_a_hostile_group_is_text_and_the_line_goes_to_viewers(
    browser: Client, feed: Feed, engine: FakeEngine, deaths: DeathWatch, clock: HandClock
) -> None:
    deaths.take(lambda: [waiting(POLYGLOT, 1, clock=clock)])
    posted = feed.sample(engine.api)
    board.put(posted)

    page = parsed(browser.get("/"))

    assert POLYGLOT in page.texts
    assert shown(posted.snapshot)["deaths"]["groups"][0]["group"] == POLYGLOT
