"""The page of delayed messages: the picture, the search, and the buttons."""

import json

import pytest
from django.test import Client

from apps.bridge import engine as bridge
from apps.console.bars import bars
from apps.console.board import board
from apps.console.delays import LATE_S, picture_of
from apps.console.feed import Feed
from apps.delays.selectors import Delays
from apps.engine.delaytypes import DelayStatus, Recall
from apps.engine.errors import Unreachable
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer
from tests.web.console.test_pages import Page, parsed
from tests.web.console.texts import worded
from tests.web.fake_care import delayed_message, level
from tests.web.fake_engine import FakeEngine as Care

# A button leaves an entry in the audit log.
pytestmark = pytest.mark.django_db

NOW_MS = 1_763_000_000_000


@pytest.fixture
def posted(feed: Feed, engine: FakeEngine, clock: HandClock) -> FakeEngine:
    """Post a picture of levels and delays."""
    now_ms = clock.wall_ms()
    engine.levels = [
        level(1, max_offset=1_700, delivered=200, head_due_ms=now_ms + 700, late_ms=310),
        level(2, max_offset=15, delivered=0, head_due_ms=now_ms - 90_000),
        level(3),
    ]
    engine.delays = DelayStatus(
        pending=1_234, delivered=7, cancelled=3, next_due_ms=now_ms + 12_000, late_ms=9,
        histogram=((5, 200), (60, 1_000), (None, 34)),
    )  # fmt: skip
    board.put(feed.sample(engine.api))
    return engine


def forms(page: Page) -> list[dict[str, str | None]]:
    """Return the forms of the page itself; the one at its foot is every page's."""
    posting = [form for form in page.all("form") if form["method"] == "post"]
    return [form for form in posting if form["action"] != "/preferences"]


@pytest.mark.usefixtures("posted")
def test_levels_and_due_times_are_shown_without_a_script(browser: Client, care: Care) -> None:
    answer = browser.get("/delays")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    for text in ("1,515", "1,500", "15", "1,234", "in 12 s", "late by 90 s", "310 ms", "9 ms"):
        assert text in texts or any(text in found for found in texts), text
    for text in ("within 5 s", "within 60 s", "after 60 s", "1,000"):
        assert text in texts


@pytest.mark.usefixtures("posted")
def test_a_page_with_forms_does_not_reload_itself_under_who_types(
    browser: Client, care: Care
) -> None:
    assert 'http-equiv="refresh"' not in browser.get("/delays").content.decode()


def test_a_head_is_late_when_the_beat_does_not_keep_up() -> None:
    def level_of(due_ms: int | None) -> tuple[int | None, str]:
        found = Delays(levels=(level(1, head_due_ms=due_ms),), status=DelayStatus())
        (row,) = picture_of(found, now_ms=NOW_MS)["levels"]
        return row["head_due_s"], row["head_level"]

    assert level_of(None) == (None, "")
    assert level_of(NOW_MS + 2_500) == (2, "")
    assert level_of(NOW_MS - 900) == (0, "")
    assert level_of(NOW_MS - (LATE_S - 1) * 1_000) == (0, "")
    assert level_of(NOW_MS - LATE_S * 1_000) == (-LATE_S, "late")


def test_unknown_is_never_written_as_zero() -> None:
    found = picture_of(Delays(levels=(level(1),), status=DelayStatus()), now_ms=NOW_MS)

    assert (found["next_due_s"], found["late_ms"], found["level_late_ms"]) == (None, None, None)
    assert (found["waiting"], found["held_note"], found["buckets"]) == (0, "", [])


def test_a_clock_that_jumped_is_told_with_how_long_it_holds_back() -> None:
    status = DelayStatus(clock_held_ms=90_000)

    found = picture_of(Delays(levels=(), status=status), now_ms=NOW_MS)

    assert "jumped ahead" in worded(found["held_note"])
    assert "90.0 s longer" in worded(found["held_note"])


