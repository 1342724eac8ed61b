"""Members of groups: rows of the clients that the engine has seen lately."""

import threading
from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core.moments import moment
from apps.engine.errors import Stopping
from apps.engine.types import ClientSeen
from apps.groups.models import Member
from apps.groups.services import clients as services
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, client, progress

pytestmark = pytest.mark.django_db(transaction=True)

NOW_MS = 1_763_000_000_000


def expire(now_ms: int = NOW_MS) -> tuple[int, bool]:
    step = services.expire_silent_clients(now_ms=now_ms)
    return step.done, step.more


def seen(client_id: str, *topics: str, ago_ms: int = 0, now_ms: int = NOW_MS) -> ClientSeen:
    return client("g", client_id, *topics, first_seen_ms=1_000, last_seen_ms=now_ms - ago_ms)


def known() -> list[str]:
    return list(Member.objects.values_list("client_id", flat=True))


def test_clients_become_rows(engine: FakeEngine) -> None:
    engine.seen = [seen("b", "orders", "bills", ago_ms=5_000), seen("a", "orders")]

    assert expire() == (2, False)

    first, second = Member.objects.all()
    assert (first.group, first.client_id, first.topics) == ("g", "a", ["orders"])
    assert (second.client_id, second.topics) == ("b", ["orders", "bills"])
    assert second.first_seen_at == datetime.fromtimestamp(1, UTC)
    assert second.last_seen_at == datetime.fromtimestamp((NOW_MS - 5_000) / 1000, UTC)


def test_the_engine_is_told_to_forget_who_was_silent_for_two_minutes(engine: FakeEngine) -> None:
    expire()

    assert engine.forgotten_ms == [120_000]


def test_a_row_that_is_level_is_not_written_again(engine: FakeEngine) -> None:
    engine.seen = [seen("a", "orders")]
    expire()
    engine.seen = [seen("a", "orders", now_ms=NOW_MS + 29_999)]

    with CaptureQueriesContext(connection) as queries:
        done = expire(NOW_MS + 29_999)

    assert done == (0, False)
    assert not [q for q in queries.captured_queries if q["sql"].startswith(("INSERT", "DELETE"))]


@pytest.mark.parametrize(
    "change",
    [seen("a", "orders", now_ms=NOW_MS + 30_000), seen("a", "bills")],
    ids=["half a minute later", "of another topic"],
)
def test_a_row_that_is_not_level_is_written_again(engine: FakeEngine, change: ClientSeen) -> None:
    engine.seen = [seen("a", "orders")]
    expire()
    engine.seen = [change]

    assert expire(NOW_MS + 30_000) == (1, False)

    (member,) = Member.objects.all()
    assert member.topics == list(change.topics)
    assert member.last_seen_at.timestamp() * 1000 == change.last_seen_ms


def test_a_client_that_is_gone_keeps_its_row_for_two_minutes(engine: FakeEngine) -> None:
    engine.seen = [seen("gone", "orders")]
    expire()
    engine.seen = []

    assert expire(NOW_MS + 120_000) == (0, False)
    assert known() == ["gone"]
    assert expire(NOW_MS + 120_001) == (1, False)
    assert known() == []


def test_a_quiet_client_that_the_engine_still_knows_keeps_its_row(engine: FakeEngine) -> None:
    engine.seen = [seen("quiet", "orders")]
    expire()
    # Its row is older than its last receive by less than what makes a row be written again.
    engine.seen = [seen("quiet", "orders", now_ms=NOW_MS + 29_000)]

    assert expire(NOW_MS + 140_000) == (1, False)

    assert known() == ["quiet"]


