"""What pages offer is what their viewer may do: no open button that is refused, and no dead link.

Every form and link is asked about by what the middleware says of its address, and by sending.
"""

from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from apps.console.board import board
from apps.console.feed import Feed
from apps.console.pages import lock, objects, produce
from apps.core.languages import LANGUAGE_COOKIE, Language
from apps.core.moments import moment
from apps.engine.clock import SystemClock
from apps.engine.types import CatalogSnapshot, GroupSpec, TopicSpec
from apps.messages.selectors.spans import Span
from apps.metrics.models import GroupSummary, TopicSummary
from apps.topics.models import Topic
from tests.web.alerts.rows import channel, rule, silence
from tests.web.console import conftest as console
from tests.web.console.fakes import FakeEngine
from tests.web.console.test_care_pages import backlog, held
from tests.web.fake_engine import FakeEngine as Care

clock, watch, last_hour, deaths, pipelines, feed = (
    console.clock, console.watch, console.last_hour, console.deaths, console.pipelines,
    console.feed,
)  # fmt: skip
engine, care = console.engine, console.care

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = [
    "/", "/topics", "/groups", "/topics/new", "/locks", "/locks/billing~orders~0/",
    "/delays", "/transactions", "/transactions/given-up", "/dead-letters", "/store", "/clockwork",
    "/pipelines/", "/pipelines/runs/", "/alerts", "/alerts/history", "/alerts/rules",
    "/alerts/rules/{rule}", "/alerts/silences", "/topics/orders/", "/topics/orders/consumers",
    "/topics/orders/settings", "/groups/billing/", "/groups/billing/members/",
    "/groups/billing/locks/", "/groups/billing/retries/", "/groups/billing/offsets/",
    "/groups/billing/diagnosis/", "/groups/billing/what-if/", "/dead-letters/billing/",
]  # fmt: skip
FOR_ADMINS = [
    "/audit", "/access", "/alerts/rules/new", "/alerts/channels", "/alerts/channels/{channel}",
    "/topics/orders/produce", "/topics/orders/delete", "/locks/billing~orders~0/confirm?act=park",
]  # fmt: skip


