"""Sending messages by the page: what goes into the log, and what is refused."""

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.audit.models import AuditEntry
from apps.bridge import engine as bridge
from apps.messages.asked import Meaning, read
from apps.messages.seen import Seen
from apps.messages.selectors import Wanted, find
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db

FORM = "/topics/orders/produce"


def newest(topic: str = "orders") -> list[Seen]:
    """Return the messages of a topic, the oldest first."""
    return list(reversed(find(Wanted(topic=topic, messages_max=256)).messages))


def send(browser: Client, path: str = FORM, **entered: Any) -> Any:
    return browser.post(path, entered)


def refusal(answer: Any) -> str:
    assert answer.status_code == 400, answer.headers
    return " ".join(parsed(answer).texts)


def test_one_message_is_sent_with_all_that_was_entered(log: Log, browser: Client) -> None:
    answer = send(
        browser,
        body="one\r\ntwo",
        keys="k1 k2",
        tag="paid",
        properties="colour=blue\r\n size = large",
        queue="1",
    )
    (one,) = newest()
    page = parsed(browser.get(answer["Location"]))

    assert answer.status_code == 303
    assert one.record.body == b"one\ntwo"
    assert (one.keys, one.tag, one.record.queue) == (["k1", "k2"], "paid", 1)
    assert (one.properties["colour"], one.properties["size"]) == ("blue", " large")
    assert one.message_id in page.texts
    assert "/topics/orders/queues/1/messages/0" in [a.get("href") for a in page.all("a")]


def test_bytes_are_sent_from_base64_and_from_a_file(log: Log, browser: Client) -> None:
    send(browser, body="/wD+\n", encoding="base64", queue="0")
    send(browser, file=SimpleUploadedFile("f", b"\x00\r\n\xff"), queue="0")

    assert [one.record.body for one in newest()] == [b"\xff\x00\xfe", b"\x00\r\n\xff"]


def test_each_line_is_a_message_in_order(log: Log, browser: Client) -> None:
    answer = send(browser, body="a\r\n\r\nb\r\nc", many="lines", queue="0")

    assert [one.record.body for one in newest()] == [b"a", b"b", b"c"]
    assert answer["Location"] == "/topics/orders/produced?at=0%3A0-2"


def test_the_same_message_is_sent_many_times(log: Log, browser: Client) -> None:
    answer = send(browser, body="x", count="120", sharding_key="customer-1")

    sent = newest()
    assert len(sent) == 120
    assert len({one.message_id for one in sent}) == 120
    assert len({one.record.queue for one in sent}) == 1
    page = parsed(browser.get(answer["Location"]))
    assert "The first 100 are shown." in " ".join(page.texts)


def test_a_delayed_message_waits(log: Log, browser: Client) -> None:
    answer = send(browser, body="later", delay="after", delay_value="60000")
    level = send(browser, body="later", delay="level", delay_value="5")
    at_a_time = send(browser, body="later", delay="at", delay_value="2000-01-01T00:00")

    assert "1 message waits for its time." in " ".join(
        parsed(browser.get(answer["Location"])).texts
    )
    assert level.status_code == at_a_time.status_code == 303
    waiting = bridge.call(lambda engine: engine.delayed(topic="orders")).messages
    assert len(waiting) >= 1


@pytest.mark.parametrize(
    ("choice", "bodies", "pending"),
    [("leave", [], 1), ("commit", [b"half"], 0), ("roll_back", [], 0)],
)
def test_the_operator_chooses_how_a_transaction_ends(
    log: Log, browser: Client, choice: str, bodies: list[bytes], pending: int
) -> None:
    answer = send(browser, body="half", transaction=choice)

    assert answer.status_code == 303
    assert [one.record.body for one in newest()] == bodies
    assert log.call(lambda: log.engine.transaction_status().pending) == pending
    page = parsed(browser.get(answer["Location"]))
    if choice == "leave":
        assert "/transactions/0" in [a.get("href") for a in page.all("a")]


@pytest.mark.parametrize(
    ("entered", "said"),
    [
        ({"body": "x", "properties": "no sign"}, "line 1 is not name=value"),
        ({"body": "x", "properties": "a=1\na=2"}, "a is there twice"),
        ({"body": "x", "properties": "UNIQ_KEY=1"}, "the property name UNIQ_KEY is reserved"),
        ({"body": "x", "encoding": "base64"}, "is not base64"),
        ({"body": "\n\n", "many": "lines"}, "there is no line that is not empty"),
        ({"body": "x", "queue": "0", "sharding_key": "k"}, "give sharding_key or queue"),
        ({"body": "x", "queue": "7"}, "queues 0 to 1"),
        ({"body": "x", "tag": "a|b"}, "a tag must not be empty"),
        ({"body": "x", "delay": "after", "delay_value": "soon"}, "must be a whole number"),
        ({"body": "x", "delay": "after", "delay_value": "9" * 15}, "waits for at most"),
        ({"body": "x", "delay": "level", "delay_value": "0"}, "Delay level: "),
        ({"body": "x", "delay": "at", "delay_value": "noon"}, "must be a time"),
        ({"body": "x", "delay_value": "5"}, "say how the delay is meant"),
        ({"body": "x", "transaction": "commit", "count": "2"}, "a transaction has one message"),
        (
            {"body": "x", "transaction": "commit", "delay": "level", "delay_value": "1"},
            "a half message has no delay",
        ),
        ({"body": "a\nb", "many": "lines", "count": "501"}, "at most 1000 messages"),
        ({"body": "x", "count": "1001"}, "less than or equal to 1000"),
        ({"body": "x", "encoding": "original"}, "the original is not in the log any more"),
        ({"body": "x", "properties": f"a={'x' * 33_000}"}, "the properties are longer"),
    ],
)
def test_what_is_refused_comes_back_filled_in_with_why(
    log: Log, browser: Client, entered: dict[str, str], said: str
) -> None:
    answer = send(browser, **(entered | {"keys": "stays-here"}))

    assert said in refusal(answer)
    assert b'value="stays-here"' in answer.content
    assert newest() == []


