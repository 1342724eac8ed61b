"""The lines of the last hour: what is drawn, what is a gap, and of when it is."""

import asyncio
import re
from collections.abc import Sequence

import pytest
from django.db import OperationalError
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.console.sparklines import HEIGHT, WIDTH, LastHour
from apps.console.templatetags import mq
from apps.metrics.series import Totals
from mqweb import background
from mqweb.background import Background
from tests.web.console.fakes import FakeEngine, HandClock
from tests.web.console.test_pages import parsed
from tests.web.console.texts import worded

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
FROM_MS = NOW_MS - HOUR_MS


def slot(
    at_ms: int, rate: float | None, *, span_ms: int = 60_000, highest: float | None = None
) -> Totals:
    """Return a slot in which everything has one value."""
    return Totals(
        at_ms=at_ms,
        span_ms=span_ms,
        send_rate=rate,
        send_rate_max=rate if highest is None else highest,
        consume_rate=rate,
        consume_rate_max=rate,
        lag_max=None if rate is None else int(rate),
    )


def points(path: str) -> list[list[tuple[float, float]]]:
    """Return the points of each unbroken part of a path."""
    number = r"(-?[\d.]+)"
    return [
        [(float(x), float(y)) for x, y in re.findall(f"{number} {number}", part)]
        for part in path.split("M")[1:]
    ]


def drawn(totals: Sequence[Totals], *, now_ms: int = NOW_MS) -> list[list[tuple[float, float]]]:
    last_hour = LastHour()
    last_hour.take(totals, now_ms=now_ms)
    return points(last_hour.picture(now_ms=now_ms)["sent"]["path"])


def test_a_slot_is_drawn_in_its_middle_and_the_highest_value_at_the_top() -> None:
    line = drawn([slot(FROM_MS, 0.0), slot(FROM_MS + 60_000, 5.0), slot(FROM_MS + 120_000, 10.0)])

    assert line == [[(5.0, HEIGHT - 2), (15.0, HEIGHT / 2), (25.0, 2)]]


def test_the_hour_fills_the_width() -> None:
    line = drawn([slot(FROM_MS + minute * 60_000, 1.0) for minute in range(60)])

    xs = [x for x, _ in line[0]]
    assert len(line) == 1
    assert (xs[0], xs[-1]) == (5.0, WIDTH - 5.0)


def test_minutes_and_the_samples_after_them_are_one_line() -> None:
    samples = [slot(FROM_MS + 60_000 + n * 5_000, 1.0, span_ms=5_000) for n in range(3)]

    assert [len(part) for part in drawn([slot(FROM_MS, 1.0), *samples])] == [4]


@pytest.mark.parametrize(
    ("missing_ms", "parts"), [(0, [2]), (5_000, [2]), (10_000, [2]), (15_000, [1, 1])]
)
def test_a_stretch_that_was_not_measured_is_a_gap(missing_ms: int, parts: list[int]) -> None:
    first = slot(FROM_MS, 1.0, span_ms=5_000)
    second = slot(FROM_MS + 5_000 + missing_ms, 1.0, span_ms=5_000)

    assert [len(part) for part in drawn([first, second])] == parts


def test_a_missing_minute_and_an_unknown_value_are_gaps() -> None:
    minutes = [(0, 1.0), (1, 1.0), (3, 1.0), (4, None), (5, 1.0)]

    line = drawn([slot(FROM_MS + minute * 60_000, rate) for minute, rate in minutes])

    assert [len(part) for part in line] == [2, 1, 1]


def test_a_point_alone_is_a_dot() -> None:
    last_hour = LastHour()
    last_hour.take([slot(FROM_MS, 1.0)], now_ms=NOW_MS)

    assert last_hour.picture(now_ms=NOW_MS)["sent"]["path"] == "M5.0 2.0h0"


def test_a_line_of_zeros_lies_at_the_bottom() -> None:
    (line,) = drawn([slot(FROM_MS, 0.0), slot(FROM_MS + 60_000, 0.0)])

    assert {y for _, y in line} == {HEIGHT - 2}


def test_means_are_drawn_against_the_highest_that_was_measured() -> None:
    last_hour = LastHour()
    last_hour.take([slot(FROM_MS, 5.0, highest=10.0)], now_ms=NOW_MS)

    sent = last_hour.picture(now_ms=NOW_MS)["sent"]

    assert sent["peak"] == 10.0
    assert points(sent["path"]) == [[(5.0, HEIGHT / 2)]]


