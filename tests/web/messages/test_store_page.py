"""The page and the answer of the store: what they tell, and what they never do."""

from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from apps.bridge import engine as bridge
from apps.engine.retentiontypes import RetentionBlock, RetentionStatus
from apps.engine.types import QuarantinedRange, ReceiveRequest, RoomState
from tests.web.console.test_pages import parsed
from tests.web.messages.conftest import Log

pytestmark = pytest.mark.django_db


def texts(answer: Any) -> str:
    return " ".join(parsed(answer).texts)


@pytest.fixture
def damaged(log: Log, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Let the engine tell of damage, of a full disk and of who keeps the log."""
    whole = log.call(log.engine.status)
    block = RetentionBlock(
        holder="topic <b>", log_offset=77, size_bytes=3 * 1024 * 1024, since_ms=1_700_000_000_000
    )
    status = replace(
        whole,
        room=RoomState.FULL,
        room_reason="91 % used",
        disk_bytes=100 * 1024**3,
        free_bytes=9 * 1024**3,
        quarantine=(QuarantinedRange(log_offset=4711, length_bytes=64, reason="<i>crc</i>"),),
        quarantined_ranges=1,
        unreadable_messages=5,
        retention=RetentionStatus(
            log_bytes=1, oldest_ms=None, disk_used=0.91, blocked_by=(block,), lost_messages=3
        ),
    )
    monkeypatch.setattr(log.engine, "status", lambda: status)
    return log


def test_a_whole_store_is_told_with_its_sizes_and_its_clients(log: Log, browser: Client) -> None:
    log.send(b"x" * 1000)
    log.receive("billing")

    page = texts(browser.get("/store"))
    answer = browser.get("/api/v1/store").json()

    for text in ("Store and broker", "in 1 segment", "worker@1#a", "64.0 MiB", "old segments go"):
        assert text in page, text
    assert "Everything that was read is what was written." in page
    assert int(answer["log_bytes"]) > 1000
    assert 1000 < int(answer["synced_offset"]) <= int(answer["written_offset"])
    assert (answer["segments"], answer["clients"], answer["topics"]) == (1, 1, 2)
    assert answer["behind"]["queues"] == answer["behind"]["index"] == "0"
    assert answer["opened_at"] is not None


def test_a_client_is_shown_with_what_it_is_and_where_it_asks_from(
    log: Log, browser: Client
) -> None:
    request = ReceiveRequest(
        group="billing",
        topics=("orders",),
        client_id="n@1",
        software="NODE_JS 1.0.8",
        address="10.0.0.7",
    )
    log.run(log.engine.receive(request))

    page = texts(browser.get("/store"))

    for text in ("n@1", "NODE_JS 1.0.8", "10.0.0.7"):
        assert text in page, text


def test_trouble_is_told_with_its_reason(damaged: Log, browser: Client) -> None:
    page = texts(browser.get("/store"))
    answer = browser.get("/api/v1/store").json()

    for text in ("91 % used", "91.0 %", "topic <b>", "3.0 MiB", "4,711", "<i>crc</i>", "none"):
        assert text in page, text
    assert answer["disk"]["room"] == "full"
    assert answer["retention"]["oldest_at"] is None
    assert answer["retention"]["blocked_by"][0]["size_bytes"] == str(3 * 1024 * 1024)
    assert answer["quarantine"][0]["reason"] == "<i>crc</i>"


def test_no_secret_is_shown(log: Log, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-of-the-store"
    hidden = replace(
        settings.MQWEB,
        secret_key=secret,
        database_url=f"postgres://u:{secret}@db/x",
        redis_url=f"redis://:{secret}@r",
        celery_broker_url=f"amqp://u:{secret}@a",
        pipelines=replace(settings.MQWEB.pipelines, spark_conf={"spark.password": secret}),
        telling=replace(settings.MQWEB.telling, mail_password=secret),
    )
    monkeypatch.setattr(settings, "MQWEB", hidden)

    page = browser.get("/store").content.decode()
    answer = browser.get("/api/v1/store").content.decode()

    assert "set, and not shown" in page
    assert "MQWEB_RETENTION_DISK_PERCENT" in page
    assert "MQWEB_MAIL_PASSWORD" in page
    assert secret not in page
    assert secret not in answer


def test_a_broker_that_cannot_be_asked_is_said(log: Log, browser: Client) -> None:
    engine, loop = log.engine, log._loop
    bridge.remove()

    page = browser.get("/store")
    answer = browser.get("/api/v1/store")

    bridge.install(engine, loop)
    assert (page.status_code, answer.status_code) == (503, 503)
    assert "The broker cannot be asked" in texts(page)