def test_a_bad_line_keeps_no_other_from_being_sent(
    log: Log, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.messages import services

    door = services._door()
    monkeypatch.setattr(services, "_door", lambda: _with_short_bodies(door))

    answer = send(browser, body="good\nmuch too long for it\nfine", many="lines", queue="0")

    assert [one.record.body for one in newest()] == [b"good", b"fine"]
    assert answer.status_code == 303
    (said,) = [str(message) for message in get_messages(answer.wsgi_request)]
    assert said == ("1 message was refused. The first, message 2: the body is longer than 8 bytes.")


def _with_short_bodies(door: Any) -> Any:
    from dataclasses import replace

    from apps.doors.http.app import create_door

    return create_door(replace(door.settings, body_bytes_max=8))


def test_a_message_is_sent_again_as_it_was(log: Log, browser: Client) -> None:
    log.send(b"text", TAGS="t", KEYS="k", colour="blue")
    log.send(b"\xff\x00")
    log.send(b"line\r\nends", colour="red")
    paths = [f"{FORM}?like=0%3A{offset}" for offset in range(3)]

    for path in paths:
        form = parsed(browser.get(path))
        chosen = [one["value"] for one in form.all("option") if "selected" in one]
        values = {one["name"]: one.get("value", "") for one in form.all("input") if "name" in one}
        entered = {name: values[name] for name in ("keys", "tag")}
        body = {"text": "text", "base64": "/wA=", "original": ""}[chosen[0]]
        assert send(browser, path, body=body, encoding=chosen[0], queue="1", **entered)

    again = [one for one in newest() if one.record.queue == 1]
    assert [one.record.body for one in again] == [b"text", b"\xff\x00", b"line\r\nends"]
    assert (again[0].tag, again[0].keys) == ("t", ["k"])


def test_nothing_is_sent_to_what_is_no_topic(log: Log, browser: Client) -> None:
    assert browser.get("/topics/nobody/produce").status_code == 404
    assert send(browser, "/topics/nobody/produce", body="x").status_code == 404


def test_a_body_too_long_for_a_page_is_refused(log: Log, browser: Client) -> None:
    answer = send(browser, body="x" * (3 * 1024 * 1024))

    assert answer.status_code in (400, 413)
    assert newest() == []


def test_whoever_sends_by_the_page_is_protected_from_other_sites(log: Log) -> None:
    strict = Client(enforce_csrf_checks=True)

    assert strict.post(FORM, {"body": "x"}).status_code == 403
    assert newest() == []


@pytest.mark.parametrize(
    ("text", "meaning", "said"),
    [
        ("", Meaning.NOTHING, (None, None)),
        ("0:17", Meaning.PLACE, (0, 17)),
        ("order-1", Meaning.KEY, (None, None)),
        ("1234567890123", Meaning.KEY, (None, None)),
        ("0A" * 16, Meaning.ID, (None, None)),
        ("2026-13-01", Meaning.KEY, (None, None)),
    ],
)
def test_a_text_is_taken_for_what_it_looks_like(
    text: str, meaning: Meaning, said: tuple[int | None, int | None]
) -> None:
    found = read(text)

    assert found.meaning is meaning
    assert (found.queue, found.queue_offset) == said


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("2026-01-31", 86_400_000),
        ("2026-01-31 12:00", 60_000),
        ("2026-01-31T12:00:00Z", 1_000),
        ("2026-01-31T12:00:00.5+02:00", 1),
    ],
)
def test_a_time_is_as_long_as_its_last_part(text: str, length_ms: int) -> None:
    found = read(text)

    assert found.from_ms is not None
    assert found.to_ms == found.from_ms + length_ms


def test_what_an_operator_sends_is_kept_as_a_count_and_never_a_body(
    log: Log, browser: Client
) -> None:
    send(browser, body="s3cr3t", count="3")
    send(browser, body="s3cr3t", transaction="leave")

    found = AuditEntry.objects.order_by("number")
    assert [(one.act, one.name, one.result) for one in found] == [
        ("messages.produce", "orders", "asked"),
        ("messages.produce", "orders", "done"),
        ("transaction.begin", "orders", "asked"),
        ("transaction.begin", "orders", "done"),
    ]
    assert found[1].after == {"sent": 3, "refused": 0}
    assert "s3cr3t" not in str(list(found.values()))
