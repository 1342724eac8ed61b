"""Search, viewer and files of messages, on an engine with a log."""

import asyncio
import base64
import json
from typing import Any

import pytest
from django.test import Client

from apps.engine.errors import StoreDamaged
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db


def texts(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.content[:500]
    return " ".join(parsed(answer).texts)


def whole(answer: Any) -> bytes:
    """Return the bytes of an answer, streamed or not."""
    if not answer.streaming:
        return answer.content

    async def gathered() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return asyncio.run(gathered())


def links(browser: Client, path: str) -> list[str]:
    return [one.get("href", "") for one in parsed(browser.get(path)).all("a")]


def test_an_id_alone_finds_its_message_in_any_topic(log: Log, browser: Client) -> None:
    message_id = log.send(b"first", topic="other", queue=1)
    log.send(b"second")

    page = texts(browser, f"/messages?q={message_id}")

    assert message_id in page
    assert "first" in page
    assert "second" not in page
    assert "Read as a message id." in page
    assert "/topics/other/queues/1/messages/0" in links(browser, f"/messages?q={message_id}")


def test_an_offset_id_finds_what_lies_there(log: Log, browser: Client) -> None:
    stored = log.append(b"here", KEYS="k", UNIQ_KEY="an-id-of-its-own")
    offset_id = f"{0:016X}{stored.log_offset:016X}"
    found = texts(browser, "/topics/orders/queues/0/messages/0")
    offset_id = next(word for word in found.split() if word.endswith(offset_id[16:]))

    assert "an-id-of-its-own" in texts(browser, f"/messages?q={offset_id}")


def test_a_key_finds_a_message_with_its_retries_and_dead_letters_below_it(
    log: Log, browser: Client
) -> None:
    message_id = log.send(b"poison", KEYS="order-7")
    log.send(b"good", KEYS="order-8")
    assert log.fail(level=-1, reason="it is <b>poison</b>") == 2

    page = texts(browser, "/messages?q=order-7&topic=orders")

    assert page.count(message_id) == 1
    assert "dead letter of" in page
    assert "billing" in page
    assert "it is <b>poison</b>" in page
    assert "good" not in page
    left_out = texts(browser, "/messages?q=order-7&topic=orders&copies=off")
    assert "dead letter of" not in left_out


def test_a_place_and_a_time_are_recognised(log: Log, browser: Client) -> None:
    log.send(b"zero")
    log.send(b"one")

    assert "one" in texts(browser, "/messages?q=0:1&topic=orders")
    day = texts(browser, "/messages?q=2001-01-01&topic=orders")
    assert "stored from 2001-01-01T00:00:00.000Z on, before 2001-01-02T00:00:00.000Z" in day
    assert "Nothing is there that is all of what is asked for." in day
    assert "Choose a topic, or search for an id or a key." in texts(browser, "/messages?q=0:1")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("q=x&as=place", "A place is written as queue:offset"),
        ("q=x&as=time", "A time is written as"),
        ("topic=orders&filter=a%20%3D", "At character 4: expected a property"),
        ("topic=nobody", "nobody"),
        ("topic=orders&queue=77", "queue"),
        ("topic=orders&from=yesterday", "Search by from"),
        (f"q={'x' * 5000}", "At most 4096 characters"),
        ("q=a&key=b", "Two keys are asked for"),
    ],
)
def test_what_cannot_be_asked_is_said(log: Log, browser: Client, query: str, said: str) -> None:
    log.send(b"body")

    assert said.lower() in texts(browser, f"/messages?{query}").lower()


def test_a_condition_on_properties_finds_what_meets_it(log: Log, browser: Client) -> None:
    for amount in range(4):
        log.send(f"body-{amount}".encode(), amount=str(amount))

    page = texts(browser, "/messages?topic=orders&filter=amount%20%3E%3D%202")

    assert [f"body-{n}" in page for n in range(4)] == [False, False, True, True]


