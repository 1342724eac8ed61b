"""What waits is found however much waits; what people did, and copies elsewhere, are in a life."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.core.moments import moment
from apps.deadletters.models import DeadLetter
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.failuretypes import FailedMessage, ResendResult, Returned
from apps.engine.types import AckMode, OffsetCommit, RecordBatch
from apps.messages.life import Gap, Kind, Life
from apps.messages.seen import Seen
from apps.messages.selectors import life_of
from apps.messages.selectors import waiting as kept_back
from apps.transactions.models import TransactionDecision
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log
from tests.web.product import wait_for

pytestmark = pytest.mark.django_db

MANY = 5_000


def fill(log: Log, count: int, *, topic: str = "orders", **properties: str) -> None:
    """Send so many messages in one batch; the ids are `m-0` and so on."""
    records = [
        encode_record(
            topic=topic.encode(),
            queue=0,
            body=b"body",
            properties=encode_properties({"UNIQ_KEY": f"m-{number}", **properties}),
            born_time_ms=1_763_000_000_000,
        )
        for number in range(count)
    ]
    batch = RecordBatch(
        topic=topic,
        queue=0,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )
    log.run(log.engine.append([batch], ack=AckMode.SYNC))


def fail_all(log: Log, *, level: int | None = None, delay_ms: int | None = None) -> int:
    """Have a reader of queues send back everything there is; return how many were taken over."""
    end = log.call(lambda: log.engine.queue_ranges("orders"))[0].max_offset
    taken = 0
    for first in range(0, end, 200):
        failed = [
            FailedMessage(topic="orders", queue=0, queue_offset=offset)
            for offset in range(first, min(end, first + 200))
        ]
        results = log.run(
            log.engine.send_back("billing", failed, delay_level=level, delay_ms=delay_ms)
        )
        taken += sum(result.outcome is Returned.RETRY for result in results)
    log.run(
        log.engine.commit_offsets(
            "billing", [OffsetCommit(topic="orders", queue=0, queue_offset=end)]
        )
    )
    return taken


def waiting(found: Life) -> list[Any]:
    return [one for one in found.events if one.kind is Kind.WAITING and one.result == "now"]


@pytest.mark.parametrize("number", [0, 201, MANY - 1])
def test_a_retry_that_waits_in_a_level_is_found_among_five_thousand(log: Log, number: int) -> None:
    fill(log, MANY)
    assert fail_all(log, level=12) == MANY

    found = life_of(f"m-{number}", topic="orders")

    (event,) = waiting(found)
    assert (event.group, event.topic) == ("billing", "%RETRY%billing")
    assert Gap.WAITING_INCOMPLETE not in found.gaps


def test_looking_for_it_reads_a_record_or_two_and_not_the_level(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, MANY)
    fail_all(log, level=12)
    reads: list[int] = []
    from apps.engine.broker import search

    original = search.decode_record

    def counted(payload: Any) -> Any:
        reads.append(1)
        return original(payload)

    monkeypatch.setattr(search, "decode_record", counted)

    copies = log.run(log.engine.delayed_copies("m-4321"))

    assert [one.message_id for one in copies.messages] == ["m-4321"]
    assert copies.is_complete
    assert 1 <= len(reads) <= 3


def test_retries_with_a_delay_of_their_own_are_found_among_five_thousand(log: Log) -> None:
    fill(log, MANY)
    assert fail_all(log, delay_ms=3_600_000) == MANY

    found = life_of(f"m-{MANY - 1}", topic="orders")

    (event,) = waiting(found)
    assert event.group == "billing"
    assert Gap.WAITING_INCOMPLETE not in found.gaps


def test_where_time_is_too_short_for_all_pages_that_is_said(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 30)
    fail_all(log, delay_ms=3_600_000)
    monkeypatch.setattr(kept_back, "_PAGE", 10)
    monkeypatch.setattr(kept_back, "_TIME_MS_MAX", 0)

    found = life_of("m-29", topic="orders")

    assert waiting(found) == []
    assert Gap.WAITING_INCOMPLETE in found.gaps


def test_what_a_level_has_delivered_waits_no_more(log: Log) -> None:
    log.send(b"body", UNIQ_KEY="late", DELAY="1")
    assert len(waiting(life_of("late"))) == 1

    def delivered() -> bool:
        log.run(log.engine.deliver_levels())
        return not waiting(life_of("late"))

    wait_for(delivered)

    found = life_of("late", topic="orders")
    assert [one.kind for one in found.events] == [Kind.MADE, Kind.WAITING, Kind.STORED]


def test_what_people_decided_about_its_transaction_is_told_with_who_and_why(
    log: Log, browser: Client
) -> None:
    answer = browser.post("/topics/orders/produce", {"body": "x", "transaction": "leave"})
    half_id = answer["Location"].partition("id=")[2].partition("&")[0]
    TransactionDecision.objects.create(
        at=moment(1_763_000_000_000),
        by="ann",
        reason="paid by hand",
        asked="roll_back",
        answer="done",
        transaction_id="t",
        producer_group="shop",
        topic="orders",
        message_id=half_id,
    )

    (decided,) = [one for one in life_of(half_id).events if one.kind is Kind.DECIDED]

    assert (decided.client_id, decided.result, decided.detail) == (
        "ann", "roll back done", "paid by hand",
    )  # fmt: skip


def _letter_resent(origin: Seen, result: ResendResult, topic: str) -> None:
    """Write the row of a dead letter that was sent again, as the projection and a job do."""
    at = moment(origin.record.store_time_ms)
    DeadLetter.objects.create(
        store_id="x" * 32,
        group="billing",
        queue_offset=0,
        origin_topic="orders",
        message_id="moved",
        attempts=1,
        dead_at=at,
        size_bytes=1,
        state="discarded",
        discarded_at=at,
        discard_reason="x",
        resent_at=at,
        resent_topic=topic,
        resent_queue=result.queue,
        resent_offset=result.sent_offset,
    )


def test_a_dead_letter_that_was_sent_to_another_topic_is_followed_there(log: Log) -> None:
    log.send(b"poison", UNIQ_KEY="moved")
    log.fail(level=-1)
    origin = life_of("moved", topic="orders").head
    assert origin is not None
    (result,) = log.run(log.engine.resend("billing", [0], by="ann", topic="other"))
    _letter_resent(origin, result, "other")

    found = life_of("moved", topic="orders")

    there = [one for one in found.events if one.kind is Kind.RESENT and one.topic == "other"]
    assert {one.source.value for one in there} == {"log", "dead_letters"}
    assert {(one.queue, one.queue_offset) for one in there} == {(result.queue, result.sent_offset)}
    assert Gap.SEVERAL not in life_of("moved").gaps


def test_a_dead_letter_that_was_sent_again_to_its_topic_is_told_once(log: Log) -> None:
    log.send(b"poison", UNIQ_KEY="moved")
    log.fail(level=-1)
    origin = life_of("moved", topic="orders").head
    assert origin is not None
    (result,) = log.run(log.engine.resend("billing", [0], by="ann", topic="orders"))
    _letter_resent(origin, result, "orders")

    resent = [one for one in life_of("moved").events if one.kind is Kind.RESENT]

    assert [(one.source.value, one.detail) for one in resent] == [("log", "ann")]


def test_the_command_the_api_and_the_page_tell_the_same_events(log: Log, browser: Client) -> None:
    log.send(b"poison", UNIQ_KEY="same")
    fail_all(log, level=5)

    answer = browser.get("/api/v1/messages/same/trace?topic=orders").json()
    page = parsed(browser.get("/messages/same/trace?topic=orders"))

    # What `mq trace` prints is this answer, an event a line.
    assert [one["kind"] for one in answer["events"]] == ["made", "stored", "waiting", "settled"]
    rows = [text for text in page.texts if text in ("waits for its time", "stored")]
    assert rows == ["stored", "waits for its time"]
