"""The pages of given-up transactions: looking at one, and sending it after all."""

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.errors import UnknownTopic, Unreachable
from apps.transactions.models import Answer, Asked, TransactionDecision
from tests.web.console.fakes import FakeEngine
from tests.web.console.test_pages import parsed
from tests.web.fake_care import lost, own_record
from tests.web.fake_engine import FakeEngine as Care

pytestmark = pytest.mark.django_db

ID = lost(3).transaction_id


@pytest.fixture(autouse=True)
def posted(feed: Feed, engine: FakeEngine, care: Care) -> None:
    board.put(feed.sample(engine.api))
    care.lost = [lost(3)]
    care.own_first[GIVEN_UP_TOPIC] = 3
    care.own_records[GIVEN_UP_TOPIC] = [own_record(GIVEN_UP_TOPIC, body=b"order 4711")]


def send(browser: Client, offset: int = 3, **entered: str) -> str:
    """Press the button; return what is said then."""
    asked = {"transaction_id": ID or "", "typed": "send", "reason": "it is in the table"}
    answer = browser.post(f"/transactions/given-up/{offset}/send", asked | entered)
    assert answer.status_code == 303
    *_, said = [str(message) for message in get_messages(answer.wsgi_request)]
    return said


def test_one_is_shown_with_what_is_known_and_its_body_only_on_demand(browser: Client) -> None:
    page = parsed(browser.get("/transactions/given-up/3"))
    with_body = parsed(browser.get("/transactions/given-up/3?body"))

    for text in ("orders", "id-3", "payments", "15", "43", ID, "2023-11-14 22:28:20 UTC"):
        assert text in page.texts, text
    assert "order 4711" not in page.texts
    assert "order 4711" in with_body.texts
    assert "/transactions/given-up/3/send" in [form["action"] for form in page.all("form")]


def test_one_that_is_not_there_is_a_404_and_not_known_is_a_503(browser: Client, care: Care) -> None:
    missing = [browser.get(f"/transactions/given-up/{offset}") for offset in (4, 2**70)]
    care.care_refusal = Unreachable("away")
    unknown = browser.get("/transactions/given-up/3")

    assert [answer.status_code for answer in missing] == [404, 404]
    assert unknown.status_code == 503
    assert "The broker cannot be asked: away." in parsed(unknown).texts


def test_a_body_that_the_log_has_lost_meanwhile_is_said(browser: Client, care: Care) -> None:
    care.own_records.clear()

    texts = parsed(browser.get("/transactions/given-up/3?body")).texts

    assert "The log does not have the message any more." in texts


def test_it_is_sent_when_the_word_and_a_reason_are_given(browser: Client, care: Care) -> None:
    said = send(browser, typed=" Send ")
    again = send(browser)
    page = parsed(browser.get("/transactions/given-up/3"))

    assert said == "Sent: the message is in orders/1 at offset 17."
    assert again == "It had been sent before: the message is in orders/1 at offset 17."
    lines = TransactionDecision.objects.order_by("id").values_list("asked", "answer", "reason")
    assert list(lines) == [
        (Asked.SEND, Answer.DONE, "it is in the table"),
        (Asked.SEND, Answer.REPEAT, "it is in the table"),
    ]
    assert not [form for form in page.all("form") if "given-up" in (form["action"] or "")]
    assert "Sent after all" in page.texts


@pytest.mark.parametrize(
    ("entered", "said"),
    [
        ({"typed": ""}, "type “send” to do it."),
        ({"typed": "commit"}, "type “send” to do it."),
        ({"reason": " "}, "say why, in up to 500 characters."),
        ({"reason": "x" * 501}, "say why, in up to 500 characters."),
        ({"transaction_id": "1.1-00000000"}, "another message is at that offset now, or none."),
    ],
)
def test_a_slip_of_the_hand_sends_nothing(
    browser: Client, care: Care, entered: dict[str, str], said: str
) -> None:
    assert send(browser, **entered) == f"Nothing was done: {said}"
    assert care.sent_after_all == []
    assert not TransactionDecision.objects.exists()


def test_an_offset_of_no_message_sends_nothing(browser: Client, care: Care) -> None:
    for offset in (4, 2**70):
        assert "Nothing was done" in send(browser, offset)


def test_what_the_engine_refuses_is_told(
    browser: Client, care: Care, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_asked: object, **_named: object) -> None:
        raise UnknownTopic("there is no topic 'orders'")

    monkeypatch.setattr(care, "send_given_up", refuse)

    assert send(browser) == "There is no topic 'orders'."
    assert TransactionDecision.objects.get().answer == Answer.REFUSED


def test_a_link_sends_nothing_and_another_site_neither(care: Care) -> None:
    browser = Client(enforce_csrf_checks=True)

    by_link = browser.get("/transactions/given-up/3/send")
    foreign = browser.post("/transactions/given-up/3/send", {"typed": "send", "reason": "x"})

    assert (by_link.status_code, foreign.status_code) == (405, 403)
    assert care.sent_after_all == []
