"""Who has a right for one topic or group uses it there and nowhere else, whatever leads there.

Somebody else's things are reached for by every number, id and handle there is. What the caller may
see is answered 403; what they may not know of, as what is not there.
"""

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management.color import no_style
from django.db import connection
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from apps.audit import services
from apps.audit.models import AuditEntry
from apps.audit.refusals import Tally
from apps.console.board import board
from apps.console.feed import Feed
from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, ResendJob
from apps.engine.clock import SystemClock
from apps.engine.delaytypes import Recall
from apps.engine.types import CatalogSnapshot, TopicSpec
from apps.pipelines.models import PipelineRun
from apps.topics.models import Topic
from tests.web.console import conftest as console
from tests.web.console.fakes import FakeEngine
from tests.web.fake_care import half, lost
from tests.web.fake_engine import FakeEngine as Care
from tests.web.pipelines.rows import run

clock, watch, last_hour, deaths, pipelines, feed, engine, care = (
    console.clock, console.watch, console.last_hour, console.deaths, console.pipelines,
    console.feed, console.engine, console.care,
)  # fmt: skip

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "Correct horse 1"
MINE, SEEN, HIDDEN = "orders", "audits", "covert"


def handle(topic: str, message_id: str) -> str:
    """Return a recall handle as the engine writes them, with a mark that is none of its own."""
    text = f"v1 {topic} mqweb {1_763_001_000_000} {message_id} 0 0 mark"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def person(name: str, *held: tuple[str, list[str], str]) -> Client:
    accounts.create_account(name=name, password=PASSWORD, role=Role.NONE, by="t")
    for kind, actions, resource in held:
        accounts.add_grant(
            name=name, kind=kind, actions=actions, match="literal" if resource else "any",
            resource=resource, by="t",
        )  # fmt: skip
    client = Client()
    client.force_login(get_user_model().objects.get(username=name))
    return client


@pytest.fixture
def shop(
    closed: None, feed: Feed, engine: FakeEngine, care: Care, monkeypatch: pytest.MonkeyPatch
) -> Care:
    """Return an engine with a thing of each kind for three topics and groups, numbered alike."""
    del closed
    # What was refused before in the same minute is only counted.
    monkeypatch.setattr(services, "_tally", Tally())
    care.catalog = CatalogSnapshot(
        version=2,
        topics={name: TopicSpec(name=name, queue_count=1) for name in (MINE, SEEN, HIDDEN)},
    )
    for number, name in enumerate((MINE, SEEN, HIDDEN), start=1):
        Topic.objects.get_or_create(name=name)
        care.undecided.append(half(number, topic=name))
        care.lost.append(lost(number, topic=name))
        DeadLetter.objects.create(
            group=name, queue_offset=number, message_id=f"of-{name}", origin_topic=name,
            dead_at=moment(SystemClock().wall_ms()), attempts=1, history=[], size_bytes=1,
        )  # fmt: skip
        ResendJob.objects.create(
            pk=number, group=name, created_by="t", total=1, criteria={},
            created_at=moment(SystemClock().wall_ms()),
        )  # fmt: skip
        run("quality", state="queued", pk=number, topics=[name], hours_ago=number)
    run("quality", state="queued", pk=4, topics=[MINE, HIDDEN], hours_ago=4)
    run("quality", state="queued", pk=5, topics=[], hours_ago=5)
    # What is made next is numbered behind these.
    with connection.cursor() as cursor:
        for command in connection.ops.sequence_reset_sql(no_style(), [PipelineRun, ResendJob]):
            cursor.execute(command)
    board.put(feed.sample(engine.api))
    return care


@pytest.fixture
def dora(shop: Care) -> Client:
    """Return who may decide, redrive and run for one topic and group, and see another of each."""
    return person(
        "dora",
        ("topic", ["decide", "run", "peek"], MINE), ("group", ["redrive"], MINE),
        ("topic", ["get"], SEEN), ("group", ["get"], SEEN),
    )  # fmt: skip


def decided(number: int) -> dict[str, str]:
    return {
        "outcome": "committed", "typed": "commit", "transaction_id": half(number).transaction_id,
        "reason": "for a test",
    }  # fmt: skip


def sent(number: int) -> dict[str, str]:
    transaction_id = lost(number).transaction_id or ""
    return {"typed": "send", "reason": "for a test", "transaction_id": transaction_id}