def test_a_step_writes_a_thousand_rows_and_says_that_more_are_left(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_MEMBERS_PER_STEP", 2)
    engine.seen = [seen(name, "orders") for name in "abcde"]

    steps = [expire() for _ in range(3)]

    assert steps == [(2, True), (2, True), (1, False)]
    assert known() == list("abcde")


def test_a_step_deletes_a_thousand_rows_and_says_that_more_are_left(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.seen = [seen(name, "orders") for name in "abc"]
    expire()
    monkeypatch.setattr(services, "_MEMBERS_PER_STEP", 2)
    engine.seen = []

    steps = [expire(NOW_MS + 120_001) for _ in range(2)]

    assert steps == [(2, True), (1, False)]


def test_nothing_is_deleted_while_rows_of_living_clients_are_behind(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_ms = NOW_MS + 3_600_000
    engine.seen = [seen(name, "orders") for name in "abc"]
    expire()
    monkeypatch.setattr(services, "_MEMBERS_PER_STEP", 2)
    engine.seen = [seen(name, "orders", now_ms=later_ms) for name in "abc"]

    first = expire(later_ms)

    assert first == (2, True)
    assert known() == list("abc")
    assert expire(later_ms) == (1, False)
    assert known() == list("abc")


def test_two_workers_at_once_make_one_row_a_client(engine: FakeEngine) -> None:
    clients = [seen(f"c{number:03}", "orders", ago_ms=number) for number in range(300)]
    errors: list[BaseException] = []
    together = threading.Barrier(4)

    def work(number: int) -> None:
        # Each worker has another order, and a row comes and goes all the while.
        own = clients[::-1] if number % 2 else clients
        try:
            together.wait()
            for _ in range(10):
                services._write_members(own)
                services._delete_silent(before=moment(NOW_MS - 100))
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(known()) == 101


def test_nothing_changes_while_the_engine_cannot_be_asked(engine: FakeEngine) -> None:
    engine.seen = [seen("a", "orders")]
    expire()

    def refuse(_: int) -> list[ClientSeen]:
        raise Stopping("away")

    engine.forget_silent_clients = refuse  # type: ignore[method-assign]

    with pytest.raises(Stopping):
        expire(NOW_MS + 3_600_000)

    assert known() == ["a"]


def test_a_group_tells_its_members_live(api: Api, engine: FakeEngine) -> None:
    engine.progress = [progress("g", "orders", 0, committed=1, delivered=1)]
    engine.seen = [
        client("g", "w@1", "orders", "bills", last_seen_ms=NOW_MS, is_waiting=True),
        client("other", "w@2", "orders"),
    ]

    body = api.get("/groups/g").json()

    assert body["members"] == [
        {
            "client_id": "w@1",
            "topics": ["orders", "bills"],
            "first_seen_at": "1970-01-01T00:00:00.000Z",
            "last_seen_at": "2025-11-13T02:13:20.000Z",
            "is_waiting": True,
            "model": None,
            "ordered": None,
            "strategy": None,
            "site": None,
            "generation": None,
            "subscriptions": [],
            "assignment": None,
            "blocked": [],
        }
    ]
    assert body["topics"] == ["bills", "orders"]


def test_a_group_whose_members_have_received_nothing_yet_is_known(
    api: Api, engine: FakeEngine
) -> None:
    engine.seen = [client("new", "w@1", "orders")]
    engine.progress = [progress("old", "orders", 0, committed=1, delivered=1)]

    body = api.get("/groups/new").json()
    items = api.get("/groups").json()["items"]

    assert (body["queue_count"], body["lag"], body["topics"]) == (0, "0", ["orders"])
    assert [(item["group"], len(item["members"])) for item in items] == [("new", 1), ("old", 0)]


def test_the_admin_shows_members_and_changes_none(engine: FakeEngine) -> None:
    engine.seen = [seen("<b>a</b>", "orders")]
    expire()
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("root", password="x"))
    member = Member.objects.get()

    page = browser.get("/admin/groups/member/").content.decode()
    refused = browser.post(f"/admin/groups/member/{member.pk}/delete/", {"post": "yes"})

    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert "<b>a</b>" not in page
    assert refused.status_code == 403
    assert known() == ["<b>a</b>"]
