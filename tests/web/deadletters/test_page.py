"""The pages of dead letters: search, look, send, follow the job, without any script."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from apps.deadletters import services
from apps.deadletters.models import DeadLetter, ResendJob
from apps.topics.models import Topic
from tests.web.console.fakes import POLYGLOT
from tests.web.console.fakes import FakeEngine as ConsoleEngine
from tests.web.console.fakes import HandClock as ConsoleClock
from tests.web.deadletters.letters import LetterEngine, project, states
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def posted() -> Iterator[None]:
    """Post a picture, as the feed does once a second."""
    clock = ConsoleClock()
    watch = ClockworkWatch(clock=clock, worker_processes=2)
    feed = Feed(
        clock=clock,
        clockwork=watch,
        last_hour=LastHour(),
        deaths=DeathWatch(clock=clock),
        pipelines=PipelinesWatch(clock=clock),
    )
    board.put(feed.sample(ConsoleEngine().api))
    yield
    board.clear()


@pytest.fixture
def browser() -> Client:
    return Client()


def text_of(answer: Any) -> str:
    """Return what a person reads, with single spaces."""
    page = re.sub(r"<(script|style).*?</\1>", " ", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def test_groups_are_shown_with_counts_and_those_with_most_first(
    browser: Client, engine: LetterEngine
) -> None:
    engine.bury("few")
    engine.bury("many", 1_204)
    project(engine)

    page = text_of(browser.get("/dead-letters"))

    assert "many 1,204" in page
    assert page.index("many 1,204") < page.index("few 1")


def test_without_a_dead_letter_the_page_says_what_would_be_here(
    browser: Client, engine: LetterEngine
) -> None:
    assert "No message has died." in text_of(browser.get("/dead-letters"))
    assert "This group has no dead letters." in text_of(browser.get("/dead-letters/g/"))


def test_a_search_shows_what_it_finds_and_keeps_what_was_entered(
    browser: Client, engine: LetterEngine
) -> None:
    engine.bury("g", 60)
    engine.bury("g", reason="Timed out")
    project(engine)

    everything = browser.get("/dead-letters/g/")
    older = browser.get("/dead-letters/g/?before=11")
    found = browser.get("/dead-letters/g/", {"reason": "timed", "state": ""})

    assert everything.content.decode().count('type="checkbox"') == 50
    assert "Older ones" in text_of(everything)
    assert older.status_code == 200
    assert found.content.decode().count('type="checkbox"') == 1
    assert 'name="reason" value="timed"' in found.content.decode()
    assert "resend?reason=timed" in found.content.decode()
    assert "Where those that wait come from orders 61" in text_of(everything)
    assert "What they died of boom 60 Timed out 1" in text_of(everything)


@pytest.mark.parametrize("query", ["from=yesterday", "state=odd", "before=x", "key=%00"])
def test_a_search_that_makes_no_sense_is_told_why(
    browser: Client, engine: LetterEngine, query: str
) -> None:
    for path in ("/dead-letters/g/", "/dead-letters/g/resend"):
        if query.startswith("before") and path.endswith("resend"):
            continue
        answer = browser.get(f"{path}?{query}")

        assert answer.status_code == 200
        assert "Search by" in text_of(answer)


def test_the_way_from_a_search_to_a_job_that_is_done(
    browser: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    engine.bury("g", 2, origin="vanished", reason="late")
    project(engine)

    look = browser.get("/dead-letters/g/resend")
    assert "5 wait of those you chose" in text_of(look)
    assert "vanished 2 takes no messages, or is not there" in text_of(look)
    counted = browser.post(
        "/dead-letters/g/send", {"where": "origin", "dry_run": "on"}, follow=True
    )
    assert "5 would be sent; nothing was changed." in text_of(counted)
    assert states() == ["waiting"] * 5
    sent = browser.post(
        "/dead-letters/g/send", {"where": "group", "rate_per_s": "2", "reason": "boom"}, follow=True
    )
    job = ResendJob.objects.first()
    assert job is not None
    assert sent.redirect_chain == [(f"/jobs/{job.pk}", 303)]
    assert "3 taken by job" in text_of(sent)
    assert '<meta http-equiv="refresh" content="2">' in sent.content.decode()
    services.send_some(now_ms=NOW_MS)
    running = browser.get(f"/jobs/{job.pk}")
    assert "2 of 3 done" in text_of(running)
    assert "Chosen by reason boom" in text_of(running)
    assert "to g only" in text_of(running)
    assert 'value="2" max="3"' in running.content.decode()
    services.send_some(now_ms=NOW_MS + 1_000)
    done = browser.get(f"/jobs/{job.pk}")
    assert "3 of 3 done" in text_of(done)
    assert "refresh" not in done.content.decode().split("<header")[0]
    assert engine.resent == {("g", offset): "%RETRY%g" for offset in range(3)}
    assert job.created_by == "anonymous at 127.0.0.1"


def test_ticked_letters_are_sent_and_no_others(
    browser: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 4)
    project(engine)
    ids = list(DeadLetter.objects.filter(queue_offset__in=[1, 3]).values_list("pk", flat=True))

    look = browser.get("/dead-letters/g/resend", {"id": ids})
    browser.post("/dead-letters/g/send", {"where": "origin", "id": ids})
    again = browser.post("/dead-letters/g/send", {"where": "origin", "id": ids}, follow=True)

    assert "2 wait of those you chose" in text_of(look)
    assert states() == ["waiting", "resending", "waiting", "resending"]
    assert "Nothing was done: none of these dead letters waits" in text_of(again)
    assert ResendJob.objects.count() == 1


def test_a_job_is_called_off_by_a_button(
    browser: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 2)
    project(engine)
    browser.post("/dead-letters/g/send", {"where": "origin"})
    job = ResendJob.objects.get()

    page = browser.post(f"/jobs/{job.pk}/cancel", follow=True)

    assert "Called off: what was not sent waits again." in text_of(page)
    assert "Call it off" not in text_of(page)
    assert states() == ["waiting", "waiting"]
    again = browser.post("/jobs/999999/cancel", follow=True)
    assert "There is no job 999999" in text_of(again)
    assert again.status_code == 404


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "where: This field is required"),
        ({"where": "moon"}, "where: Select a valid choice"),
        ({"where": "topic"}, "another topic needs a name"),
        ({"where": "topic", "topic": "nowhere"}, "There is no topic 'nowhere'"),
        ({"where": "origin", "rate_per_s": "0"}, "rate per s: Ensure this value"),
        ({"where": "origin", "state": "odd"}, "Search by state"),
        ({"where": "origin", "id": "x"}, "none of these dead letters waits"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_told_and_changes_nothing(
    browser: Client, engine: LetterEngine, values: dict[str, str], told: str
) -> None:
    engine.bury("g")
    project(engine)

    page = browser.post("/dead-letters/g/send", values, follow=True)

    assert told in text_of(page)
    assert states() == ["waiting"]


def test_letters_are_discarded_with_a_reason(browser: Client, engine: LetterEngine) -> None:
    engine.bury("g", 2)
    project(engine)
    letter = DeadLetter.objects.order_by("queue_offset")[0]
    chosen = {"id": letter.pk}

    without = browser.post("/dead-letters/g/discard", chosen, follow=True)
    done = browser.post(
        "/dead-letters/g/discard", {**chosen, "discard-reason": "test data"}, follow=True
    )

    assert "Nothing was done: reason:" in text_of(without)
    assert "1 discarded. The log keeps them." in text_of(done)
    assert states() == ["discarded", "waiting"]
    assert "test data" in text_of(browser.get(f"/dead-letters/g/{letter.pk}"))


def test_a_letter_is_shown_with_attempts_and_body(browser: Client, engine: LetterEngine) -> None:
    engine.bury("g", body=b"first")
    engine.bury("g", body=b"\xff" * 40_000)
    project(engine)
    text, binary = DeadLetter.objects.order_by("queue_offset")

    page = browser.get(f"/dead-letters/g/{text.pk}")
    first = text_of(page)
    second = text_of(browser.get(f"/dead-letters/g/{binary.pk}"))

    assert "Body 5 B first" in first
    assert "17 2025-11-13 02:13:19 UTC boom c@1" in first
    assert "UNIQ_KEY ID0" in first
    assert f'href="/messages/{text.message_id}/trace"' in page.content.decode()
    assert "not text: base64, the begin of it //" in second
    assert browser.get("/dead-letters/g/999999").status_code == 404
    assert browser.get(f"/dead-letters/other/{text.pk}").status_code == 404


def test_a_letter_the_log_has_lost_says_so(browser: Client, engine: LetterEngine) -> None:
    engine.bury("g", 2)
    project(engine)
    engine.begins["%DLQ%g"] = 1

    page = text_of(browser.get(f"/dead-letters/g/{DeadLetter.objects.get(queue_offset=0).pk}"))

    assert "The log does not hold it any more." in page


def test_hostile_texts_are_text_on_every_page(
    browser: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury(
        "g",
        body=POLYGLOT.encode(),
        reason=POLYGLOT,
        keys=POLYGLOT,
        origin=POLYGLOT,
        TAGS=POLYGLOT,
        DLQ_ORIGIN_MESSAGE_ID=POLYGLOT,
        evil=POLYGLOT,
    )
    project(engine)
    engine.refused.add("orders")
    number = DeadLetter.objects.get().pk
    job = services.request_resend(
        group="g",
        letters=DeadLetter.objects.all(),
        criteria={"filter": {"reason": POLYGLOT}},
        wish=services.Wish(target="orders"),
        by=POLYGLOT,
    )
    services.send_some(now_ms=NOW_MS)

    for path in (
        "/dead-letters",
        "/dead-letters/g/",
        f"/dead-letters/g/?reason={'%22%3E%3Cscript%3E'}",
        f"/dead-letters/g/{number}",
        f"/dead-letters/g/resend?reason={'%22%3E%3Cscript%3Ealert'}",
        f"/dead-letters/g/resend?id={number}",
        f"/jobs/{job.pk}",
        "/dead-letters/%22%3E%3Cscript%3Ealert(1)/",
    ):
        page = browser.get(path).content.decode()

        assert "<script>" not in page, path
        assert "<img src=x" not in page, path
    assert unescape(browser.get(f"/dead-letters/g/{number}").content.decode()).count(POLYGLOT) >= 5


def test_a_button_pressed_by_another_page_does_nothing(engine: LetterEngine) -> None:
    engine.bury("g")
    project(engine)
    strict = Client(enforce_csrf_checks=True)

    for path in ("/dead-letters/g/send", "/dead-letters/g/discard", "/jobs/1/cancel"):
        assert strict.post(path, {"where": "origin", "discard-reason": "x"}).status_code == 403
        assert strict.get(path).status_code == 405

    assert states() == ["waiting"]


def test_the_name_of_who_is_signed_in_is_kept(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g")
    project(engine)

    admin.post("/dead-letters/g/send", {"where": "origin"})

    assert ResendJob.objects.get().created_by == "root"
