"""The parts of a topic's page, and making, changing and deleting one."""

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from apps.topics import services
from apps.topics.models import CatalogVersion, Topic
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topic(log: Log) -> Topic:
    """Make a topic that the engine obeys and the picture shows."""
    # Newer than what the engine was given by hand.
    CatalogVersion.objects.update_or_create(id=1, defaults={"version": 100})
    services.create_or_change_topic(name="orders", queue_count=2)
    services.create_or_change_topic(name="bills", queue_count=2)
    log.post()
    return Topic.objects.get(name="bills")


def fields(browser: Client, path: str) -> dict[str, str]:
    """Return what a form would send as it is."""
    page = parsed(browser.get(path))
    return {
        one["name"]: one.get("value", "")
        for one in page.all("input")
        if one.get("name") and one.get("type") != "checkbox"
    }


def settings(browser: Client, **changed: str) -> dict[str, str]:
    return {
        **fields(browser, "/topics/bills/settings"), "type": "MIXED", "perm": "6", **changed,
    }  # fmt: skip


def texts(answer: Any) -> str:
    return " ".join(parsed(answer).texts)


def test_each_part_has_an_address_and_leads_to_the_others(
    log: Log, browser: Client, topic: Topic
) -> None:
    parts = ["", "messages", "consumers", "produce", "settings"]
    for part in parts:
        answer = browser.get(f"/topics/bills/{part}")
        assert answer.status_code == 200, part
        page = parsed(answer)
        links = [a.get("href") for a in page.all("a")]
        assert {f"/topics/bills/{other}" for other in parts} <= set(links), part
        here = [a["href"] for a in page.all("a") if a.get("aria-current") == "page"]
        assert f"/topics/bills/{part}" in here


def test_the_queues_tell_from_when_to_when_they_hold_messages(
    log: Log, browser: Client, topic: Topic
) -> None:
    for _ in range(30):
        log.send(b"x", topic="bills", queue=1)
    log.send(b"x", topic="bills", queue=0)
    log.post()

    page = texts(browser.get("/topics/bills/"))

    assert "What each queue holds" in page
    assert page.count("UTC") >= 4
    assert "The fullest queue holds 1.9 times the mean" not in page
    assert browser.get("/topics/bills/").content.count(b'class="fill"') == 2


def test_consumers_are_shown_by_group_and_queue(log: Log, browser: Client, topic: Topic) -> None:
    log.send(b"x", topic="bills")
    log.receive("payers", "bills")
    log.post()

    page = texts(browser.get("/topics/bills/consumers"))

    assert "payers" in page
    assert "In each queue" in page
    assert "No group has read this topic yet." in texts(browser.get("/topics/orders/consumers"))


def test_settings_are_changed_where_nobody_else_has_meanwhile(
    log: Log, browser: Client, topic: Topic
) -> None:
    entered = settings(browser, retention_ms="86400000", perm="4")

    answer = browser.post("/topics/bills/settings", entered)
    again = browser.post("/topics/bills/settings", entered | {"retention_ms": "60000"})

    topic.refresh_from_db()
    assert answer.status_code == 303
    assert (topic.retention_ms, topic.perm) == (86_400_000, 4)
    assert topic.target_queue_count == 2
    assert again.status_code == 409
    assert "Somebody changed the topic since you looked." in texts(again)
    # A second try of the same form is refused as well: it still has the old version.
    version = [one["value"] for one in parsed(again).all("input") if one.get("name") == "version"]
    assert version == [entered["version"]]


def test_a_form_that_changes_one_thing_leaves_the_rest(
    log: Log, browser: Client, topic: Topic
) -> None:
    services.create_or_change_topic(name="bills", expires_ms=60_000, retention_ms=120_000)

    answer = browser.post("/topics/bills/settings", settings(browser, perm="2"))

    topic.refresh_from_db()
    assert answer.status_code == 303
    assert (topic.expires_ms, topic.retention_ms, topic.perm) == (60_000, 120_000, 2)


