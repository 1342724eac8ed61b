"""The page of the clockwork in every state, the banner on all pages, and both over the socket."""

from collections.abc import Callable

import pytest
from django.test import Client

from apps.clockwork.selectors import Clockwork
from apps.console.board import board
from apps.console.clockwork import GRACE_MS, OLD_AFTER_MS, ClockworkWatch
from apps.console.feed import Feed
from tests.web.console import readings
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer
from tests.web.console.test_pages import Page, parsed
from tests.web.console.test_sockets import beat

PAGES = ["/", "/clockwork", "/topics/orders/", "/groups/billing/", "/groups/nobody/"]

Show = Callable[[Clockwork], None]


@pytest.fixture
def show(watch: ClockworkWatch, feed: Feed, engine: FakeEngine, clock: HandClock) -> Show:
    """Return how to post a picture with a reading, when the time for a start is over."""
    engine.add_topic("orders")
    engine.consume("billing", "orders", 0, upto=0)

    def shown(found: Clockwork) -> None:
        clock.now_ms += GRACE_MS
        watch.take(lambda: found)
        board.put(feed.sample(engine.api))

    return shown


def has_banner(page: Page) -> bool:
    (banner,) = [attributes for attributes in page.all("aside") if attributes["id"] == "banner"]
    return "hidden" not in banner


def levels_of(page: Page) -> list[str | None]:
    return [cell["data-level"] for cell in page.all("td") if cell.get("data-level")]


def test_a_task_that_ran_shows_every_figure(browser: Client, show: Show) -> None:
    show(readings.running())

    answer = browser.get("/clockwork")

    page = parsed(answer)
    assert answer.status_code == 200
    for text in ("orders.count", "5 s", "3 s ago", "42 ms", "done", "17", "in 2 s"):
        assert text in page.texts
    for text in ("beat@here", "worker@here", "there", "60 min ago", "1 s ago", "run 1"):
        assert text in page.texts
    assert "2026-11-21 11:59:57 UTC" in page.texts
    assert not has_banner(page)


@pytest.mark.parametrize(
    ("task", "words", "levels"),
    [
        (
            readings.task(last_started_at=None, last_outcome="", last_duration_ms=None),
            ["never run"],
            ["never run"],
        ),
        (readings.task(is_running=True), ["running"], ["running"]),
        (readings.task(is_overdue=True), ["overdue"], ["overdue"]),
        (readings.task(last_outcome="interrupted"), ["interrupted"], ["interrupted"]),
        (
            readings.task(last_outcome="failed", last_error="LookupError: no", failures_in_a_row=3),
            ["failed", "LookupError: no", "3"],
            ["failed"],
        ),
        (
            readings.task(due_at=readings.before(185), is_late=True),
            ["late by 3 min"],
            ["done", "late"],
        ),
    ],
    ids=["never run", "running", "overdue", "interrupted", "failed", "late"],
)
def test_how_a_task_is_is_said_by_a_word_and_a_level(
    browser: Client, show: Show, task: readings.TaskView, words: list[str], levels: list[str]
) -> None:
    show(readings.running(task, parts=[], runs=[]))

    page = parsed(browser.get("/clockwork"))

    for word in words:
        assert word in page.texts
    assert levels_of(page) == levels


def test_a_clockwork_without_processes_and_runs_says_so(browser: Client, show: Show) -> None:
    show(readings.still("beat", "worker", since_s=None))

    texts = parsed(browser.get("/clockwork")).texts

    assert "No worker and no beat is there, or was of late." in texts
    assert "standing still" in texts


def test_a_silent_process_is_told_from_one_that_is_there(browser: Client, show: Show) -> None:
    show(readings.running(parts=[readings.part("worker", seen_s=90, is_silent=True)], runs=[]))

    page = parsed(browser.get("/clockwork"))

    assert "silent" in levels_of(page)
    assert "90 s ago" in page.texts


def test_before_the_first_reading_the_page_says_that_it_knows_nothing(
    browser: Client, feed: Feed, engine: FakeEngine
) -> None:
    board.put(feed.sample(engine.api))

    page = parsed(browser.get("/clockwork"))

    assert page.texts.count("Not read from the database yet.") == 3
    assert "starting" in page.texts
    assert not has_banner(page)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["beat"], ["No beat is there.", "celery -A mqweb beat"]),
        (["worker"], ["No worker is there.", "celery -A mqweb worker"]),
        ([], ["log of the worker"]),
    ],
)
def test_every_page_says_that_the_clockwork_stands_still(
    browser: Client, show: Show, path: str, missing: list[str], words: list[str]
) -> None:
    show(readings.still(*missing))

    page = parsed(browser.get(path))

    assert has_banner(page)
    text = " ".join(page.texts)
    for word in ("The clockwork stands still since 2026-11-21 11:55:00 UTC", *words):
        assert word in text


@pytest.mark.parametrize("path", PAGES)
def test_no_page_says_anything_while_it_runs(browser: Client, show: Show, path: str) -> None:
    show(readings.running())

    assert not has_banner(parsed(browser.get(path)))


def test_every_page_says_when_nothing_could_be_read_for_a_while(
    browser: Client, show: Show, feed: Feed, engine: FakeEngine, clock: HandClock
) -> None:
    show(readings.running())
    clock.now_ms += OLD_AFTER_MS + 1
    board.put(feed.sample(engine.api))

    pages = [parsed(browser.get(path)) for path in PAGES]

    assert all(has_banner(page) for page in pages)
    assert all("The clockwork is out of sight" in page.texts for page in pages)


def test_what_an_error_says_is_text(browser: Client, show: Show) -> None:
    failed = {"error": POLYGLOT, "outcome": "failed", "task": POLYGLOT, "owner": POLYGLOT}
    show(
        readings.running(
            readings.task(POLYGLOT, last_outcome="failed", last_error=POLYGLOT),
            parts=[readings.part("worker", POLYGLOT)],
            runs=[readings.run(**failed)],
        )
    )

    page = parsed(browser.get("/clockwork"))

    assert page.texts.count(POLYGLOT) == 6
    assert [script.get("type") for script in page.all("script")] == ["module"] * 2
    assert len(page.all("img")) == 1
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on")
    ]


async def test_viewers_are_pushed_the_clockwork_and_its_banner(
    show: Show, watch: ClockworkWatch, feed: Feed, engine: FakeEngine
) -> None:
    show(readings.still("worker"))
    viewer = Viewer("clockwork")
    await viewer.arrive()

    greeting = await viewer.frame()
    watch.take(lambda: readings.running(readings.task(last_error=POLYGLOT)))
    await beat(feed, engine)
    update = await viewer.frame()
    await viewer.leave()

    assert greeting["state"] == "standing still"
    assert greeting["banner"]["commands"] == "celery -A mqweb worker"
    assert update["state"] == "running"
    assert update["banner"] is None
    assert update["tasks"][0]["error"] == POLYGLOT
