"""Given-up transactions in the control plane: the API, and who sent one after all, and why."""

import base64
from typing import Any

import pytest

from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.errors import UnknownTopic, UnknownTransaction, Unreachable
from apps.transactions import services
from apps.transactions.models import Answer, Asked, TransactionDecision
from tests.web.conftest import Api
from tests.web.fake_care import lost, own_record
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db

ID = lost(3).transaction_id


def send(api: Api, offset: object = 3, **body: Any) -> Any:
    asked = {"transaction_id": ID, "reason": "the order is in the table"} | body
    return api.client.post(
        f"/api/v1/transactions/given-up/{offset}:send", data=asked, content_type="application/json"
    )


def test_they_are_listed_newest_first_a_page_at_a_time(api: Api, engine: FakeEngine) -> None:
    engine.lost = [lost(number) for number in range(5)]

    first = api.get("/transactions/given-up?limit=2").json()
    second = api.get(f"/transactions/given-up?limit=2&cursor={first['next_cursor']}").json()
    last = api.get(f"/transactions/given-up?limit=2&cursor={second['next_cursor']}").json()

    pages = [[item["offset"] for item in page["items"]] for page in (first, second, last)]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]
    assert last["next_cursor"] is None
    assert first["items"][0] == {
        "offset": "4",
        "transaction_id": "2c.1-0badcafe",
        "half_offset": "44",
        "topic": "orders",
        "queue": 1,
        "message_id": "id-4",
        "producer_group": "payments",
        "tag": None,
        "keys": [],
        "size_bytes": 100,
        "born_time": "2023-11-14T22:13:20.000Z",
        "given_up_at": "2023-11-14T22:28:20.000Z",
        "checks": 15,
        "sent_at": None,
        "sent_by": None,
        "sent_queue": None,
        "sent_offset": None,
    }


def test_what_a_record_does_not_say_is_null(api: Api, engine: FakeEngine) -> None:
    engine.lost = [lost(3, transaction_id=None, half_offset=None, checks=None, born_ms=2**62)]

    (item,) = api.get("/transactions/given-up").json()["items"]

    assert [item[name] for name in ("transaction_id", "half_offset", "checks", "born_time")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("body", "text", "encoded"),
    [
        ("größer".encode(), "größer", None),
        (b"\xff\0", None, base64.b64encode(b"\xff\0").decode()),
    ],
)
def test_one_is_shown_with_its_body(
    api: Api, engine: FakeEngine, body: bytes, text: str | None, encoded: str | None
) -> None:
    engine.lost = [lost(3)]
    engine.own_first[GIVEN_UP_TOPIC] = 3
    engine.own_records[GIVEN_UP_TOPIC] = [own_record(GIVEN_UP_TOPIC, body=body, colour="red")]

    found = api.get("/transactions/given-up/3").json()

    assert (found["body"], found["body_base64"]) == (text, encoded)
    assert (found["offset"], found["properties"]) == ("3", {"colour": "red"})


@pytest.mark.parametrize("offset", ["4", "-1", "x", "9" * 30, "٣"])
def test_no_other_offset_is_found(api: Api, engine: FakeEngine, offset: str) -> None:
    engine.lost = [lost(3)]

    for answer in (api.get(f"/transactions/given-up/{offset}"), send(api, offset)):
        assert answer.status_code == 404
    assert engine.sent_after_all == []
    assert not TransactionDecision.objects.exists()


def test_one_is_sent_after_all_and_it_is_written_down_who_and_why(
    api: Api, engine: FakeEngine
) -> None:
    engine.lost = [lost(3)]

    answer = send(api)

    assert (answer.status_code, answer.json()) == (
        200,
        {"topic": "orders", "queue": 1, "offset": "17", "repeat": False},
    )
    line = TransactionDecision.objects.get()
    assert engine.sent_after_all == [(3, line.by)]
    assert (line.asked, line.answer, line.reason) == (
        Asked.SEND, Answer.DONE, "the order is in the table",
    )  # fmt: skip
    assert (line.transaction_id, line.topic, line.producer_group, line.message_id, line.detail) == (
        ID, "orders", "payments", "id-3", "orders/1 at offset 17",
    )  # fmt: skip
    (item,) = api.get("/transactions/given-up").json()["items"]
    assert (item["sent_by"], item["sent_queue"], item["sent_offset"]) == (line.by, 1, "17")
    assert item["sent_at"] == "1970-01-01T00:00:02.000Z"


def test_asked_again_it_is_a_repeat(api: Api, engine: FakeEngine) -> None:
    engine.lost = [lost(3)]

    answers = [send(api).json()["repeat"] for _ in range(2)]

    assert answers == [False, True]
    kept = TransactionDecision.objects.order_by("id").values_list("answer", flat=True)
    assert list(kept) == [Answer.DONE, Answer.REPEAT]


@pytest.mark.parametrize(
    "body",
    [{"reason": ""}, {"reason": "x" * 501}, {"reason": None}, {"transaction_id": 3}, {"more": 1}],
)
def test_without_a_reason_nothing_is_sent(
    api: Api, engine: FakeEngine, body: dict[str, Any]
) -> None:
    engine.lost = [lost(3)]

    answer = send(api, **body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")
    assert engine.sent_after_all == []


def test_a_message_of_another_transaction_is_not_taken_for_it(api: Api, engine: FakeEngine) -> None:
    engine.lost = [lost(3)]

    answer = send(api, transaction_id="1.1-00000000")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_transaction")
    assert engine.sent_after_all == []


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (UnknownTopic("orders"), Answer.REFUSED),
        (UnknownTransaction("gone"), Answer.REFUSED),
        (Unreachable("away"), Answer.FAILED),
    ],
)
def test_what_the_engine_does_not_do_is_written_down(
    engine: FakeEngine, error: Exception, answer: Answer
) -> None:
    engine.care_refusal = error  # type: ignore[assignment]

    with pytest.raises(type(error)):
        services.send_given_up(message=lost(3), by="ann", reason="why\0 not")

    line = TransactionDecision.objects.get()
    assert (line.by, line.answer, line.detail) == ("ann", answer, str(error))
    assert line.reason == "why\N{REPLACEMENT CHARACTER} not"
