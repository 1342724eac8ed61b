"""The pages and the API of the audit log: searched, paged, exported, and hostile text in them."""

import asyncio
import csv
import io
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.audit.models import AuditEntry
from apps.audit.services import recorded
from apps.core.origins import Door, Origin, come_from
from tests.web.conftest import Api
from tests.web.console.fakes import POLYGLOT
from tests.web.console.test_pages import parsed

pytestmark = pytest.mark.django_db


def act(by: str = "ann", name: str = "orders", **said: Any) -> None:
    values = {"act": "topic.change", "kind": "topic", **said}
    with recorded(by=by, name=name, **values) as entry:
        entry.before, entry.after = {"perm": 6, "kept": 1}, {"perm": 4, "kept": 1, "new": "x"}


@pytest.fixture
def browser() -> Client:
    return Client()


def texts(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.status_code
    return parsed(answer).texts


def test_without_an_entry_the_page_says_why(browser: Client) -> None:
    assert any("Nobody has changed anything yet" in text for text in texts(browser.get("/audit")))


def test_entries_are_listed_newest_first_and_paged_by_number(browser: Client) -> None:
    for number in range(60):
        act(name=f"topic-{number}")

    first = parsed(browser.get("/audit"))
    (link,) = [link["href"] or "" for link in first.all("a") if "before=" in (link["href"] or "")]
    second = texts(browser.get(f"/audit{link}"))

    assert [text for text in first.texts if text.startswith("topic-")][:2] == [
        "topic-59",
        "topic-58",
    ]
    assert link == "?before=11"
    assert next(text for text in second if text.startswith("topic-")) == "topic-9"


@pytest.mark.parametrize(
    ("query", "numbers"),
    [("by=BOB", [2]), ("act=topic", [3, 2, 1]), ("act=topic.delete", [3]), ("name=bills", [2]),
     ("result=refused", []), ("door=api", [3]), ("from=2001-01-01T00:00:00Z", [3, 2, 1]),
     ("to=2001-01-01T00:00:00Z", []), ("by=ann&act=topic.change", [1])],
)  # fmt: skip
def test_entries_are_searched(browser: Client, api: Api, query: str, numbers: list[int]) -> None:
    act()
    act(by="bob", name="bills")
    with come_from(Origin(door=Door.API)):
        act(act="topic.delete")

    page = browser.get(f"/audit?{query}")
    found = browser.get(f"/api/v1/audit?{query}").json()["items"]

    links = [link["href"] or "" for link in parsed(page).all("a")]
    shown = [int(link.rsplit("/", 1)[1]) for link in links if link.startswith("/audit/")]
    assert shown == numbers
    assert [int(item["number"]) for item in found] == numbers


@pytest.mark.parametrize("query", ["result=x", "door=x", "from=x", "before=0", "by=%00"])
def test_a_search_that_makes_no_sense_is_told(browser: Client, query: str) -> None:
    assert any(text.startswith("Search by") for text in texts(browser.get(f"/audit?{query}")))


def test_an_act_in_steps_is_one_line_with_its_outcome(browser: Client) -> None:
    with recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0") as entry:
        entry.refuse("not_held", "nobody holds the lock")
    with (
        pytest.raises(ZeroDivisionError),
        recorded(by="ann", act="lock.release", kind="lock", name="g~orders~1"),
    ):
        raise ZeroDivisionError

    listed = texts(browser.get("/audit"))
    pages = [texts(browser.get(f"/audit/{number}")) for number in (1, 2)]

    assert [text for text in listed if text.startswith("g~orders")] == ["g~orders~1", "g~orders~0"]
    assert "not_held" in listed
    assert all("nobody holds the lock" in page for page in pages)


def test_an_act_without_an_outcome_says_that_nothing_is_known(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.audit.services._outcome", lambda *_args, **_more: None)
    with recorded(by="ann", act="lock.release", kind="lock", name="g~orders~0"):
        pass

    assert "outcome not known" in texts(browser.get("/audit"))
    assert any("may have been done or not" in text for text in texts(browser.get("/audit/1")))


def test_one_entry_shows_values_side_by_side(browser: Client) -> None:
    act(reason="too many writers")

    page = parsed(browser.get("/audit/1"))

    changes = [row["data-change"] for row in page.all("tr") if "data-change" in row]
    assert changes == ["added", "changed", ""]
    for text in ("too many writers", "perm", "6", "4"):
        assert text in page.texts, text


def test_an_entry_that_is_not_there_is_a_404(browser: Client, api: Api) -> None:
    assert browser.get("/audit/7").status_code == 404
    assert api.get("/audit/7").status_code == 404
    assert api.get("/audit/x").json()["code"] == "not_found"


def test_hostile_text_is_text(browser: Client) -> None:
    with (
        come_from(Origin(door=Door.CONSOLE, address="::1", agent=POLYGLOT)),
        recorded(by=POLYGLOT, act="topic.change", kind="topic", name=POLYGLOT, reason=POLYGLOT) as
        entry,
    ):  # fmt: skip
        entry.after = {POLYGLOT: POLYGLOT}

    for address in ("/audit", "/audit/1"):
        answer = browser.get(address)
        assert b"<script>alert" not in answer.content
        assert any(POLYGLOT[:60] in text for text in parsed(answer).texts)


def test_the_list_costs_the_same_however_many_entries(browser: Client) -> None:
    counts = []
    for _ in range(2):
        for number in range(20):
            act(name=f"topic-{number}")
            with recorded(by="ann", act="lock.release", kind="lock", name="l"):
                pass
        with CaptureQueriesContext(
            connection,
        ) as queries:
            browser.get("/audit")
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 3


def test_the_api_pages_and_names_the_outcome(api: Api) -> None:
    with recorded(by="ann", act="lock.release", kind="lock", name="l"):
        pass
    act()

    first = api.get("/audit", limit="2").json()
    second = api.get("/audit", limit="2", cursor=first["next_cursor"]).json()
    asked = api.get("/audit/1").json()

    assert [item["number"] for item in first["items"]] == ["3", "2"]
    assert [item["number"] for item in second["items"]] == ["1"]
    assert (asked["result"], asked["outcome"]) == ("asked", "2")
    assert len(asked["hash"]) == 64


@pytest.fixture
def content() -> Any:
    def read(answer: Any) -> str:
        async def all_of() -> bytes:
            return b"".join([piece async for piece in answer.streaming_content])

        return asyncio.run(all_of()).decode()

    return read


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_export_is_chained_as_it_was_and_is_an_act_itself(
    api: Api, content: Any, kind: str
) -> None:
    act(reason="=cmd()")
    act(by="bob")

    text = content(api.get("/audit:export", format=kind, by="ann"))

    if kind == "csv":
        (line,) = list(csv.DictReader(io.StringIO(text)))
        assert line["reason"] == "'=cmd()"
        assert json.loads(line["before"]) == {"perm": 6, "kept": 1}
    else:
        (line,) = [json.loads(one) for one in text.splitlines()]
        assert line["reason"] == "=cmd()"
    assert line["hash"] == AuditEntry.objects.get(number=1).hash
    export = AuditEntry.objects.get(number=3)
    assert (export.act, export.after) == ("audit.export", {"by": "ann"})


@pytest.fixture
def root() -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("root", password="x"))
    return browser


def test_the_admin_shows_entries_and_changes_none(root: Client) -> None:
    act()

    listed = root.get("/admin/audit/auditentry/")

    assert b"topic.change" in listed.content
    assert root.get("/admin/audit/auditentry/1/change/").status_code == 200
    assert root.get("/admin/audit/auditentry/add/").status_code == 403
    assert root.post("/admin/audit/auditentry/1/delete/", {"post": "yes"}).status_code == 403
