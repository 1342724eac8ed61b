"""Pages as a browser without scripts sees them."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from apps.console.board import board
from apps.console.feed import Feed
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock

TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, and its text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


class Answer(Protocol):
    """What a test client gives back, as far as these tests read it."""

    content: bytes


def parsed(answer: Answer) -> Page:
    return Page(answer.content.decode())


@pytest.fixture
def busy(feed: Feed, engine: FakeEngine, clock: HandClock) -> FakeEngine:
    """Post a picture with traffic: 1,234,567 messages, 250 sent and 100 consumed a second."""
    engine.add_topic("orders", queue_count=2)
    engine.send("orders", 0, 1_234_317)
    engine.consume("billing", "orders", 0, upto=1_000_000, in_flight=37)
    feed.sample(engine.api)
    engine.send("orders", 0, 250)
    engine.consume("billing", "orders", 0, upto=1_000_100, in_flight=37)
    clock.now_ms += 1_000
    board.put(feed.sample(engine.api))
    return engine


@pytest.mark.usefixtures("busy")
def test_the_overview_holds_every_figure_without_a_script(browser: Client) -> None:
    answer = browser.get("/")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    for figure in ("1,234,567", "250", "100", "234,467", "37", "39.0 GiB", "sync", "orders"):
        assert figure in texts
    assert "02:30:01 UTC" in texts
    assert "88 B: record ends after the log" in texts
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.usefixtures("busy")
def test_a_page_without_scripts_refreshes_itself_and_has_a_link_to_do_so(browser: Client) -> None:
    markup = browser.get("/").content.decode()

    page = Page(markup)
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in markup
    assert {"class": "refresh", "href": ""} in page.all("a")


@pytest.mark.usefixtures("busy")
def test_lag_is_told_by_a_level_that_is_not_only_a_colour(browser: Client) -> None:
    page = parsed(browser.get("/"))

    levels = [span["data-level"] for span in page.all("span") if span.get("class") == "lag"]
    assert levels[0] == "high"
    assert "rising" in page.texts
    assert '.lag[data-level="high"]::before { content: "\\25B2' in _stylesheet()


@pytest.mark.usefixtures("busy")
def test_a_topic_has_a_page_with_its_queues_and_readers(browser: Client) -> None:
    answer = browser.get("/topics/orders/")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    for text in ("orders", "Min offset", "1,234,567", "billing", "234,467", "1,000,100"):
        assert text in texts


@pytest.mark.usefixtures("busy")
def test_a_group_has_a_page_with_its_progress_by_queue(browser: Client) -> None:
    answer = browser.get("/groups/billing/")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    for text in ("billing", "orders", "1,000,100", "1,000,137", "37", "234,467", "100"):
        assert text in texts


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("path", ["/topics/nobody/", "/groups/nobody/"])
def test_an_unknown_name_is_a_404_that_says_what_to_do(browser: Client, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 404
    assert any(text.startswith("mq ") for text in parsed(answer).texts)


@pytest.mark.parametrize("path", ["/", "/clockwork", "/topics/orders/", "/groups/billing/"])
def test_without_an_engine_a_page_says_so_with_503(browser: Client, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 503
    assert answer["Retry-After"] == "2"
    assert "No engine is open in this process" in parsed(answer).texts


def test_an_empty_store_says_what_to_do(browser: Client, feed: Feed, engine: FakeEngine) -> None:
    board.put(feed.sample(engine.api))

    answer = browser.get("/")

    texts = " ".join(parsed(answer).texts)
    assert "mq topic create orders" in texts
    assert "mq consume orders --group billing" in texts


@pytest.mark.usefixtures("busy")
def test_a_stale_picture_is_called_stale(browser: Client, clock: HandClock) -> None:
    clock.now_ms += 6_000

    page = parsed(browser.get("/"))

    assert "Stale since" in page.texts


def test_pages_answer_only_reading(browser: Client, busy: FakeEngine) -> None:
    before = busy.calls.copy()

    statuses = {browser.post(path).status_code for path in ("/", "/topics/orders/")}

    assert statuses == {405}
    assert busy.calls == before


def test_a_page_asks_nothing_of_the_engine(browser: Client, busy: FakeEngine) -> None:
    before = busy.calls.copy()

    for path in ("/", "/clockwork", "/topics/orders/"):
        browser.get(path)

    assert busy.calls == before


@pytest.fixture
def hostile(feed: Feed, engine: FakeEngine) -> None:
    """Post a picture where every name is the polyglot."""
    engine.add_topic(POLYGLOT, queue_count=2)
    engine.consume(POLYGLOT, POLYGLOT, 0, upto=0)
    board.put(feed.sample(engine.api))


def hostile_paths() -> list[str]:
    return [
        "/",
        reverse("console:topic", args=[POLYGLOT]),
        reverse("console:group", args=[POLYGLOT]),
        reverse("console:topic", args=[POLYGLOT + "unknown"]),
        reverse("console:group", args=[POLYGLOT + "unknown"]),
    ]


@pytest.mark.usefixtures("hostile")
def test_hostile_names_are_text_on_every_page(browser: Client) -> None:
    for path in hostile_paths():
        page = parsed(browser.get(path))

        assert any(POLYGLOT in text for text in page.texts), path
        assert {script.get("type") for script in page.all("script")} == {"module"}
        assert all((image.get("src") or "").startswith("/static/") for image in page.all("img"))
        assert not [
            name for _, attributes in page.elements for name in attributes if name.startswith("on")
        ]


@pytest.mark.usefixtures("hostile")
def test_the_link_of_a_hostile_name_leads_to_its_page(browser: Client) -> None:
    links = [link["href"] or "" for link in parsed(browser.get("/")).all("a")]

    named = [link for link in links if link.startswith(("/topics/", "/groups/")) and "%3Cs" in link]
    assert len(named) == 3
    for link in named:
        assert browser.get(link).status_code == 200


@pytest.mark.usefixtures("busy")
def test_no_page_has_a_script_or_style_of_its_own_in_line(browser: Client) -> None:
    paths = ("/", "/clockwork", "/topics/orders/", "/groups/billing/", "/x/y")
    answers = [browser.get(path) for path in paths]
    markups = [answer.content.decode() for answer in answers]
    markups += [path.read_text() for path in TEMPLATES]
    markups += [render_to_string("errors/500.html"), render_to_string("errors/404.html")]

    assert len(TEMPLATES) > 10
    for markup in markups:
        page = Page(markup)
        assert "style" not in dict(page.elements)
        assert all(script.get("src") for script in page.all("script"))
        for _, attributes in page.elements:
            assert "style" not in attributes
            assert not [name for name in attributes if name.startswith("on")]
            for name in ("href", "src", "action"):
                assert not (attributes.get(name) or "").startswith(("javascript:", "http", "//"))


def test_the_inline_check_sees_what_it_looks_for() -> None:
    page = Page("<p style='color:red' onclick=x><script>1</script><style>p{}</style>")

    assert "style" in dict(page.elements)
    assert not page.all("script")[0].get("src")
    assert {"style", "onclick"} <= set(page.all("p")[0])


@pytest.mark.usefixtures("busy")
def test_every_static_file_a_page_names_is_there(browser: Client) -> None:
    page = parsed(browser.get("/"))

    named = [link["href"] or "" for link in page.all("link")]
    named += [script["src"] or "" for script in page.all("script")]
    folder = Path(settings.BASE_DIR, "static")
    assert len(named) == 7
    for name in named:
        assert (folder / name.removeprefix("/static/")).is_file(), name


def _stylesheet() -> str:
    return Path(settings.BASE_DIR, "static/console/console.css").read_text()
