"""The life of a message: what is told of it, from where, and what is said to be unknown."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.core.moments import moment
from apps.deadletters.models import DeadLetter
from apps.engine.codec.layout import TRACE_TOPIC
from apps.groups.models import LockTransition
from apps.messages.life import Gap, Kind, Life
from apps.messages.selectors import life_of
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db


def tell(log: Log, message_id: str, **record: Any) -> None:
    """Tell of work on a message as a consumer does."""
    usual = {
        "topic": "orders", "queue": 0, "offset": 0, "id": message_id, "attempt": 1,
        "born_ms": 1, "stored_ms": 1, "started_ms": 1_000, "ended_ms": 2_000, "result": "ok",
    }  # fmt: skip
    group = record.pop("group", "billing")
    mode = record.pop("mode", "concurrent")
    document = {
        "v": 1, "group": group, "client": "c@1#a", "mode": mode, "records": [usual | record],
    }  # fmt: skip
    body = json.dumps(document).encode()
    log.append(body, topic=TRACE_TOPIC, queue=0, KEYS=message_id)


def kinds(found: Life) -> list[str]:
    return [one.kind.value for one in found.events]


def stored_ms(found: Life) -> int:
    assert found.head is not None
    return found.head.record.store_time_ms


def test_a_message_nobody_read_is_made_and_stored(log: Log) -> None:
    message_id = log.send(b"body")

    found = life_of(message_id)

    assert kinds(found) == ["made", "stored"]
    assert found.gaps == {Gap.NO_TRACES}
    assert (found.topic, found.scan_incomplete) == ("orders", False)


def test_what_consumers_told_is_in_it_and_the_traces_are_found_by_the_id(log: Log) -> None:
    other = log.send(b"other")
    message_id = log.send(b"body")
    at_ms = stored_ms(life_of(message_id))
    tell(log, other)
    tell(log, message_id, started_ms=at_ms + 5, ended_ms=at_ms + 9)
    tell(log, message_id, group="audit", result="error", error="ValueError", started_ms=at_ms + 7)
    tell(log, message_id, topic="elsewhere")

    found = life_of(message_id)

    worked = [one for one in found.events if one.kind is Kind.WORKED]
    assert {(one.group, one.result, one.detail) for one in worked} == {
        ("billing", "ok", ""),
        ("audit", "error", "ValueError"),
    }
    (billing,) = [one for one in worked if one.group == "billing"]
    assert (billing.client_id, billing.ended_ms) == ("c@1#a", at_ms + 9)
    assert Gap.NO_TRACES not in found.gaps


def test_failures_retries_and_the_end_as_a_dead_letter_are_one_line(log: Log) -> None:
    message_id = log.send(b"poison")
    log.fail(level=-1, reason="it broke")

    found = life_of(message_id, topic="orders")

    assert kinds(found) == ["made", "stored", "failed", "dead"]
    failed = found.events[2]
    assert (failed.group, failed.detail, failed.attempt) == ("billing", "it broke", 1)
    assert failed.client_id == "worker@1#a"
    assert found.events[3].topic == "%DLQ%billing"


def test_what_operators_did_with_a_dead_letter_is_told_from_its_row(log: Log) -> None:
    message_id = log.send(b"poison")
    log.fail(level=-1)
    at = moment(stored_ms(life_of(message_id)))
    DeadLetter.objects.create(
        store_id="x" * 32,
        group="billing",
        queue_offset=77,
        origin_topic="orders",
        message_id=message_id,
        attempts=3,
        reason="from the row",
        dead_at=at + timedelta(seconds=1),
        size_bytes=1,
        state="discarded",
        discarded_at=at + timedelta(seconds=9),
        discarded_by="ann",
        discard_reason="nobody needs it",
    )

    events = life_of(message_id).events

    by_kind = {(one.kind, one.source.value): one for one in events}
    assert by_kind[Kind.DEAD, "dead_letters"].detail == "from the row"
    discarded = by_kind[Kind.DISCARDED, "dead_letters"]
    assert (discarded.client_id, discarded.detail) == ("ann", "nobody needs it")


def test_a_wait_for_the_lock_of_an_ordered_queue_is_seen(log: Log) -> None:
    message_id = log.send(b"body")
    at_ms = stored_ms(life_of(message_id))
    for number, (after_ms, owner) in enumerate([(-100, "old"), (4_000, "c@1#a")]):
        LockTransition.objects.create(
            store_id="x" * 32,
            number=number,
            at=moment(at_ms + after_ms),
            group="billing",
            topic="orders",
            queue=0,
            change="acquired",
            owner=owner,
            epoch=number,
        )
    tell(log, message_id, mode="ordered", started_ms=at_ms + 4_100, ended_ms=at_ms + 4_200)

    found = life_of(message_id)

    (wait,) = [one for one in found.events if one.kind is Kind.LOCK_WAIT]
    assert (wait.at_ms, wait.ended_ms, wait.group) == (at_ms, at_ms + 4_000, "billing")
    assert kinds(found).count("lock") == 2


def test_a_message_that_waits_is_known_though_it_is_in_no_topic(log: Log, browser: Client) -> None:
    browser.post("/topics/orders/produce", {"body": "x", "delay": "after", "delay_value": "90000"})
    browser.post("/topics/orders/produce", {"body": "x", "delay": "level", "delay_value": "9"})
    answer = browser.post("/topics/orders/produce", {"body": "x", "transaction": "leave"})
    half_id = answer["Location"].partition("id=")[2].partition("&")[0]
    pages = [
        log.run(log.engine.delayed(messages_max=10)),
        log.run(log.engine.delayed(level=9, messages_max=10)),
    ]

    for page in pages:
        (waiting,) = page.messages
        found = life_of(waiting.message_id)
        assert kinds(found) == ["waiting"]
        assert found.events[0].ended_ms == waiting.due_ms
        assert Gap.NOT_FOUND not in found.gaps
    assert kinds(life_of(half_id)) == ["undecided"]


def test_a_committed_message_tells_that_it_was_one_half(log: Log, browser: Client) -> None:
    answer = browser.post("/topics/orders/produce", {"body": "x", "transaction": "commit"})
    message_id = answer["Location"].partition("id=")[2].partition("&")[0]

    found = life_of(message_id)

    assert sorted(kinds(found)) == ["committed", "decided", "half"]
    assert Gap.HALF_TIME in found.gaps


def test_of_several_with_one_id_the_first_is_followed_and_that_is_said(log: Log) -> None:
    log.send(b"first", UNIQ_KEY="twice")
    log.send(b"second", topic="other", UNIQ_KEY="twice")

    found = life_of("twice")

    assert found.head is not None
    assert found.head.record.body == b"first"
    assert Gap.SEVERAL in found.gaps
    assert life_of("twice", topic="other").topic == "other"


def test_a_message_without_an_id_of_its_own_is_followed_by_its_place(log: Log) -> None:
    log.append(b"body")
    (only,) = log.run(log.engine.search(_newest())).blocks
    from apps.deadletters.records import records_of

    (record,) = records_of(only)

    found = life_of(record.message_id)

    assert kinds(found) == ["made", "stored"]
    assert Gap.NO_ID in found.gaps


def _newest() -> Any:
    from apps.engine.searchtypes import SearchRequest

    return SearchRequest(topic="orders")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"v":1}',
        b'{"v":2,"records":[{"id":"m"}]}',
        b'{"v":1,"group":"g","client":"c","records":[{"id":"m"}]}',
        b'{"v":1,"group":"g","client":"c","records":"m"}',
        b'{"v":1,"group":3,"client":"c","records":[{"id":"m","topic":"orders"}]}',
        b"[" * 100_000,
    ],
)
def test_anything_in_the_topic_of_traces_is_borne(log: Log, body: bytes) -> None:
    log.append(body, topic=TRACE_TOPIC, queue=0, KEYS="m")
    log.send(b"body", UNIQ_KEY="m")

    assert kinds(life_of("m")) == ["made", "stored"]


def test_an_id_nobody_knows_is_not_found(log: Log, browser: Client) -> None:
    page = browser.get("/messages/nobody/trace")
    answer = browser.get("/api/v1/messages/nobody/trace")

    assert page.status_code == answer.status_code == 404
    assert "What is not known" in parsed(page).texts
    assert answer.json()["code"] == "not_found"


def test_the_api_tells_what_the_page_shows(log: Log, browser: Client) -> None:
    message_id = log.send(b"poison", UNIQ_KEY="a/b c")
    log.fail(level=-1, reason="it broke")

    answer = browser.get("/api/v1/messages/a%2Fb%20c/trace?topic=orders").json()
    page = browser.get("/messages/a%2Fb%20c/trace?topic=orders")

    assert answer["message_id"] == message_id
    assert [one["kind"] for one in answer["events"]] == [
        "made", "stored", "failed", "dead",
    ]  # fmt: skip
    assert answer["events"][2]["detail"] == "it broke"
    assert answer["events"][1]["offset"] == "0"
    assert [one["code"] for one in answer["unknown"]] == ["no_traces"]
    texts = " ".join(parsed(page).texts)
    for text in ("became a dead letter", "it broke", "worker@1#a", "No consumer told"):
        assert text in texts
    assert browser.get("/api/v1/messages/x/trace?topic=%2F").status_code == 422


def test_it_looks_at_a_bounded_part_of_a_long_log(log: Log, monkeypatch: Any) -> None:
    message_id = log.send(b"needle")
    for _ in range(300):
        log.send(b"hay", KEYS="hay")
    reads: list[int] = []
    from apps.engine.broker import search

    original = search.decode_record

    def counted(payload: Any) -> Any:
        reads.append(1)
        return original(payload)

    monkeypatch.setattr(search, "decode_record", counted)

    found = life_of(message_id)

    assert kinds(found) == ["made", "stored"]
    assert 0 < len(reads) <= 5