Ask = Callable[[Client, int, str], Any]
JSON = "application/json"
ASKS: dict[str, Ask] = {
    "decide": lambda who, n, _: who.post(f"/transactions/{n}/decide", decided(n)),
    "check": lambda who, n, _: who.post(
        "/transactions/check", {"transaction_id": half(n).transaction_id}
    ),
    "check by the API": lambda who, n, _: who.post(
        f"/api/v1/transactions/{half(n).transaction_id}:check-now", {}, JSON
    ),
    "send given up": lambda who, n, _: who.post(f"/transactions/given-up/{n}/send", sent(n)),
    "send given up by the API": lambda who, n, _: who.post(
        f"/api/v1/transactions/given-up/{n}:send",
        {"reason": "x", "transaction_id": sent(n)["transaction_id"]}, JSON,
    ),
    "cancel a delay": lambda who, n, name: who.post(
        "/delays/cancel", {"handle": handle(name, str(n))}
    ),
    "deliver a delay": lambda who, n, name: who.post(
        "/delays/deliver-now", {"handle": handle(name, str(n))}
    ),
    "cancel a job": lambda who, n, _: who.post(f"/jobs/{n}/cancel"),
    "cancel a job by the API": lambda who, n, _: who.post(f"/api/v1/jobs/{n}:cancel"),
    "cancel a run": lambda who, n, _: who.post(f"/pipelines/runs/{n}/cancel"),
    "cancel a run by the API": lambda who, n, _: who.post(f"/api/v1/pipelines/runs/{n}:cancel"),
    "rerun": lambda who, n, _: who.post(f"/pipelines/runs/{n}/rerun"),
    "rerun by the API": lambda who, n, _: who.post(f"/api/v1/pipelines/runs/{n}:rerun"),
}  # fmt: skip


def done_by(care: Care) -> list[object]:
    """Return all that anybody had done."""
    return [
        *care.deciders, *care.checked, *care.sent_after_all, *care.recalled.items(),
        *ResendJob.objects.filter(cancel_requested=True).values_list("group", flat=True),
        *PipelineRun.objects.filter(cancel_requested=True).values_list("pk", flat=True),
        *PipelineRun.objects.filter(pk__gt=5).values_list("pk", flat=True),
    ]  # fmt: skip


def plain(answer: Any) -> tuple[object, ...]:
    """Return what a caller sees of an answer, without what differs from one to the next."""
    told = "" if "json" not in answer.headers["Content-Type"] else answer.json()["code"]
    return answer.status_code, answer.headers.get("Location", "").rstrip("0123456789/"), told


@pytest.mark.parametrize("what", ASKS)
def test_what_is_of_ones_own_topic_is_done(dora: Client, shop: Care, what: str) -> None:
    answer = ASKS[what](dora, 1, MINE)

    # Which of the fake engine's handles is unknown is told on the page, after the engine was asked.
    assert answer.status_code in (200, 202, 303), answer.content
    if "delay" not in what and "rerun" not in what:
        assert done_by(shop) != []


@pytest.mark.parametrize("what", ASKS)
def test_what_is_of_another_topic_one_sees_is_refused(dora: Client, shop: Care, what: str) -> None:
    answer = ASKS[what](dora, 2, SEEN)

    assert answer.status_code == 403, answer.content
    assert done_by(shop) == []
    refusal = AuditEntry.objects.filter(act="access.refused").latest("pk")
    assert refusal.name == SEEN


@pytest.mark.parametrize("what", ASKS)
def test_what_is_of_a_hidden_topic_is_answered_as_what_is_not_there(
    dora: Client, shop: Care, what: str
) -> None:
    hidden = ASKS[what](dora, 3, HIDDEN)
    missing = ASKS[what](dora, 77, "nowhere")

    assert plain(hidden) == plain(missing)
    assert hidden.status_code in (303, 404)
    assert done_by(shop) == []


@pytest.mark.parametrize("what", ASKS)
def test_who_may_look_at_everything_may_do_none_of_it(shop: Care, what: str) -> None:
    accounts.create_account(name="vera", password=PASSWORD, role=Role.VIEWER, by="t")
    vera = Client()
    vera.force_login(get_user_model().objects.get(username="vera"))

    for number, name in enumerate((MINE, SEEN, HIDDEN), start=1):
        assert ASKS[what](vera, number, name).status_code == 403
    assert done_by(shop) == []


@pytest.mark.parametrize("what", ASKS)
def test_an_operator_may_but_where_a_grant_denies_it_by_name(shop: Care, what: str) -> None:
    accounts.create_account(name="otto", password=PASSWORD, role=Role.OPERATOR, by="t")
    for kind, actions in (("topic", ["decide", "run"]), ("group", ["redrive"])):
        accounts.add_grant(
            name="otto", kind=kind, actions=actions, match="literal", resource=SEEN,
            effect="deny", by="t",
        )  # fmt: skip
    otto = Client()
    otto.force_login(get_user_model().objects.get(username="otto"))

    assert ASKS[what](otto, 2, SEEN).status_code == 403
    assert done_by(shop) == []
    assert ASKS[what](otto, 3, HIDDEN).status_code in (200, 202, 303)


@pytest.mark.parametrize("what", ASKS)
def test_the_clusters_right_is_enough_for_each_name(shop: Care, what: str) -> None:
    cleo = person("cleo", ("cluster", ["get", "decide", "run", "redrive"], ""))

    assert ASKS[what](cleo, 1, MINE).status_code in (200, 202, 303)