def test_pages_lead_through_all_messages_by_links(log: Log, browser: Client) -> None:
    for number in range(120):
        log.send(f"body-{number:03}".encode(), queue=number % 2)
    seen: list[str] = []
    path = "/topics/orders/messages"
    for _ in range(4):
        answer = browser.get(path)
        page = parsed(answer)
        seen += [text for text in page.texts if text.startswith("body-")]
        following = [a["href"] for a in page.all("a") if a.get("rel") == "next"]
        if not following:
            break
        path = f"/topics/orders/messages{following[0]}"

    assert seen == [f"body-{number:03}" for number in reversed(range(120))]


def test_the_tail_is_looked_at_again_without_a_script(log: Log, browser: Client) -> None:
    log.send(b"body")

    still = browser.get("/topics/orders/messages").content.decode()
    following = browser.get("/topics/orders/messages?follow=on").content.decode()

    assert 'http-equiv="refresh"' not in still
    assert '<meta http-equiv="refresh" content="5">' in following


def test_the_viewer_shows_all_of_a_message(log: Log, browser: Client) -> None:
    log.send(b"before")
    message_id = log.send(b'{"a":1.10,"b":[true]}', TAGS="paid", KEYS="k1 k2", colour="blue")
    log.send(b"after")

    path = "/topics/orders/queues/0/messages/1"
    page = texts(browser, path)

    for text in (message_id, "paid", "k1", "k2", "colour", "blue", "10.0.0.1:8080", '"a": 1.10'):
        assert text in page, text
    found = links(browser, path)
    assert "/topics/orders/queues/0/messages/0" in found
    assert "/topics/orders/queues/0/messages/2" in found
    assert "/topics/orders/produce?like=0%3A1" in found
    assert f"/messages/{message_id}/trace?topic=orders" in found


@pytest.mark.parametrize(
    ("view", "shown"),
    [("text", "käse"), ("hex", "6b c3 a4 73 65"), ("base64", "a8Okc2U=")],
)
def test_a_body_is_shown_in_each_way(log: Log, browser: Client, view: str, shown: str) -> None:
    log.send("käse".encode())

    assert shown in texts(browser, f"/topics/orders/queues/0/messages/0?as={view}")


def test_groups_are_shown_by_where_they_are(log: Log, browser: Client) -> None:
    log.send(b"body")
    assert log.receive("billing").leases
    log.fail("audit", level=-1)

    page = texts(browser, "/topics/orders/queues/0/messages/0")

    assert ("billing given out" in page, "audit settled" in page) == (True, True)
    assert "The same message elsewhere" in page


def test_looking_changes_nothing(log: Log, browser: Client) -> None:
    message_id = log.send(b"body", KEYS="k")
    log.receive("billing")
    before = log.call(lambda: (log.engine.group_progress(), log.engine.queue_locks()))
    counted = log.call(lambda: log.engine.status().delivered_messages)

    for path in (
        f"/messages?q={message_id}",
        "/messages?q=k&topic=orders",
        "/topics/orders/messages",
        "/topics/orders/queues/0/messages/0",
        "/topics/orders/queues/0/messages/0/raw",
        f"/messages/{message_id}",
        "/messages/export?format=csv&topic=orders",
    ):
        answer = browser.get(path)
        assert answer.status_code in (200, 302), path
        whole(answer)

    assert log.call(lambda: (log.engine.group_progress(), log.engine.queue_locks())) == before
    assert log.call(lambda: log.engine.status().delivered_messages) == counted


def test_an_id_leads_to_its_message(log: Log, browser: Client) -> None:
    message_id = log.send(b"body", queue=1)
    log.send(b"twice", UNIQ_KEY="twice")
    log.send(b"twice", UNIQ_KEY="twice")

    assert browser.get(f"/messages/{message_id}")["Location"] == (
        "/topics/orders/queues/1/messages/0"
    )
    assert browser.get("/messages/twice")["Location"] == "/messages?q=twice&as=id"
    assert "No message has this id" in texts(browser, "/messages/nobody", 404)