class Offers(HTMLParser):
    """The forms of a page with their addresses and buttons, and its links."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.sends: list[tuple[str, bool]] = []
        self.texts = ""
        self._form: str | None = None
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag == "form":
            self._form = (given.get("action") or "") if given.get("method") == "post" else None
        elif tag == "button" and self._form is not None:
            where = given.get("formaction") or self._form
            self.sends.append((where, "disabled" in given))
            assert "disabled" not in given or given.get("title"), "a reason is missing"

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        self.texts += data


@pytest.fixture
def stage(
    closed: None, feed: Feed, engine: FakeEngine, care: Care, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Client]:  # fmt: skip
    """Have one of everything that has buttons; return a signed-in client for each role."""
    now_ms = SystemClock().wall_ms()
    span = Span(queue=0, held=9, oldest_ms=now_ms, newest_ms=now_ms)
    monkeypatch.setattr(objects.selectors, "spans_of", lambda _name: [span])
    engine.add_topic("orders")
    engine.send("orders", 0, 9)
    engine.consume("billing", "orders", 0, upto=3)
    engine.left = care.left_to_do = [backlog()]
    engine.locks = care.locks = [held()]
    board.put(feed.sample(engine.api))
    care.catalog = CatalogSnapshot(
        version=1,
        topics={"orders": TopicSpec(name="orders", queue_count=1)},
        groups={"billing": GroupSpec(name="billing", ordered=True)},
    )
    care.lengths["orders", 0] = 9
    Topic.objects.get_or_create(name="orders")
    silence(from_ms=now_ms - 1_000, to_ms=now_ms + 3_600_000)
    for kind, name in ((TopicSummary, "orders"), (TopicSummary, "covert"),
                       (GroupSummary, "billing"), (GroupSummary, "covert-group")):  # fmt: skip
        kind.objects.create(name=name, sampled_at=moment(now_ms))
    GroupSummary.objects.update(topics=["orders", "covert"], topic_count=2)
    for role in Role:
        accounts.create_account(name=role.value, password="Correct horse 1", role=role, by="t")
    for kind, name in (("topic", "orders"), ("group", "billing")):
        accounts.add_grant(
            name="none", kind=kind, actions=["get"], match="literal", resource=name, by="t"
        )
    found = {}
    for role in Role:
        found[role.value] = Client()
        found[role.value].force_login(get_user_model().objects.get(username=role.value))
    return found


@pytest.fixture
def paths() -> dict[str, int]:
    return {"rule": rule().pk, "channel": channel().pk}


def offers(client: Client, path: str) -> Offers:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return Offers(answer.content.decode())


def is_refused(client: Client, method: str, page: str, where: str) -> bool:
    path = unquote(urlsplit(urljoin(page, where)).path)
    return client.generic(method, path).status_code == 403


def test_a_viewer_is_offered_no_form_and_no_link_that_would_be_refused(
    stage: dict[str, Client], paths: dict[str, int]
) -> None:
    viewer, wrong, closed_count = stage["viewer"], set(), 0
    asked: dict[tuple[str, str], bool] = {}

    def refused(method: str, page: str, where: str) -> bool:
        key = (method, urlsplit(urljoin(page, where)).path)
        if key not in asked:
            asked[key] = is_refused(viewer, method, page, where)
        return asked[key]

    for path in (page.format(**paths) for page in PAGES):
        page = offers(viewer, path)
        for where, is_disabled in page.sends:
            if urlsplit(urljoin(path, where)).path in ("/sign-out", "/preferences", "/topics/new"):
                continue
            closed_count += is_disabled
            if refused("POST", path, where) != is_disabled:
                wrong.add((path, where, is_disabled))
        for link in page.links:
            if not link.startswith(("#", "?")) and refused("GET", path, link):
                wrong.add((path, link, None))

    assert wrong == set()
    assert closed_count >= 9


def test_an_admin_finds_every_form_open(stage: dict[str, Client], paths: dict[str, int]) -> None:
    forms = 0
    for path in (page.format(**paths) for page in PAGES + FOR_ADMINS):
        page = offers(stage["admin"], path)
        forms += len(page.sends)
        assert [where for where, is_disabled in page.sends if is_disabled] == [], path

    assert forms >= 30


def test_what_a_viewer_has_no_right_to_is_not_in_the_menu(stage: dict[str, Client]) -> None:
    menus = {who: set(offers(stage[who], "/topics").links) for who in ("viewer", "admin", "none")}

    only_admins = {"/audit", "/access", "/messages", "/topics/new"}
    assert {*only_admins, "/admin/"} <= menus["admin"]
    assert not only_admins & menus["viewer"]
    assert ("/admin/" in menus["viewer"], "/admin/" in menus["none"]) == (True, False)
    assert {"/", "/locks", "/store"} <= menus["viewer"]
    assert not {"/store", "/clockwork", "/pipelines/"} & menus["none"]
    assert {"/", "/locks", "/topics", "/groups", "/dead-letters", "/alerts"} <= menus["none"]


def test_who_may_make_no_topic_finds_the_form_closed(stage: dict[str, Client]) -> None:
    assert dict(offers(stage["viewer"], "/topics/new").sends)["/topics/new"]
    assert not dict(offers(stage["admin"], "/topics/new").sends)["/topics/new"]


@pytest.mark.parametrize("end", ["", ".csv"])
def test_lists_hold_the_names_that_their_viewer_may_list(
    stage: dict[str, Client], end: str
) -> None:
    def text(who: str, path: str) -> str:
        return stage[who].get(path + end).content.decode()

    assert "orders" in text("none", "/topics")
    assert "covert" not in text("none", "/topics")
    assert "covert" in text("viewer", "/topics")
    assert "billing" in text("none", "/groups")
    assert "covert" not in text("none", "/groups")
    assert "covert-group" in text("viewer", "/groups")


def test_a_denied_name_is_in_no_list_whatever_the_role(stage: dict[str, Client]) -> None:
    accounts.add_grant(
        name="viewer", kind="topic", actions=["list"], match="literal", resource="covert",
        effect="deny", by="t",
    )  # fmt: skip

    assert "covert" not in stage["viewer"].get("/topics").content.decode()
    assert "covert" in stage["operator"].get("/topics").content.decode()


@pytest.fixture
def reader(stage: dict[str, Client]) -> Client:
    """Return somebody who may see one topic, and none of the groups that read it."""
    accounts.create_account(name="reader", password="Correct horse 1", role=Role.NONE, by="t")
    accounts.add_grant(
        name="reader", kind="topic", actions=["get"], match="literal", resource="orders", by="t"
    )
    found = Client()
    found.force_login(get_user_model().objects.get(username="reader"))
    return found


@pytest.mark.parametrize("path", ["/", "/locks", "/topics/orders/", "/topics/orders/consumers"])
def test_who_sees_no_group_is_not_told_that_there_is_none(reader: Client, path: str) -> None:
    text = reader.get(path).content.decode()

    assert "No group that you may see has read" in text
    assert "No group has read" not in text


def test_a_missing_right_is_told_in_the_language_of_who_misses_it(reader: Client) -> None:
    path = "/pipelines/"
    in_english = reader.get(path)
    reader.cookies[LANGUAGE_COOKIE] = Language.CHINESE.value
    in_chinese = reader.get(path)

    assert (in_english.status_code, in_chinese.status_code) == (403, 403)
    assert "reader has no right to get cluster" in in_english.content.decode()
    assert "has no right" not in in_chinese.content.decode()


@pytest.mark.parametrize("path", ["/topics", "/groups", "/topics.csv", "/groups.csv"])
def test_a_list_for_some_names_asks_as_many_queries_however_long_it_is(
    stage: dict[str, Client], path: str, django_assert_max_num_queries: Any
) -> None:
    stage["none"].get(path)
    for number in range(300):
        TopicSummary.objects.create(name=f"t{number}", sampled_at=moment(0))
        GroupSummary.objects.create(name=f"g{number}", sampled_at=moment(0))

    # Two of them are the session and its account.
    with django_assert_max_num_queries(9):
        assert stage["none"].get(path).status_code == 200


def test_the_message_at_a_head_is_not_even_read_for_who_may_not_peek(
    stage: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    monkeypatch.setattr(lock.selectors, "head_record", lambda _place, at: read.append(at))

    viewed = offers(stage["viewer"], "/locks/billing~orders~0/")
    assert (read, "It is hidden: viewer has no right to peek" in viewed.texts) == ([], True)
    offers(stage["operator"], "/locks/billing~orders~0/")
    assert read == [3]


def test_who_may_send_but_not_read_copies_no_message_into_the_form(
    stage: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(produce.selectors, "message_at", lambda name, *_: read.append(name))
    accounts.add_grant(
        name="none", kind="topic", actions=["pub"], match="literal", resource="orders", by="t"
    )

    page = offers(stage["none"], "/topics/orders/produce?like=0:1&of=covert")
    assert (read, "The message to copy is hidden" in page.texts) == ([], True)
    offers(stage["admin"], "/topics/orders/produce?like=0:1&of=covert")
    assert read == ["covert"]