def test_a_bar_is_as_long_as_its_share_and_what_is_there_can_be_seen() -> None:
    assert bars([0, 1, 500, 1_000]) == ["", "M0 4H1", "M0 4H50", "M0 4H100"]
    assert bars([]) == []
    assert bars([0, 0]) == ["", ""]


@pytest.mark.usefixtures("posted")
def test_messages_are_listed_by_due_time_and_can_be_searched(browser: Client, care: Care) -> None:
    care.waiting = [
        delayed_message(2, message_id="second"),
        delayed_message(1, message_id="first", keys="k1 k2"),
        delayed_message(3, topic="bills", message_id="third"),
        delayed_message(4, level=2, handle=None, message_id="of a level"),
    ]

    everything = parsed(browser.get("/delays"))
    of_topic = parsed(browser.get("/delays?topic=bills"))
    of_level = parsed(browser.get("/delays?level=2"))
    of_window = parsed(browser.get("/delays?from=1970-01-01T00:00:02&to=1970-01-01T00:00:03"))
    of_nothing = parsed(browser.get("/delays?topic=nobody"))

    def listed(page: Page) -> list[str]:
        return [text for text in page.texts if text in ("first", "second", "third", "of a level")]

    assert listed(everything) == ["first", "second", "third"]
    assert "/messages/first/trace" in [link["href"] for link in everything.all("a")]
    assert "k1 k2" in everything.texts
    assert "1970-01-01 00:00:01 UTC" in everything.texts
    assert listed(of_topic) == ["third"]
    assert listed(of_level) == ["of a level"]
    assert len(forms(of_level)) == 1
    assert listed(of_window) == ["second"]
    assert "Nothing that waits is like this." in of_nothing.texts


@pytest.mark.usefixtures("posted")
def test_a_long_list_goes_on_at_a_link(browser: Client, care: Care) -> None:
    care.waiting = [delayed_message(number) for number in range(1, 61)]

    first = parsed(browser.get("/delays?topic=orders"))
    (link,) = [link["href"] or "" for link in first.all("a") if "cursor" in (link["href"] or "")]
    second = parsed(browser.get(link))

    assert "topic=orders" in link
    assert [text for text in second.texts if text.startswith("id-")] == [
        f"id-{number}" for number in range(51, 61)
    ]


@pytest.mark.usefixtures("posted")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("level=x", "Search by level"),
        ("topic=a+b", "Search by topic"),
        ("from=yesterday", "Search by from"),
        ("cursor=x", "The list cannot be read"),
    ],
)
def test_a_search_that_cannot_be_meant_is_told_and_not_an_error(
    browser: Client, care: Care, query: str, words: str
) -> None:
    answer = browser.get(f"/delays?{query}")

    assert answer.status_code == 200
    assert any(words in text for text in parsed(answer).texts)


@pytest.mark.usefixtures("posted")
def test_the_picture_is_shown_also_when_the_list_cannot_be_read(
    browser: Client, care: Care
) -> None:
    care.care_refusal = Unreachable("the broker does not answer")

    answer = browser.get("/delays")

    assert answer.status_code == 200
    texts = " ".join(parsed(answer).texts)
    assert "1,234" in texts
    assert "The list cannot be read: the broker does not answer." in texts
    # What is not known is not said to be nothing.
    assert "No message waits" not in texts


@pytest.mark.usefixtures("posted")
@pytest.mark.parametrize(
    ("path", "handle", "words"),
    [
        ("/delays/cancel", "handle-1", "Cancelled: the message will not be delivered."),
        ("/delays/cancel", "sent", "Too late: the message was delivered before."),
        ("/delays/cancel", "nobody's", "Unknown: the handle is none of this store's"),
        ("/delays/deliver-now", "handle-1", "Delivered: the message is in its queue."),
        ("/delays/deliver-now", "gone", "Not delivered: the message was cancelled before."),
        ("/delays/deliver-now", "nobody's", "Unknown: the handle is none of this store's"),
        ("/delays/cancel", "  ", "Give the recall handle of a message."),
        ("/delays/cancel", "x" * 1_025, "Give the recall handle of a message."),
    ],
)
def test_a_button_tells_once_what_came_of_it(
    browser: Client, care: Care, path: str, handle: str, words: str
) -> None:
    care.waiting = [delayed_message(1)]
    care.recalled = {"sent": Recall.DELIVERED, "gone": Recall.CANCELLED}

    answer = browser.post(f"{path}?topic=orders", {"handle": handle})
    shown = parsed(browser.get(answer["Location"]))
    again = parsed(browser.get(answer["Location"]))

    assert (answer.status_code, answer["Location"]) == (303, "/delays?topic=orders")
    assert any(text.startswith(words) for text in shown.texts)
    assert not any(text.startswith(words) for text in again.texts)


