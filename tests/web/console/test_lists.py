"""Lists of topics and groups: what is found, in which order, what is unknown, at what cost."""

import csv
import io
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.bridge import engine as bridge
from apps.console.lists import STALE_MS, as_csv
from apps.core.moments import moment
from apps.engine.clock import SystemClock
from apps.metrics.lists import ROWS_PER_PAGE
from apps.metrics.models import GroupSample, GroupSummary, TopicSample, TopicSummary
from tests.web.console.fakes import POLYGLOT
from tests.web.console.test_pages import parsed
from tests.web.metrics.fakes import START_MS, group_sample, topic_sample

pytestmark = pytest.mark.django_db

MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be the moment of the samples, and nobody there to be asked: only rows are read."""
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: START_MS)
    bridge.remove()


@pytest.fixture
def browser() -> Client:
    return Client()


def group(name: str, *, at_ms: int = START_MS, **columns: Any) -> GroupSummary:
    given = {"lag": 0, "oldest_age_ms": 0, "blocked": 0, "members": 1, "topics": ["orders"]}
    return GroupSummary.objects.create(
        name=name,
        sampled_at=moment(at_ms),
        looked_at=moment(at_ms),
        **{**given, "topic_count": 1, **columns},
    )


def topic(name: str, **columns: Any) -> TopicSummary:
    given = {"type": "MIXED", "queue_count": 4, "held": 0, "send_rate": 0.0}
    return TopicSummary.objects.create(
        name=name, sampled_at=moment(START_MS), **{**given, **columns}
    )


def names(browser: Client, path: str) -> list[str | None]:
    """Return the names that a list shows, in order."""
    page = parsed(browser.get(path))
    links = [link for link in page.all("a") if link.get("class") == "name"]
    return [str(link["href"]).rstrip("/").rpartition("/")[2] for link in links]


def test_groups_come_with_the_worst_first_and_unknown_ones_last(browser: Client) -> None:
    for name, lag in (("a", 5), ("b", None), ("c", 500), ("d", 0)):
        group(name, lag=lag)

    assert names(browser, "/groups") == ["c", "a", "d", "b"]
    assert names(browser, "/groups?sort=name") == ["a", "b", "c", "d"]
    assert names(browser, "/groups?sort=pk") == ["c", "a", "d", "b"]


def test_groups_are_found_by_name_order_lag_and_blocked_queues(browser: Client) -> None:
    group("billing", lag=5)
    group("billing-eu", blocked=2, is_ordered=True)
    group("mailing", lag=7, blocked=1)

    assert names(browser, "/groups?q=BILL") == ["billing", "billing-eu"]
    assert names(browser, "/groups?lag=1") == ["mailing", "billing"]
    assert names(browser, "/groups?blocked=1") == ["mailing", "billing-eu"]
    assert names(browser, "/groups?type=ordered") == ["billing-eu"]
    assert names(browser, "/groups?type=concurrent&lag=1&q=mail") == ["mailing"]
    assert "The search finds no group." in parsed(browser.get("/groups?q=zzz")).texts


@pytest.mark.parametrize(
    "query", ["page=x", "page=-1", "page=99999999", "sort=%00", "q=%00a", "type=x"]
)
def test_a_query_that_makes_no_sense_asks_for_nothing(browser: Client, query: str) -> None:
    group("a")

    for path in ("/groups", "/topics", "/groups.csv", "/topics.csv"):
        assert browser.get(f"{path}?{query}").status_code == 200


def test_what_is_unknown_is_a_dash_and_never_a_zero(browser: Client) -> None:
    group("new", lag=None, oldest_age_ms=None, blocked=None, members=None)

    page = parsed(browser.get("/groups"))

    assert page.texts.count("\N{EN DASH}") >= 10
    assert "0" not in page.texts


def test_a_row_that_is_too_old_says_so_and_keeps_its_figures(browser: Client) -> None:
    group("fresh", lag=3, at_ms=START_MS - STALE_MS)
    group("stale", lag=4, at_ms=START_MS - 600_000)

    texts = parsed(browser.get("/groups")).texts

    assert texts.count("stale: of 10 min ago") == 1
    assert "4" in texts


def test_what_a_look_saw_too_long_ago_is_not_shown_as_of_now(browser: Client) -> None:
    found = group("a", members=77, oldest_age_ms=88_000, lag=1)
    assert "77" in parsed(browser.get("/groups")).texts
    GroupSummary.objects.filter(pk=found.pk).update(looked_at=moment(START_MS - 600_000))

    texts = parsed(browser.get("/groups")).texts

    assert "77" not in texts
    assert "88 s" not in texts


def test_the_last_hour_is_a_line_that_breaks_where_nobody_sampled(browser: Client) -> None:
    group("billing", lag=9)
    GroupSample.objects.bulk_create(
        group_sample(
            START_MS - minute * MINUTE_MS, "billing", "orders", resolution_s=60, lag=minute
        )
        for minute in (1, 2, 3, 30, 31)
    )

    drawn = [path["d"] or "" for path in parsed(browser.get("/groups")).all("path")]

    (line,) = drawn
    assert line.count("M") == 2


def test_topics_show_their_groups_with_lag_most_first(browser: Client) -> None:
    topic("orders", lag=12, lag_max=9, group_count=7)
    topic("unread")
    GroupSample.objects.bulk_create(
        group_sample(START_MS, f"g{number}", "orders", lag=number) for number in range(7)
    )
    GroupSample.objects.bulk_create([group_sample(START_MS - 5_000, "gone", "orders")])

    texts = parsed(browser.get("/topics")).texts

    shown = [text for text in texts if text.startswith("g") and len(text) == 2]
    assert shown == ["g6", "g5", "g4", "g3", "g2"]
    assert "and 2 more" in texts
    assert "nobody" in texts
    assert "gone" not in texts


def test_topics_are_found_by_type_and_sorted(browser: Client) -> None:
    topic("a", type="FIFO", send_rate=1.0)
    topic("b", type="DELAY", send_rate=2.0, lag=4)
    topic("c", send_rate=None)

    assert names(browser, "/topics?type=FIFO") == ["a"]
    assert names(browser, "/topics?sort=send_rate") == ["b", "a", "c"]
    assert names(browser, "/topics?lag=1") == ["b"]


def test_pages_follow_each_other_and_keep_what_is_asked(browser: Client) -> None:
    for number in range(ROWS_PER_PAGE + 3):
        group(f"g{number:03}", lag=1)

    first = parsed(browser.get("/groups?q=g&sort=name"))

    (following,) = [link["href"] for link in first.all("a") if link.get("rel") == "next"]
    assert following == "?q=g&sort=name&page=2"
    assert names(browser, f"/groups{following}") == ["g050", "g051", "g052"]
    assert names(browser, "/groups?q=g&sort=name&page=9") == ["g050", "g051", "g052"]


@pytest.mark.parametrize("path", ["/groups", "/topics", "/groups.csv", "/topics.csv"])
def test_a_list_asks_the_same_few_queries_however_long_it_is(browser: Client, path: str) -> None:
    counts = []
    for number in (3, 300):
        GroupSummary.objects.all().delete()
        TopicSummary.objects.all().delete()
        for one in range(number):
            group(f"g{one}")
            topic(f"t{one}")
        GroupSample.objects.bulk_create(
            group_sample(START_MS - MINUTE_MS * number, f"g{one}", f"t{one}", resolution_s=60)
            for one in range(number)
        )
        TopicSample.objects.bulk_create(
            topic_sample(START_MS - MINUTE_MS * number, f"t{one}", resolution_s=60)
            for one in range(number)
        )
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(path).status_code == 200
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 6


def test_a_file_has_every_row_that_is_asked_for_and_no_formula(browser: Client) -> None:
    group("=1+1", lag=None)
    group("@sum", lag=2)

    answer = browser.get("/groups.csv?sort=name")

    assert answer["Content-Disposition"] == 'attachment; filename="groups.csv"'
    first, second = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (first["name"], first["lag"]) == ("'=1+1", "")
    assert (second["name"], second["lag"]) == ("'@sum", "2")
    assert second["sampled_at"] == "2027-01-15T08:00:00.000Z"


def test_a_file_neutralises_formulas_in_lists_too() -> None:
    row = GroupSummary(name="a", topics=["=cmd"], sampled_at=moment(START_MS))

    assert '"\'=cmd"' in as_csv([row], ("topics",))


def test_hostile_names_are_text(browser: Client) -> None:
    group(POLYGLOT[:100], topics=[POLYGLOT])
    topic(POLYGLOT[:100], lag=1)
    GroupSample.objects.bulk_create([group_sample(START_MS, POLYGLOT[:100], POLYGLOT[:100])])

    for path in ("/groups", "/topics", f"/groups?q={'<script>'}"):
        page = parsed(browser.get(path))
        assert any("<script>alert(1)" in text for text in page.texts), path
        assert all("src" in script for script in page.all("script"))


@pytest.mark.parametrize("path", ["/groups", "/topics"])
def test_an_empty_list_says_why(browser: Client, path: str) -> None:
    assert any("seen yet" in text for text in parsed(browser.get(path)).texts)
