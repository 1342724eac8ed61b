"""The console's pages about lite topics: those of a topic, of clients, and their messages."""

import re
from typing import Any

import pytest
from django.test import Client

from apps.engine.codec.layout import LITE_PROPERTY
from apps.engine.codec.litenames import lite_topic
from apps.engine.litetypes import LiteAction, LiteSync
from apps.engine.types import TopicType
from apps.topics import services
from apps.topics.models import CatalogVersion, Topic
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db(transaction=True)

LITES = "/topics/inbox/lite-topics"


@pytest.fixture
def inbox(log: Log) -> Topic:
    """Make a topic of lite topics that the engine obeys and the picture shows."""
    # Newer than what the engine was given by hand.
    CatalogVersion.objects.update_or_create(id=1, defaults={"version": 100})
    services.create_or_change_topic(name="inbox", type=TopicType.LITE)
    services.create_or_change_topic(name="orders")
    log.post()
    return Topic.objects.get(name="inbox")


def sent(log: Log, name: str, body: bytes = b"hello") -> str:
    return log.send(body, topic=lite_topic("inbox", name), **{LITE_PROPERTY: name})


def subscribed(log: Log, *names: str, client_id: str = "c@1") -> None:
    request = LiteSync(
        group="readers", client_id=client_id, topic="inbox", action=LiteAction.ADD, names=names
    )
    log.run(log.engine.sync_lite(request))


def texts(answer: Any) -> str:
    return " ".join(parsed(answer).texts)


def links(answer: Any) -> list[str]:
    return [a.get("href", "") for a in parsed(answer).all("a")]


def test_lite_topics_are_listed_with_a_link_to_their_messages(
    log: Log, browser: Client, inbox: Topic
) -> None:
    for _ in range(3):
        sent(log, "alice")
    sent(log, "bob")
    subscribed(log, "alice")

    answer = browser.get(LITES)

    assert answer.status_code == 200
    page = texts(answer)
    assert page.index("alice") < page.index("bob")
    assert "/topics/%25LITE%25inbox%7Calice/messages" in links(answer)
    assert parsed(browser.get(links(answer)[0])).texts


def test_the_messages_of_a_lite_topic_are_shown_and_lead_back(
    log: Log, browser: Client, inbox: Topic
) -> None:
    message_id = sent(log, "alice", b"dear alice")

    answer = browser.get("/topics/%25LITE%25inbox%7Calice/messages")
    one = browser.get("/topics/%25LITE%25inbox%7Calice/queues/0/messages/0")

    assert "dear alice" in texts(answer)
    assert LITES in links(answer)
    assert message_id in texts(one)
    assert "dear alice" in texts(one)


def test_a_message_of_a_lite_topic_is_found_by_its_id(
    log: Log, browser: Client, inbox: Topic
) -> None:
    message_id = sent(log, "alice", b"dear alice")

    answer = browser.get(f"/messages?q={message_id}")

    assert "dear alice" in texts(answer)


def test_the_list_goes_on_page_by_page(
    log: Log, browser: Client, inbox: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.console.pages.topicparts.LITES_SHOWN", 2)
    for name in ("a1", "b2", "c3"):
        sent(log, name)

    first = browser.get(LITES)
    (further,) = [link for link in links(first) if link.startswith("?cursor=")]
    second = browser.get(f"{LITES}{further}")

    assert [name in texts(first) for name in ("a1", "b2", "c3")] == [True, True, False]
    assert [name in texts(second) for name in ("a1", "b2", "c3")] == [False, False, True]
    assert not [link for link in links(second) if link.startswith("?cursor=")]


def test_a_topic_without_any_says_how_one_comes_into_being(
    log: Log, browser: Client, inbox: Topic
) -> None:
    assert "comes into being with its first message" in texts(browser.get(LITES))
    assert browser.get(f"{LITES}?cursor=nonsense!").status_code == 200
    assert browser.get("/topics/nope/lite-topics").status_code == 404


def test_only_a_topic_of_the_type_has_the_tab(log: Log, browser: Client, inbox: Topic) -> None:
    for part in ("", "messages", "consumers", "settings"):
        assert LITES in links(browser.get(f"/topics/inbox/{part}")), part
        assert "/topics/orders/lite-topics" not in links(browser.get(f"/topics/orders/{part}"))
    assert "not of type LITE" in texts(browser.get("/topics/orders/lite-topics"))


def test_the_members_page_tells_who_is_subscribed_to_what(
    log: Log, browser: Client, inbox: Topic
) -> None:
    many = [f"n{number:02}" for number in range(30)]
    sent(log, "alice")
    subscribed(log, *many)
    subscribed(log, "alice", client_id="c@2")
    log.receive("readers", lite_topic("inbox", "alice"))
    log.post()

    answer = browser.get("/groups/readers/members/")

    page = texts(answer)
    assert answer.status_code == 200
    assert "Lite topics by client" in page
    assert "n00, n01, n02" in page
    assert "and 25 more" in page
    assert "n05" not in page
    assert LITES in links(answer)
    # What one of the two is subscribed to holds a message that is out.
    assert re.findall(
        r'<td class="number">(\d+)</td><td class="number">(\d+)</td>', answer.content.decode()
    ) == [("30", "0"), ("1", "1")]


def test_the_pages_of_a_group_tell_how_far_it_is_behind_in_all_lite_topics(
    log: Log, browser: Client, inbox: Topic
) -> None:
    for _ in range(3):
        sent(log, "alice")
    sent(log, "bob")
    subscribed(log, "alice")
    log.post()

    page = texts(browser.get("/groups/readers/"))
    overview = texts(browser.get("/"))
    of_topic = texts(browser.get("/topics/inbox/consumers"))

    # Live by queue, and once more with what only the opened page asks for.
    assert page.count("lite topics behind: 2") == 2
    assert "The group has read nothing yet" not in page
    assert LITES in links(browser.get("/groups/readers/"))
    assert "lite topics behind: 2" in overview
    assert re.search(r"readers 4 0", of_topic)


def test_the_type_and_how_long_they_live_are_set_on_a_page(
    log: Log, browser: Client, inbox: Topic
) -> None:
    made = browser.post(
        "/topics/new",
        {
            "name": "made", "type": "LITE", "perm": "6", "cleanup": "delete", "queue_count": "1",
            "lite_ttl_minutes": "60",
        },
    )  # fmt: skip
    page = parsed(browser.get("/topics/made/settings"))
    entered = {
        one["name"]: one.get("value", "")
        for one in page.all("input")
        if one.get("name") and one.get("type") != "checkbox"
    }
    changed = browser.post(
        "/topics/made/settings",
        {**entered, "type": "LITE", "perm": "6", "lite_ttl_minutes": "15"},
    )

    assert (made.status_code, changed.status_code) == (303, 303)
    assert entered["lite_ttl_minutes"] == "60"
    assert Topic.objects.get(name="made").lite_ttl_minutes == 15


def test_the_type_cannot_be_changed_on_a_page(log: Log, browser: Client, inbox: Topic) -> None:
    page = parsed(browser.get("/topics/inbox/settings"))
    (version,) = [one["value"] for one in page.all("input") if one.get("name") == "version"]

    answer = browser.post(
        "/topics/inbox/settings",
        {"version": version, "type": "MIXED", "perm": "6", "queue_count": "4"},
    )

    assert answer.status_code == 400
    assert "from the first or never" in texts(answer)
    assert Topic.objects.get(name="inbox").type == "LITE"
