"""Undecided transactions in the control plane: giving up, people's decisions, and the API."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import RequestFactory

from apps.core.actors import actor_of
from apps.engine.errors import (
    EngineError,
    TransactionDecided,
    UnknownTopic,
    UnknownTransaction,
    Unreachable,
)
from apps.engine.transactiontypes import Outcome
from apps.transactions import selectors, services
from apps.transactions.models import Answer, Asked, TransactionDecision
from tests.web.conftest import Api
from tests.web.fake_care import half
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db


def post(api: Api, path: str, body: Any = None) -> Any:
    return api.client.post(f"/api/v1{path}", data=body or {}, content_type="application/json")


def test_giving_up_is_bounded_and_says_that_more_is_left(engine: FakeEngine) -> None:
    engine.to_give_up = 1_250

    steps = [services.give_up() for _ in range(3)]

    assert [(step.done, step.more) for step in steps] == [(1_000, True), (250, False), (0, False)]
    assert set(engine.give_up_calls) == {services.TRANSACTIONS_PER_CALL}


def test_decisions_of_transactions_that_the_log_has_lost_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = [("2.1-0", Asked.COMMIT, "done"), ("a.1-0", Asked.ROLL_BACK, "done")]
    asked += [("ff.1-0", Asked.CHECK, "refused"), ("no id", Asked.CHECK, "done")]
    for transaction_id, what, answer in asked:
        TransactionDecision.objects.create(
            by="ann", asked=what, answer=answer, transaction_id=transaction_id
        )

    counts = [services.report_unknown_decisions(begun=begun) for begun in (11, 10, 2)]

    assert counts == [0, 1, 2]
    lines = [line for line in caplog.records if line.message == "decisions_ahead_of_log"]
    assert [(line.count, line.transaction_id) for line in lines] == [(1, "a.1-0"), (2, "a.1-0")]


@pytest.mark.parametrize(
    ("outcome", "asked", "detail"),
    [
        (Outcome.COMMITTED, Asked.COMMIT, "orders/1 at offset 17"),
        (Outcome.ROLLED_BACK, Asked.ROLL_BACK, ""),
    ],
)
def test_a_decision_is_kept_with_who_and_what(
    engine: FakeEngine, outcome: Outcome, asked: Asked, detail: str
) -> None:
    engine.undecided = [half(5)]

    ended = services.decide(transaction=half(5), outcome=outcome, by="ann")

    assert ended.outcome is outcome
    assert engine.deciders == [("5.1-0badcafe", outcome, "ann")]
    line = TransactionDecision.objects.get()
    assert (line.by, line.asked, line.answer, line.detail) == ("ann", asked, Answer.DONE, detail)
    assert (line.topic, line.producer_group, line.message_id) == ("orders", "payments", "id-5")


def test_a_decision_made_twice_is_a_repeat_and_the_other_one_is_refused(
    engine: FakeEngine,
) -> None:
    engine.undecided = [half(5)]

    services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="ann")
    services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="bob")
    with pytest.raises(TransactionDecided):
        services.decide(transaction=half(5), outcome=Outcome.ROLLED_BACK, by="eve")

    answers = TransactionDecision.objects.order_by("id").values_list("by", "answer")
    assert list(answers) == [
        ("ann", Answer.DONE), ("bob", Answer.REPEAT), ("eve", Answer.REFUSED),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "answer"),
    [(Unreachable("away"), Answer.FAILED), (UnknownTopic("deleted"), Answer.REFUSED)],
)
def test_what_the_engine_refuses_is_kept_as_well(
    engine: FakeEngine, error: EngineError, answer: Answer
) -> None:
    engine.undecided = [half(5)]
    engine.care_refusal = error

    with pytest.raises(type(error)):
        services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="ann")

    line = TransactionDecision.objects.get()
    assert (line.answer, line.detail) == (answer, str(error))


def test_a_process_that_ends_between_engine_and_row_leaves_a_line(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.undecided = [half(5)]
    monkeypatch.setattr(services, "_answered", dying)

    with pytest.raises(KeyboardInterrupt):
        services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="ann")

    line = TransactionDecision.objects.get()
    assert (line.asked, line.answer) == (Asked.COMMIT, Answer.NONE)


def dying(*_: object) -> None:
    raise KeyboardInterrupt


def test_without_the_database_nobody_decides(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's decision without a line would be nobody's."""
    engine.undecided = [half(5)]

    def away(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(TransactionDecision, "save", away)

    with pytest.raises(OperationalError):
        services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="ann")

    assert engine.deciders == []


