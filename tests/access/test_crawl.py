"""Whoever looks is led nowhere they may not go: the console crawled as each role, link by link.

Every link on every page that can be reached from the first one opens for the one who sees it, and
every button that is closed says why, where a keyboard and a screen reader find it.
"""

import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from apps.alerts.models import Alert
from apps.console.board import board
from apps.console.feed import Feed
from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, ResendJob
from apps.engine.clock import SystemClock
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import CatalogSnapshot, GroupSpec, TopicSpec
from apps.metrics.models import GroupSummary, TopicSummary
from apps.topics.models import Topic
from tests.access import test_pages_by_role as pages
from tests.access.test_pages_by_role import Offers
from tests.web.alerts.rows import rule
from tests.web.console import conftest as console
from tests.web.console.fakes import FakeEngine
from tests.web.console.test_care_pages import backlog
from tests.web.fake_engine import FakeEngine as Care

clock, watch, last_hour, deaths, pipelines, feed = (
    console.clock, console.watch, console.last_hour, console.deaths, console.pipelines,
    console.feed,
)  # fmt: skip
engine, care, stage = console.engine, console.care, pages.stage

pytestmark = pytest.mark.django_db(transaction=True)

PAGES_MAX = 1_000
# Every page has one that leads back to it; where it leads back to is all that differs.
_FORM, FORMS_MAX = "/preferences?back=", 10
# Files and addresses of the API are answered by others; what they answer is tested there.
_NOT_PAGES = ("/static/", "/api/", "/admin/")
WHO = [*(role.value for role in Role), "topic", "group", "nothing"]
HIDDEN = {
    "none": ["covert"],
    # What reads a topic, and what a group reads, is there under the right to it alone.
    "topic": ["covert", "billing"],
    "group": ["covert"],
    "nothing": ["covert", "billing", "orders"],
}
PEEKING = {"admin", "operator"}


@pytest.fixture
def people(
    stage: dict[str, Client],
    feed: Feed,
    engine: FakeEngine,
    care: Care,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Client]:
    """Return a client for each role, and for accounts with one topic, one group and nothing."""
    now = moment(SystemClock().wall_ms())
    engine.add_topic("covert")
    engine.consume("covert-group", "covert", 0, upto=0)
    engine.left = [backlog(), backlog(group="covert-group", topic="covert")]
    board.put(feed.sample(engine.api))
    care.catalog = CatalogSnapshot(
        version=2,
        topics={name: TopicSpec(name=name, queue_count=1) for name in ("orders", "covert")},
        groups={name: GroupSpec(name=name, ordered=True) for name in ("billing", "covert-group")},
    )
    care.lengths["covert", 0] = 0
    Topic.objects.get_or_create(name="covert")

    async def search(_request: SearchRequest) -> SearchResult:
        return SearchResult(blocks=(), truncated=False, scan_incomplete=False)

    monkeypatch.setattr(care, "search", search, raising=False)
    for kind, name in (("topic", "orders"), ("group", "billing"), ("nothing", "")):
        accounts.create_account(name=kind, password="Correct horse 1", role=Role.NONE, by="t")
        if name:
            accounts.add_grant(
                name=kind, kind=kind, actions=["get"], match="literal", resource=name, by="t"
            )
        stage[kind] = Client()
        stage[kind].force_login(get_user_model().objects.get(username=kind))
    for group in ("billing", "covert-group"):
        DeadLetter.objects.create(
            group=group, queue_offset=1, message_id=f"of-{group}", keys="card-4711",
            reason="card 4711 was refused", origin_topic="orders", dead_at=now, attempts=3,
            history=[[1, 1_000, "card 4711 was refused", "c"]], size_bytes=1,
        )  # fmt: skip
        ResendJob.objects.create(
            group=group, created_by="t", total=1, created_at=now,
            criteria={"filter": {"key": "card-4711"}},
        )  # fmt: skip
        Alert.objects.create(
            rule=rule(name=f"lag of {group}"), rule_name=f"lag of {group}", kind="lag",
            severity="warning", threshold=100, subject=group, state="firing", value=200, peak=200,
            pending_at=now, fired_at=now,
        )  # fmt: skip
    return stage