def test_a_place_without_a_message_is_a_404_that_says_what_is_there(
    log: Log, browser: Client
) -> None:
    log.send(b"body")

    assert "from 0 up to, not with, 1" in texts(browser, "/topics/orders/queues/0/messages/9", 404)
    assert "no such topic" in texts(browser, "/topics/nobody/queues/0/messages/0", 404)
    assert browser.get("/topics/orders/queues/9/messages/0").status_code == 404
    assert browser.get(f"/topics/orders/queues/0/messages/{2**80}").status_code == 404
    assert browser.get("/topics/orders/queues/0/messages/9/raw").status_code == 404


def test_a_body_is_given_as_a_file_that_is_never_a_page(log: Log, browser: Client) -> None:
    log.send(b"<script>alert(1)</script>")
    log.send(b"\xff\x00")

    page = browser.get("/topics/orders/queues/0/messages/0/raw")
    data = browser.get("/topics/orders/queues/0/messages/1/raw")

    assert page.content == b"<script>alert(1)</script>"
    assert page["Content-Type"] == "text/plain; charset=utf-8"
    assert page["Content-Disposition"] == 'attachment; filename="message-orders-0-0.txt"'
    assert page["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in page["Content-Security-Policy"]
    assert data.content == b"\xff\x00"
    assert data["Content-Type"] == "application/octet-stream"


def test_what_is_found_is_given_as_files(log: Log, browser: Client) -> None:
    log.send(b"=1+1", KEYS="@k", TAGS="-t", formula="+1")
    log.send(b"\xff\xfe", KEYS="k2")

    csv_file = whole(browser.get("/messages/export?format=csv&topic=orders")).decode()
    lines = [
        json.loads(line)
        for line in whole(browser.get("/messages/export?format=jsonl&topic=orders")).splitlines()
    ]

    assert '"\'=1+1"' in csv_file
    assert '"\'@k"' in csv_file
    assert '"\'-t"' in csv_file
    assert lines[0]["body_base64"] == base64.b64encode(b"\xff\xfe").decode()
    assert lines[1]["body"] == "=1+1"
    assert lines[2] == {
        "end": {
            "count": 2,
            "is_cut": False,
            "why": "",
            "scan_incomplete": False,
            "next_cursor": None,
        }
    }


def test_a_file_says_where_it_is_cut(
    log: Log, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        log.send(b"body")
    monkeypatch.setattr("apps.messages.exporting.MESSAGES_MAX", 3)

    csv_file = whole(browser.get("/messages/export?format=csv&topic=orders")).decode()
    *_, end = whole(browser.get("/messages/export?format=jsonl&topic=orders")).splitlines()

    assert "# not all: a file holds 3 messages" in csv_file
    told = json.loads(end)["end"]
    assert (told["count"], told["is_cut"]) == (3, True)
    assert told["next_cursor"].isdigit()


@pytest.mark.parametrize("query", ["topic=orders", "format=csv", "format=csv&topic=nobody"])
def test_no_file_is_made_of_what_cannot_be_asked(log: Log, browser: Client, query: str) -> None:
    log.send(b"body")

    answer = browser.get(f"/messages/export?{query}")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "text/plain; charset=utf-8"


def test_a_message_is_shown_though_nothing_around_it_can_be_told(
    log: Log, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.send(b"here it is")

    def damaged() -> None:
        raise StoreDamaged("a bit fell over")

    monkeypatch.setattr(log.engine, "group_progress", damaged)

    page = texts(browser, "/topics/orders/queues/0/messages/0")

    assert "here it is" in page
    assert "What is around it cannot be told now: a bit fell over." in page
    assert "Not known." in page


def test_a_damaged_message_is_no_page_that_pretends(
    log: Log, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.send(b"body")

    async def damaged(_request: object) -> None:
        raise StoreDamaged("a bit fell over")

    monkeypatch.setattr(log.engine, "search", damaged)

    assert "a bit fell over" in texts(browser, "/topics/orders/queues/0/messages/0", 500)
    assert "A bit fell over." in texts(browser, "/topics/orders/messages")
    assert browser.get("/topics/orders/queues/0/messages/0/raw").status_code == 500
