"""History of groups and topics: which slots are drawn, where a line breaks, what pages say."""

from collections.abc import Sequence

import pytest
from django.test import Client

from apps.bridge import engine as bridge
from apps.console import histories
from apps.console.histories import RANGES, by_slot
from apps.engine.clock import SystemClock
from apps.metrics.models import GroupSample, TopicSample
from apps.metrics.series import SERIES, Point
from tests.web.console.fakes import POLYGLOT
from tests.web.console.test_pages import Page, parsed
from tests.web.metrics.fakes import START_MS, count, group_sample, topic_sample

NOW_MS = START_MS + 3_600_000
EMPTY = "Nothing was sampled in this time, or it is not rolled up yet."


def points(*values: tuple[int, float | None]) -> list[Point]:
    return [Point(at_ms=at_ms, value=value, low=None, high=None) for at_ms, value in values]


def test_a_slot_without_a_sample_and_an_unknown_value_are_gaps() -> None:
    shown = RANGES["5m"]
    found = points((START_MS, 1), (START_MS + 5_000, None), (START_MS + 15_000, 4))

    line = by_slot(found, series="lag", shown=shown, from_ms=START_MS)

    assert line[:5] == [1, None, None, 4, None]
    assert len(line) == 60


def test_what_lies_outside_of_the_range_is_not_drawn() -> None:
    found = points((START_MS - 5_000, 1), (START_MS + 300_000, 1))

    line = by_slot(found, series="lag", shown=RANGES["5m"], from_ms=START_MS)

    assert set(line) == {None}


def test_ages_are_drawn_in_seconds() -> None:
    found = points((START_MS, 90_000))

    line = by_slot(found, series="oldest_age_ms", shown=RANGES["5m"], from_ms=START_MS)

    assert line[0] == 90


def test_every_chart_is_of_series_that_are_kept_of_what_it_is_about() -> None:
    of_group = [s for chart in histories.GROUP_CHARTS for s, _, _ in chart.series]
    of_topic = [s for chart in histories.TOPIC_CHARTS for s, _, _ in chart.series]

    assert all(SERIES[name].by_group for name in of_group)
    assert all(SERIES[name].by_topic for name in of_topic)


def test_every_range_has_a_point_for_each_slot_and_not_too_many() -> None:
    assert list(RANGES) == ["5m", "1h", "6h", "24h", "7d"]
    for shown in RANGES.values():
        assert shown.span_ms % shown.resolution.ms == 0
        assert 60 <= shown.span_ms // shown.resolution.ms <= 1_440


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: NOW_MS)
    bridge.remove()
    return Client()


def charts_of(page: Page) -> Sequence[str | None]:
    return [path["d"] for path in page.all("path")]


@pytest.mark.django_db
def test_a_group_has_lag_age_and_rates_drawn_on_the_server(browser: Client) -> None:
    rows = []
    for number in (1, 2, 3, 10, 11):
        row = group_sample(NOW_MS - number * 5_000, "billing", "orders", lag=number * 1_000)
        for column, value in count("oldest_age_ms", 2_000).items():
            setattr(row, column, value)
        rows.append(row)
    GroupSample.objects.bulk_create(rows)

    page = parsed(browser.get("/groups/billing/history?range=5m"))

    # Of rates nothing is known, so nothing is drawn.
    lag, age = charts_of(page)
    assert (str(lag).count("M"), str(age).count("M")) == (2, 2)
    assert page.texts.count(EMPTY) == 1
    assert "highest 11,000" in page.texts
    assert [link["href"] for link in page.all("a") if link.get("aria-current") == "page"] == [
        "/groups", "?range=5m",
    ]  # fmt: skip


@pytest.mark.django_db
def test_a_topic_has_rates_lag_and_what_it_holds(browser: Client) -> None:
    TopicSample.objects.bulk_create(
        topic_sample(NOW_MS - number * 60_000, "orders", resolution_s=60, held=7, send_rate=1.5)
        for number in range(1, 6)
    )

    page = parsed(browser.get("/topics/orders/history?range=6h"))

    assert page.texts.count("highest 7") == 1
    assert "highest 1.5" in page.texts


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/groups/none/history", "/topics/none/history?range=moon"])
def test_without_samples_the_page_says_so(browser: Client, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 200
    assert EMPTY in parsed(answer).texts


@pytest.mark.django_db
def test_a_hostile_name_is_text(browser: Client) -> None:
    page = parsed(browser.get("/groups/%3Cscript%3Ealert(1)%3C%2Fscript%3E/history"))

    assert any("<script>alert(1)</script>" in text for text in page.texts)
    assert all("src" in script for script in page.all("script"))
    assert POLYGLOT not in str(page.elements)
