"""What the pages say of a group's retry topic."""

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from tests.web.console.fakes import FakeEngine, HandClock
from tests.web.console.test_pages import parsed


@pytest.fixture
def failing(feed: Feed, engine: FakeEngine, clock: HandClock) -> FakeEngine:
    """Post a picture of a group with 1,000 messages to read and 70 that come again."""
    engine.add_topic("orders")
    engine.send("orders", 0, 1_000)
    engine.consume("billing", "orders", 0, upto=0)
    engine.max_offsets["%RETRY%billing", 0] = 70
    engine.consume("billing", "%RETRY%billing", 0, upto=0)
    feed.sample(engine.api)
    engine.max_offsets["%RETRY%billing", 0] = 90
    engine.consume("billing", "%RETRY%billing", 0, upto=20)
    clock.now_ms += 1_000
    board.put(feed.sample(engine.api))
    return engine


@pytest.mark.usefixtures("failing")
def test_a_group_shows_its_retry_topic_and_how_much_of_its_lag_lies_there(
    browser: Client,
) -> None:
    texts = parsed(browser.get("/groups/billing/")).texts

    assert "1,070" in texts
    assert texts[texts.index("in retries") - 1] == "70"
    assert texts[texts.index("%RETRY%billing") + 1] == "retries"


def test_the_lag_of_retries_is_part_of_the_total_and_has_its_rates(failing: FakeEngine) -> None:
    posted = board.latest()
    assert posted is not None
    totals, (group,) = posted.snapshot["totals"], posted.snapshot["groups"]

    assert failing.calls["group_progress"] == 2
    assert (totals["lag"], totals["retry_lag"]) == (1_070, 70)
    assert (group["lag"], group["retry_lag"], group["consume_rate"]) == (1_070, 70, 20.0)
    # As much came as went.
    assert group["lag_trend"] == "steady"
    assert totals["send_rate"] == 0.0


@pytest.mark.usefixtures("failing")
def test_the_address_of_a_retry_topic_leads_to_its_group(browser: Client) -> None:
    answer = browser.get("/topics/%25RETRY%25billing/")

    page = parsed(answer)
    assert answer.status_code == 404
    assert "This is the retry topic of a group" in page.texts
    assert "/groups/billing/" in [link["href"] for link in page.all("a")]
