"""The pages of transactions: what is undecided, deciding by hand, and what was given up."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.errors import UnknownTopic, Unreachable
from apps.engine.transactiontypes import Outcome, TransactionStatus
from apps.transactions.models import Answer, Asked, TransactionDecision
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer
from tests.web.console.test_pages import parsed
from tests.web.fake_care import half, lost, own_record
from tests.web.fake_engine import FakeEngine as Care

pytestmark = pytest.mark.django_db

ID = "5.1-0badcafe"


@pytest.fixture
def posted(feed: Feed, engine: FakeEngine, clock: HandClock) -> int:
    """Post a picture of transactions, and return its time."""
    engine.transactions = TransactionStatus(
        pending=2, begun=40, committed=30, rolled_back=7, given_up=1, checks=11, given_up_waiting=4,
        oldest_begun_ms=clock.wall_ms() - 600_000,
    )  # fmt: skip
    board.put(feed.sample(engine.api))
    return clock.wall_ms()


def test_undecided_transactions_are_shown_by_age(browser: Client, care: Care, posted: int) -> None:
    care.undecided = [
        half(9, begun_ms=posted - 5_000, next_check_ms=None, producers=0, message_id="young"),
        half(5, begun_ms=posted - 600_000, next_check_ms=posted + 30_000, message_id="old"),
    ]

    answer = browser.get("/transactions")

    texts = parsed(answer).texts
    assert answer.status_code == 200
    assert [text for text in texts if text in ("old", "young")] == ["old", "young"]
    for text in ("10 min", "5 s", "in 30 s", "no more", "1 there", "none there", "30", "7", "11"):
        assert text in texts, text


def test_a_group_can_be_searched_for_and_a_long_list_goes_on(
    browser: Client, care: Care, posted: int
) -> None:
    care.undecided = [half(number) for number in range(60)]
    care.undecided += [half(100, producer_group="shipping")]

    of_group = parsed(browser.get("/transactions?producer_group=shipping"))
    first = parsed(browser.get("/transactions"))
    (link,) = [link["href"] or "" for link in first.all("a") if "after=" in (link["href"] or "")]
    second = parsed(browser.get(link))

    def ids(texts: list[str]) -> list[str]:
        return [text for text in texts if text.startswith("id-")]

    assert ids(of_group.texts) == ["id-100"]
    assert len(ids(first.texts)) == 50
    assert ids(second.texts)[0] == "id-50"
    assert ids(second.texts)[-1] == "id-100"


def test_where_everything_is_decided_the_page_says_so(
    browser: Client, care: Care, posted: int
) -> None:
    assert "Every transaction is decided." in parsed(browser.get("/transactions")).texts


@pytest.mark.parametrize("query", ["after=x", "after=-1", "producer_group=a+b"])
def test_a_bad_search_is_told(browser: Client, care: Care, posted: int, query: str) -> None:
    answer = browser.get(f"/transactions?{query}")

    assert answer.status_code == 200
    assert any(text.startswith("Search by") for text in parsed(answer).texts)


def test_a_broker_that_does_not_answer_is_not_an_empty_list(
    browser: Client, care: Care, posted: int
) -> None:
    care.care_refusal = Unreachable("away")

    texts = parsed(browser.get("/transactions")).texts

    assert "The list cannot be read: away." in texts
    assert "Every transaction is decided." not in texts


def test_one_transaction_is_shown_with_both_decisions(
    browser: Client, care: Care, posted: int
) -> None:
    care.undecided = [half(5, begun_ms=posted - 600_000)]

    answer = browser.get("/transactions/5")

    page = parsed(answer)
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' not in answer.content.decode()
    for text in ("Undecided for 10 min", "id-5", ID, "Commit", "Roll back", "Check now"):
        assert text in page.texts, text
    assert {form["action"] for form in page.all("form")} == {
        "/transactions/5/decide", "/transactions/check", "/preferences",
    }  # fmt: skip


@pytest.mark.parametrize("number", ["4", str(2**70)])
def test_what_is_not_pending_is_a_404_that_says_where_to_look(
    browser: Client, care: Care, posted: int, number: str
) -> None:
    care.undecided = [half(5)]

    answer = browser.get(f"/transactions/{number}")

    assert answer.status_code == 404
    assert "This transaction is not pending" in parsed(answer).texts


def test_a_transaction_that_cannot_be_looked_up_is_not_said_to_be_gone(
    browser: Client, care: Care, posted: int
) -> None:
    care.care_refusal = Unreachable("away")

    answer = browser.get("/transactions/5")

    assert answer.status_code == 503
    assert "The transaction cannot be looked up" in parsed(answer).texts


@pytest.mark.parametrize(
    ("outcome", "typed", "asked", "words"),
    [
        (Outcome.COMMITTED, "commit", Asked.COMMIT, "Committed: the message is in orders/1"),
        (Outcome.ROLLED_BACK, " Roll back ", Asked.ROLL_BACK, "Rolled back: nobody will"),
    ],
)
def test_a_decision_that_was_typed_is_carried_out_and_written_down(
    browser: Client,
    care: Care,
    posted: int,
    outcome: Outcome,
    typed: str,
    asked: Asked,
    words: str,
) -> None:
    care.undecided = [half(5)]
    browser.force_login(get_user_model().objects.create_user("ann"))

    answer = browser.post(
        "/transactions/5/decide",
        {"transaction_id": ID, "outcome": outcome.value, "typed": typed},
    )
    texts = parsed(browser.get(answer["Location"])).texts

    assert (answer.status_code, answer["Location"]) == (303, "/transactions")
    assert any(text.startswith(words) for text in texts)
    assert care.decided[ID].outcome is outcome
    line = TransactionDecision.objects.get()
    assert (line.by, line.asked, line.answer) == ("ann", asked, Answer.DONE)


@pytest.mark.parametrize(
    "form",
    [
        {"outcome": "committed"},
        {"outcome": "committed", "typed": ""},
        {"outcome": "committed", "typed": "roll back"},
        {"outcome": "rolled_back", "typed": "commit"},
        {"outcome": "given_up", "typed": "commit"},
        {"typed": "commit"},
    ],
)
def test_a_decision_that_was_not_typed_does_nothing(
    browser: Client, care: Care, posted: int, form: dict[str, str]
) -> None:
    care.undecided = [half(5)]

    answer = browser.post("/transactions/5/decide", {"transaction_id": ID, **form})
    texts = parsed(browser.get(answer["Location"])).texts

    assert answer["Location"] == "/transactions/5"
    assert any(text.startswith("Nothing was done") for text in texts)
    assert care.deciders == []
    assert not TransactionDecision.objects.exists()


def test_a_page_of_another_store_decides_nothing(browser: Client, care: Care, posted: int) -> None:
    care.undecided = [half(5, transaction_id="5.2-deadbeef")]

    answer = browser.post(
        "/transactions/5/decide", {"transaction_id": ID, "outcome": "committed", "typed": "commit"}
    )
    texts = parsed(browser.get(answer["Location"])).texts

    assert any(text.startswith("It is not pending any more") for text in texts)
    assert care.deciders == []


def test_what_the_engine_refuses_is_told(
    browser: Client, care: Care, posted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    care.undecided = [half(5)]

    def refuse(*_: object, **__: object) -> None:
        raise UnknownTopic("there is no topic 'orders'")

    monkeypatch.setattr(care, "end_transaction", refuse)

    answer = browser.post(
        "/transactions/5/decide", {"transaction_id": ID, "outcome": "committed", "typed": "commit"}
    )
    texts = parsed(browser.get(answer["Location"])).texts

    assert "There is no topic 'orders'." in texts
    assert TransactionDecision.objects.get().answer == Answer.REFUSED


@pytest.mark.parametrize(
    ("producers", "words"), [(2, "Asked for: payments is asked"), (0, "payments will be asked as")]
)
def test_a_check_is_asked_for_with_a_button(
    browser: Client, care: Care, posted: int, producers: int, words: str
) -> None:
    care.undecided = [half(5, producers=producers)]

    answer = browser.post("/transactions/check", {"transaction_id": ID})
    texts = parsed(browser.get(answer["Location"])).texts

    assert any(text.startswith(words) for text in texts)
    assert care.checked == [ID]


def test_buttons_answer_only_posts_of_our_own_pages(care: Care, posted: int) -> None:
    care.undecided = [half(5)]
    strict = Client(enforce_csrf_checks=True)
    form = {"transaction_id": ID, "outcome": "committed", "typed": "commit"}

    by_link = strict.get("/transactions/5/decide", form)
    foreign = strict.post("/transactions/5/decide", form)

    assert (by_link.status_code, foreign.status_code) == (405, 403)
    assert care.deciders == []


def test_given_up_messages_are_listed_newest_first(
    browser: Client, care: Care, posted: int
) -> None:
    care.lost = [lost(n, given_up_ms=posted - 600_000) for n in range(60)]

    first = parsed(browser.get("/transactions/given-up"))
    (link,) = [link["href"] or "" for link in first.all("a") if "before=" in (link["href"] or "")]
    second = parsed(browser.get(link))

    def ids(texts: list[str]) -> list[str]:
        return [text for text in texts if text.startswith("id-")]

    assert ids(first.texts)[0] == "id-59"
    assert ids(second.texts) == [f"id-{number}" for number in range(9, -1, -1)]
    for text in ("10 min ago", "orders", "payments", "15", "99", "waits"):
        assert text in first.texts, text


def test_nothing_given_up_and_not_known_are_told_apart(
    browser: Client, care: Care, posted: int
) -> None:
    empty = parsed(browser.get("/transactions/given-up")).texts
    care.care_refusal = Unreachable("away")
    unknown = parsed(browser.get("/transactions/given-up")).texts
    bad = parsed(browser.get("/transactions/given-up?before=x")).texts

    assert "No transaction was ever given up." in empty
    assert "The list cannot be read: away." in unknown
    assert "No transaction was ever given up." not in unknown
    assert "The address names no place in the list." in bad


def test_what_producers_write_is_text(browser: Client, care: Care, posted: int) -> None:
    hostile = {"topic": POLYGLOT, "message_id": POLYGLOT, "producer_group": POLYGLOT}
    care.undecided = [half(5, keys=POLYGLOT, tag=POLYGLOT, last_client_id=POLYGLOT, **hostile)]
    care.lost = [lost(0, keys=POLYGLOT, tag=POLYGLOT, sent_by=POLYGLOT, sent_ms=1, **hostile)]
    care.own_records[GIVEN_UP_TOPIC] = [
        own_record(GIVEN_UP_TOPIC, body=POLYGLOT.encode(), colour=POLYGLOT)
    ]

    for path in (
        "/transactions",
        "/transactions/5",
        "/transactions/given-up",
        "/transactions/given-up/0?body",
    ):
        page = parsed(browser.get(path))

        assert any(POLYGLOT in text for text in page.texts), path
        assert [script.get("type") for script in page.all("script")] == ["module"] * 2
        assert len(page.all("img")) == 1
        assert not [
            name for _, attributes in page.elements for name in attributes if name.startswith("on")
        ]


def test_a_refusal_with_hostile_text_is_text(browser: Client, care: Care, posted: int) -> None:
    care.care_refusal = UnknownTopic(POLYGLOT)

    answer = browser.post("/transactions/check", {"transaction_id": ID})
    page = parsed(browser.get(answer["Location"]))

    assert [script.get("type") for script in page.all("script")] == ["module"] * 2
    assert len(page.all("img")) == 1


@pytest.mark.parametrize(
    "path",
    ["/transactions", "/transactions/5", "/transactions/given-up", "/transactions/given-up/3"],
)
def test_without_an_engine_the_pages_say_so(browser: Client, path: str) -> None:
    assert browser.get(path).status_code == 503


async def test_viewers_are_pushed_the_counters(posted: int) -> None:
    viewer = Viewer("transactions")
    await viewer.arrive()

    frame = await viewer.frame()
    await viewer.leave()

    assert frame["pending"] == 2
    assert frame["oldest_s"] == 600


def test_the_overview_has_a_line_of_undecided_transactions(browser: Client, posted: int) -> None:
    texts = " ".join(parsed(browser.get("/")).texts)

    assert "undecided, the oldest for 10 min ; 4 given up" in texts