class Seen(Offers):
    """A page as its viewer sees it: what scripts make rows of, and what is hidden, is not there."""

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self._unseen: list[str] = []
        super().__init__(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unseen or tag == "template" or (tag == "aside" and ("hidden", None) in attrs):
            self._unseen += [tag] if tag in ("template", "aside") else []
        else:
            super().handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._unseen and tag == self._unseen[-1]:
            self._unseen.pop()
        else:
            super().handle_endtag(tag)


def crawled(client: Client) -> Iterator[tuple[str, Seen]]:
    """Yield every page that can be reached from the first one, each once."""
    dead: list[tuple[str, int, str]] = []
    came_from = {"/": ""}
    seen, left = {"/"}, ["/"]
    forms = 0
    while left:
        assert len(seen) < PAGES_MAX, "an address leads to ever new ones"
        path = left.pop()
        forms += path.startswith(_FORM)
        if path.startswith(_FORM) and forms > FORMS_MAX:
            continue
        answer = client.get(path, follow=True)
        if answer.status_code != 200:
            dead.append((path, answer.status_code, came_from[path]))
            continue
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        page = Seen(answer.content.decode())
        yield path, page
        here = answer.redirect_chain[-1][0] if answer.redirect_chain else path
        for link in page.links:
            found = urlsplit(urljoin(here, link))
            where = found.path + (f"?{found.query}" if found.query else "")
            if not found.path.startswith(_NOT_PAGES) and where not in seen and link[0] != "#":
                seen.add(where)
                left.append(where)
                came_from[where] = path
    assert dead == []


@pytest.mark.parametrize("who", WHO)
def test_every_link_opens_for_the_one_who_sees_it_and_no_page_says_what_they_may_not_know(
    people: dict[str, Client], who: str
) -> None:
    found = dict(crawled(people[who]))

    assert any(path.startswith(_FORM) for path in found)
    least = {"admin": 50, "operator": 40, "viewer": 35, "none": 15, "topic": 12, "group": 15}
    assert len(found) >= least.get(who, 8), sorted(found)
    for path, page in found.items():
        assert "You may not do this" not in page.texts, path
        shown = page.markup.replace("mq topic create orders", "")
        for example in ("mq produce orders", "mq consume orders --group billing"):
            shown = shown.replace(example, "")
        for name in HIDDEN.get(who, ()):
            assert name not in shown, (path, name)
        # Keys and reasons are content.
        assert "4711" not in shown or who in PEEKING, path
    assert "4711" in people["operator"].get("/dead-letters/billing/").content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/topics/{}/", "/topics/{}/consumers", "/topics/{}/settings", "/topics/{}/messages",
        "/topics/{}/history", "/groups/{}/", "/groups/{}/members/", "/groups/{}/offsets/",
        "/dead-letters/{}/", "/api/v1/topics/{}", "/api/v1/groups/{}", "/api/v1/groups/{}/lag",
        "/api/v1/groups/{}/dead-letters", "/locks/{}~orders~0/",
    ],
)  # fmt: skip
def test_what_may_not_be_known_of_is_answered_as_what_is_not_there(
    people: dict[str, Client], path: str
) -> None:
    answers = {}
    for name in ("covert", "nowhere"):
        answer = people["none"].get(path.format(name))
        body = answer.content.decode().replace(name, "NAME")
        for part in (answer.headers.get("X-Request-Id"), answer.cookies.output()):
            body = body.replace(part or "\0", "")
        answers[name] = answer.status_code, _without_tokens(body)

    assert answers["covert"][0] == 404
    assert answers["covert"] == answers["nowhere"]


@pytest.mark.parametrize("path", ["/jobs/{}", "/alerts/{}", "/api/v1/jobs/{}", "/api/v1/alerts/{}"])
def test_a_row_of_a_hidden_group_is_answered_as_a_number_that_none_has(
    people: dict[str, Client], path: str
) -> None:
    job = ResendJob.objects.get(group="covert-group").pk
    number = job if "jobs" in path else Alert.objects.get(subject="covert-group").pk
    mine = (
        ResendJob.objects.get(group="billing").pk
        if "jobs" in path
        else Alert.objects.get(subject="billing").pk
    )

    statuses = [
        people["none"].get(path.format(which)).status_code for which in (mine, number, 999_999)
    ]

    assert statuses == [200, 404, 404]
    assert people["viewer"].get(path.format(number)).status_code == 200


def test_lists_of_the_api_hold_what_their_caller_may_see(people: dict[str, Client]) -> None:
    for path in ("/api/v1/jobs", "/api/v1/alerts"):
        narrow = people["none"].get(path).content.decode()
        assert "billing" in narrow
        assert "covert" not in narrow
        assert "covert" in people["viewer"].get(path).content.decode()


def test_to_search_by_what_messages_say_needs_the_right_to_read_them(
    people: dict[str, Client],
) -> None:
    path = "/groups/billing/dead-letters?key=card-4711"

    viewer = people["viewer"].get(f"/api/v1{path}")
    assert viewer.status_code == 403
    assert people["viewer"].get("/dead-letters/billing/?reason=card").status_code == 403
    assert people["operator"].get(f"/api/v1{path}").json()["items"][0]["keys"] == ["card-4711"]
    listed = people["viewer"].get("/api/v1/groups/billing/dead-letters").json()["items"][0]
    assert (listed["keys"], listed["reason"], listed["attempts"][0]["reason"]) == (None,) * 3
    assert listed["message_id"] == "of-billing"


@pytest.mark.parametrize(
    ("query", "status"),
    [("?topic=orders", 200), ("?topic=covert", 404), ("?topic=nowhere", 404), ("", 403)],
)
def test_a_series_is_told_to_who_may_see_what_it_is_of(
    people: dict[str, Client], query: str, status: int
) -> None:
    assert people["none"].get(f"/api/v1/series/send_rate{query}").status_code == status
    assert people["viewer"].get(f"/api/v1/series/send_rate{query}").status_code == 200


def test_what_is_listed_to_nobody_costs_a_fixed_number_of_queries(
    people: dict[str, Client], django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    for number in range(100):
        TopicSummary.objects.create(name=f"t{number}", sampled_at=moment(0))
        GroupSummary.objects.create(name=f"g{number}", sampled_at=moment(0))
        ResendJob.objects.create(
            group=f"g{number}", created_by="t", total=1, criteria={}, created_at=moment(0)
        )
    people["none"].get("/dead-letters")

    # Two of them are the session and its account.
    with django_assert_max_num_queries(7):  # type: ignore[operator]
        assert people["none"].get("/dead-letters").status_code == 200


def _without_tokens(body: str) -> str:
    """Return a page without the CSRF token of its forms and the request's own number."""
    body = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", body)
    return re.sub(r'"(request_id|instance)": ?"[^"]*"', "", body)