def test_a_run_of_several_topics_needs_the_right_for_each(dora: Client, shop: Care) -> None:
    mixed = dora.post("/api/v1/pipelines/runs/4:cancel")
    of_all = dora.post("/api/v1/pipelines/runs/5:cancel")

    assert (mixed.status_code, of_all.status_code) == (404, 404)
    assert done_by(shop) == []


@pytest.mark.parametrize(
    ("topics", "status"),
    [([MINE, SEEN], 403), ([MINE, HIDDEN], 404), ([MINE, "nowhere"], 404), ([], 403)],
)
def test_a_run_is_asked_for_over_topics_one_may_run(
    dora: Client, shop: Care, topics: list[str], status: int
) -> None:
    start = moment(1_763_001_000_000)
    asked = {
        "job": "quality", "topics": topics, "from": start.isoformat(),
        "to": (start + timedelta(hours=1)).isoformat(),
    }  # fmt: skip

    answer = dora.post("/api/v1/pipelines/runs", asked, JSON)
    page = dora.post(
        "/pipelines/runs/ask",
        {"job": "quality", "from": "2025-11-13T02:00", "to": "2025-11-13T03:00",
         "topics": " ".join(topics)},
    )  # fmt: skip

    assert (answer.status_code, page.status_code) == (status, status), answer.content
    assert PipelineRun.objects.count() == 5


def test_lists_and_pages_of_runs_show_those_of_topics_one_sees(dora: Client, shop: Care) -> None:
    listed = dora.get("/api/v1/pipelines/runs").json()["items"]

    assert [row["topics"] for row in listed] == [[SEEN], [MINE]]
    assert [dora.get(f"/pipelines/runs/{number}/").status_code for number in range(1, 7)] == [
        200, 200, 404, 404, 404, 404,
    ]  # fmt: skip
    assert [dora.get(f"/api/v1/pipelines/runs/{number}").status_code for number in (1, 3, 9)] == [
        200, 404, 404,
    ]  # fmt: skip
    page = dora.get("/pipelines/runs/").content.decode()
    assert HIDDEN not in page


def test_the_page_of_a_given_up_message_is_its_topics(dora: Client, shop: Care) -> None:
    found = {
        number: dora.get(f"/transactions/given-up/{number}").status_code for number in (1, 2, 3, 9)
    }
    by_api = {
        number: dora.get(f"/api/v1/transactions/given-up/{number}").status_code
        for number in (2, 3, 9)
    }

    assert found == {1: 200, 2: 200, 3: 404, 9: 404}
    # To see it is not to read it.
    assert by_api == {2: 403, 3: 404, 9: 404}
    assert "to decide topic" in dora.get("/transactions/given-up/2").content.decode()


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/transactions/1", True), ("/transactions/2", False), ("/transactions/given-up/1", True),
        ("/transactions/given-up/2", False), ("/jobs/1", True), ("/jobs/2", False),
        ("/pipelines/runs/1/", True), ("/pipelines/runs/2/", False),
    ],
)  # fmt: skip
def test_buttons_are_open_where_they_may_be_pressed_and_say_why_not(
    dora: Client, shop: Care, path: str, is_open: bool
) -> None:
    page = dora.get(path).content.decode().partition("<main")[2]

    assert ("disabled" not in page) is is_open
    assert ("no right to" in page) is not is_open


def test_a_batch_with_letters_of_another_group_sends_those_of_ones_own(
    dora: Client, shop: Care
) -> None:
    ids = [str(number) for number in DeadLetter.objects.order_by("pk").values_list("pk", flat=True)]

    mine = dora.post(
        f"/api/v1/groups/{MINE}/dead-letters:discard", {"ids": ids, "reason": "x"}, JSON
    )
    other = dora.post(
        f"/api/v1/groups/{SEEN}/dead-letters:discard", {"ids": ids, "reason": "x"}, JSON
    )
    hidden = dora.post(
        f"/api/v1/groups/{HIDDEN}/dead-letters:discard", {"ids": ids, "reason": "x"}, JSON
    )

    assert (mine.status_code < 500, other.status_code, hidden.status_code) == (True, 403, 404)
    touched = set(DeadLetter.objects.exclude(state="waiting").values_list("group", flat=True))
    assert touched <= {MINE}


def test_a_handle_that_says_nothing_is_unknown_and_never_asked_about(
    dora: Client, shop: Care
) -> None:
    shop.recalled["rubbish"] = Recall.DELIVERED

    answer = dora.post("/delays/cancel", {"handle": "rubbish"}, follow=True)

    assert "Unknown" in answer.content.decode()
    assert AuditEntry.objects.filter(act="delayed.cancel").count() == 0


def test_who_may_run_jobs_over_a_topic_is_led_to_their_runs(dora: Client) -> None:
    menu = dora.get("/topics").content.decode()

    assert 'href="/pipelines/runs/"' in menu
    assert dora.get("/pipelines/runs/").status_code == 200
    assert 'href="/pipelines/"' not in menu