def test_queues_are_added_by_the_same_form(log: Log, browser: Client, topic: Topic) -> None:
    browser.post("/topics/bills/settings", settings(browser, queue_count="5"))

    topic.refresh_from_db()
    assert (topic.queue_count, topic.target_queue_count) == (5, 5)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"retention_ms": "5"}, "retention ms"),
        ({"queue_count": "0"}, "queue count"),
        ({"type": "<b>"}, "type"),
        ({"version": ""}, "load the page again"),
        ({"version": "x"}, "version"),
    ],
)
def test_what_cannot_be_set_is_refused(
    log: Log, browser: Client, topic: Topic, changed: dict[str, str], said: str
) -> None:
    before = Topic.objects.filter(name="bills").values().get()

    answer = browser.post("/topics/bills/settings", settings(browser, **changed))

    assert answer.status_code == 400
    assert said in texts(answer)
    assert Topic.objects.filter(name="bills").values().get() == before


def test_a_topic_is_made_once(log: Log, browser: Client) -> None:
    entered = fields(browser, "/topics/new") | {
        "name": "made", "type": "FIFO", "perm": "6", "cleanup": "compact", "queue_count": "3",
    }  # fmt: skip

    answer = browser.post("/topics/new", entered)
    again = browser.post("/topics/new", entered | {"queue_count": "4"})

    made = Topic.objects.get(name="made")
    assert answer["Location"] == "/topics/made/settings"
    assert (made.type, made.cleanup, made.queue_count) == ("FIFO", "compact", 3)
    assert again.status_code == 409
    assert "already" in texts(again)


@pytest.mark.parametrize("name", ["", "a b", "<script>", "%RETRY%g", "rmq_sys_x", "x" * 128])
def test_no_topic_is_made_of_what_is_no_name(log: Log, browser: Client, name: str) -> None:
    entered = {
        "name": name, "type": "MIXED", "perm": "6", "cleanup": "delete", "queue_count": "1",
    }  # fmt: skip

    assert browser.post("/topics/new", entered).status_code == 400
    assert not Topic.objects.exists()


def test_a_topic_is_deleted_when_its_name_was_typed(
    log: Log, browser: Client, topic: Topic
) -> None:
    log.send(b"x", topic="bills")
    log.receive("payers", "bills")
    log.post()

    asked = texts(browser.get("/topics/bills/delete"))
    slip = browser.post("/topics/bills/delete", {"typed": "bill"})

    assert "Its 1 messages" in asked
    assert "payers" in asked
    assert slip.status_code == 400
    assert Topic.objects.filter(name="bills").exists()
    silent = browser.post("/topics/bills/delete", {"typed": "bills", "reason": " "})
    assert (silent.status_code, "say why" in texts(silent)) == (400, True)
    said = {"typed": " bills ", "reason": "empty"}
    in_use = browser.post("/topics/bills/delete", said)
    assert (in_use.status_code, "in use, by payers" in texts(in_use)) == (409, True)
    done = browser.post("/topics/bills/delete", {**said, "even_in_use": "1"})
    assert done.status_code == 303
    assert not Topic.objects.filter(name="bills").exists()
    assert [str(one) for one in get_messages(done.wsgi_request)] == ["The topic bills is deleted."]
    assert browser.post("/topics/bills/delete", {"typed": "bills"}).status_code == 404


@pytest.mark.parametrize("part", ["", "consumers", "settings", "delete", "produce"])
def test_what_is_no_topic_is_a_404(log: Log, browser: Client, part: str) -> None:
    assert browser.get(f"/topics/nobody/{part}").status_code == 404


def test_other_sites_change_nothing(log: Log, topic: Topic) -> None:
    strict = Client(enforce_csrf_checks=True)

    for path in ("/topics/bills/settings", "/topics/bills/delete", "/topics/new"):
        assert strict.post(path, {"typed": "bills"}).status_code == 403
    assert Topic.objects.count() == 2