def test_each_line_is_drawn_from_its_own_numbers() -> None:
    last_hour = LastHour()
    totals = Totals(
        at_ms=FROM_MS,
        span_ms=60_000,
        send_rate=1.0,
        send_rate_max=2.0,
        consume_rate=3.0,
        consume_rate_max=4.0,
        lag_max=5,
    )
    last_hour.take([totals], now_ms=NOW_MS)

    picture = last_hour.picture(now_ms=NOW_MS)

    assert [picture[name]["peak"] for name in ("sent", "consumed", "lag")] == [2.0, 4.0, 5]
    heights = [points(picture[name]["path"])[0][0][1] for name in ("sent", "consumed", "lag")]
    assert heights == [24.0, 13.0, 2.0]


def test_without_statistics_nothing_is_drawn_and_it_is_said() -> None:
    picture = LastHour().picture(now_ms=NOW_MS)

    assert (picture["state"], worded(picture["note"])) == (
        "empty",
        "no statistics of the last hour",
    )
    assert picture["lag"] == {"path": "", "peak": None}


@pytest.mark.parametrize(
    ("age_ms", "state", "note"),
    [
        (30_000, "fresh", "2027-01-15T07:00Z to 2027-01-15T08:00Z"),
        (30_001, "stale", "statistics stand still since 2027-01-15T08:00Z"),
        (3 * HOUR_MS, "stale", "statistics stand still since 2027-01-15T08:00Z"),
    ],
)
def test_old_statistics_say_since_when_they_stand_still(age_ms: int, state: str, note: str) -> None:
    last_hour = LastHour()
    last_hour.take([slot(NOW_MS - 5_000, 1.0, span_ms=5_000)], now_ms=NOW_MS)

    picture = last_hour.picture(now_ms=NOW_MS + age_ms)

    assert (picture["state"], worded(picture["note"])) == (state, note)


def test_the_overview_shows_the_lines_without_a_script(
    browser: Client, feed: Feed, engine: FakeEngine, clock: HandClock, last_hour: LastHour
) -> None:
    now_ms = clock.wall_ms()
    last_hour.take([slot(now_ms - 60_000, 1_204.0), slot(now_ms - 5_000, 3.0)], now_ms=now_ms)
    posted = feed.sample(engine.api)
    board.put(posted)

    page = parsed(browser.get("/"))

    lines = {path["data-path"]: path["d"] for path in page.all("path") if "data-path" in path}
    picture = posted.snapshot["last_hour"]
    assert lines == {
        "last_hour.sent.path": picture["sent"]["path"],
        "last_hour.consumed.path": picture["consumed"]["path"],
        "last_hour.lag.path": picture["lag"]["path"],
    }
    assert all(lines.values())
    assert page.texts.count("1,204") == 3
    assert mq.times(picture["note"]) in page.texts
    assert "Messages sent per second over the last hour" in {
        svg.get("aria-label") for svg in page.all("svg")
    }


def test_the_overview_says_that_statistics_stand_still(
    browser: Client, feed: Feed, engine: FakeEngine, clock: HandClock, last_hour: LastHour
) -> None:
    last_hour.take([slot(clock.wall_ms() - 60_000, 1.0)], now_ms=clock.wall_ms())
    clock.now_ms += 31_000
    board.put(feed.sample(engine.api))

    page = parsed(browser.get("/"))

    assert any(text.startswith("statistics stand still since") for text in page.texts)
    assert "stale" in [note.get("data-level") for note in page.all("p")]


@pytest.mark.django_db(transaction=True)
async def test_the_background_reads_the_statistics_off_the_loop_and_keeps_them_in_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop_thread = asyncio.get_running_loop()
    answers: list[Sequence[Totals] | OperationalError] = []
    is_on_loop: list[bool] = []

    def read(*, now_ms: int) -> Sequence[Totals]:
        try:
            is_on_loop.append(asyncio.get_running_loop() is loop_thread)
        except RuntimeError:
            is_on_loop.append(False)
        answer = answers.pop()
        if isinstance(answer, OperationalError):
            raise answer
        return [slot(now_ms - 60_000, float(len(answer)))]

    monkeypatch.setattr(background, "totals_of_last_hour", read)
    work = Background(FakeEngine().api)
    answers.append([slot(0, 1.0)] * 7)
    await work._read_last_hour()
    before = work._last_hour.picture(now_ms=0)["sent"]
    answers.append(OperationalError("away"))

    await work._read_last_hour()

    assert before["peak"] == 7.0
    assert work._last_hour.picture(now_ms=0)["sent"] == before
    assert is_on_loop == [False, False]
    assert answers == []