def test_a_message_id_that_no_column_can_hold_is_kept_as_far_as_it_goes(
    engine: FakeEngine,
) -> None:
    engine.undecided = [half(5)]
    hostile = half(5, message_id="\0" + "x" * 300)

    services.decide(transaction=hostile, outcome=Outcome.COMMITTED, by="ann")

    kept = TransactionDecision.objects.get().message_id
    assert (len(kept), kept[:2]) == (255, "\N{REPLACEMENT CHARACTER}x")


def test_a_check_is_asked_for_and_kept(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(5, producers=3)]

    answer = post(api, "/transactions/5.1-0badcafe:check-now")

    assert answer.status_code == 200
    assert answer.json()["producers"] == 3
    assert engine.checked == ["5.1-0badcafe"]
    line = TransactionDecision.objects.get()
    assert (line.asked, line.answer, line.topic) == (Asked.CHECK, Answer.DONE, "orders")
    assert line.by == "anonymous at 127.0.0.1"


def test_a_check_of_what_is_not_pending_is_a_404(api: Api, engine: FakeEngine) -> None:
    unknown = post(api, "/transactions/9.1-0badcafe:check-now")
    no_id = post(api, "/transactions/<script>:check-now")

    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_transaction")
    assert (no_id.status_code, no_id.json()["code"]) == (404, "unknown_transaction")
    assert engine.checked == ["9.1-0badcafe"]
    assert TransactionDecision.objects.get().answer == Answer.REFUSED


def test_a_check_takes_no_fields(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(5)]

    answer = post(api, "/transactions/5.1-0badcafe:check-now", {"force": True})

    assert answer.status_code == 422
    assert engine.checked == []


def test_transactions_are_listed_oldest_first_in_pages(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(number) for number in (30, 4, 17)]
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = api.get("/transactions", limit="2", cursor=cursor).json()
        seen += [item["message_id"] for item in page["items"]]
        cursor = page["next_cursor"]

    assert seen == ["id-4", "id-17", "id-30"]


def test_a_transaction_is_told_whole(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(5, tag="red", keys="a b"), half(6, next_check_ms=None, producers=0)]

    first, second = api.get("/transactions").json()["items"]

    assert first == {
        "transaction_id": "5.1-0badcafe",
        "topic": "orders",
        "queue": 1,
        "message_id": "id-5",
        "producer_group": "payments",
        "tag": "red",
        "keys": ["a", "b"],
        "size_bytes": 100,
        "begun_at": "1970-01-01T00:00:01.000Z",
        "checks": 2,
        "next_check_at": "1970-01-01T00:02:10.000Z",
        "last_check_at": "1970-01-01T00:01:10.000Z",
        "last_client_id": "producer-1",
        "producers": 1,
    }
    assert (second["next_check_at"], second["tag"], second["producers"]) == (None, None, 0)


def test_transactions_of_one_producer_group_can_be_asked_for(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(1), half(2, producer_group="shipping")]

    items = api.get("/transactions", producer_group="shipping").json()["items"]

    assert [item["message_id"] for item in items] == ["id-2"]


@pytest.mark.parametrize(
    "query", [{"cursor": "x"}, {"cursor": "LTE"}, {"producer_group": "a b"}, {"limit": "0"}]
)
def test_a_bad_question_is_refused(api: Api, engine: FakeEngine, query: dict[str, str]) -> None:
    assert api.get("/transactions", **query).status_code == 422


def test_the_counters_are_told(api: Api, engine: FakeEngine) -> None:
    engine.undecided = [half(1), half(2, begun_ms=500)]
    services.decide(transaction=half(1), outcome=Outcome.ROLLED_BACK, by="ann")

    found = api.get("/transactions/status").json()

    assert (found["pending"], found["rolled_back"], found["committed"]) == (1, 1, 0)
    assert found["oldest_begun_at"] == "1970-01-01T00:00:00.500Z"


def test_one_transaction_is_found_by_its_half_offset(engine: FakeEngine) -> None:
    engine.undecided = [half(3), half(9)]

    assert selectors.one(9) == half(9)
    assert selectors.one(4) is None


def test_an_actor_is_an_account_or_an_address() -> None:
    request = RequestFactory().get("/", REMOTE_ADDR="127.0.0.9")
    assert actor_of(request) == "anonymous at 127.0.0.9"

    request.user = get_user_model()(username="ann")
    assert actor_of(request) == "ann"


def test_an_unknown_transaction_is_no_bug_of_ours(engine: FakeEngine) -> None:
    with pytest.raises(UnknownTransaction):
        services.decide(transaction=half(5), outcome=Outcome.COMMITTED, by="ann")

    assert TransactionDecision.objects.get().answer == Answer.REFUSED