@pytest.mark.usefixtures("posted")
def test_a_broker_that_does_not_answer_leaves_it_open_what_came_of_it(
    browser: Client, care: Care
) -> None:
    care.care_refusal = Unreachable("the broker does not answer")

    answer = browser.post("/delays/cancel", {"handle": "handle-1"})
    texts = parsed(browser.get(answer["Location"])).texts

    assert any("It may have been done or not" in text for text in texts)


@pytest.mark.usefixtures("posted")
def test_buttons_answer_only_posts_of_our_own_pages(care: Care) -> None:
    care.waiting = [delayed_message(1)]
    strict = Client(enforce_csrf_checks=True)

    by_link = strict.get("/delays/cancel?handle=handle-1")
    foreign = strict.post("/delays/cancel", {"handle": "handle-1"})
    page = parsed(strict.get("/delays"))
    token = next(
        field["value"] for field in page.all("input") if field["name"] == "csrfmiddlewaretoken"
    )
    ours = strict.post("/delays/cancel", {"handle": "handle-1", "csrfmiddlewaretoken": token})

    assert (by_link.status_code, foreign.status_code, ours.status_code) == (405, 403, 303)
    assert care.recalled == {"handle-1": Recall.CANCELLED}


@pytest.mark.usefixtures("posted")
def test_a_way_back_cannot_lead_out_of_the_page(browser: Client, care: Care) -> None:
    answer = browser.post(
        "/delays/cancel?topic=//evil.example&next=//evil.example", {"handle": "x"}
    )

    assert answer["Location"] == "/delays?topic=%2F%2Fevil.example"


@pytest.mark.usefixtures("posted")
def test_what_producers_write_is_text(browser: Client, care: Care) -> None:
    care.waiting = [
        delayed_message(
            1, topic=POLYGLOT, message_id=POLYGLOT, keys=POLYGLOT, tag=POLYGLOT, handle=POLYGLOT
        )
    ]

    page = parsed(browser.get("/delays"))

    assert sum(POLYGLOT in text for text in page.texts) == 4
    assert [script.get("type") for script in page.all("script")] == ["module"] * 2
    assert len(page.all("img")) == 1
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on")
    ]
    assert any(field.get("value") == POLYGLOT for field in page.all("input"))


@pytest.mark.usefixtures("posted")
def test_what_was_searched_for_is_text(browser: Client, care: Care) -> None:
    page = parsed(browser.get("/delays", {"topic": POLYGLOT, "from": POLYGLOT}))

    assert [script.get("type") for script in page.all("script")] == ["module"] * 2
    assert len(page.all("img")) == 1


def test_without_an_engine_the_page_says_so(browser: Client) -> None:
    assert browser.get("/delays").status_code == 503


async def test_viewers_are_pushed_the_delays(posted: FakeEngine, feed: Feed) -> None:
    viewer = Viewer("delays")
    await viewer.arrive()

    frame = await viewer.frame()
    await viewer.leave()

    assert frame["levels"][0]["bar"] == "M0 4H100"
    assert frame["pending"] == 1_234
    assert json.dumps(frame)
    assert bridge.engine_or_none() is None


@pytest.mark.usefixtures("posted")
def test_the_overview_has_a_line_of_what_waits(browser: Client) -> None:
    texts = parsed(browser.get("/")).texts

    assert "2,749" in texts
    assert "in 12 s" in texts
