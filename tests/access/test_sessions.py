"""Sessions as their owner and an admin see them, and their ends: rows, cookies, sockets."""

import asyncio
import dataclasses
import re
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from apps.access import accounts, asking, sessions
from apps.access.models import AccountSession
from apps.audit.models import AuditEntry
from mqweb import env
from mqweb.envaccess import SessionTimes
from mqweb.variables import Refused
from tests.access.test_signing_in import PASSWORD, clock, sign_in, vera
from tests.doors.fake_engine import ManualClock

__all__ = ["clock", "vera"]

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "Another horse 2"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of sessions whose sockets were told to close."""
    told: list[str] = []
    monkeypatch.setattr(asking, "end_session", told.append)
    return told


def browser(name: str = "vera", **headers: str) -> Client:
    found = Client(**headers)  # type: ignore[arg-type]
    assert sign_in(found, name, PASSWORD).status_code == 303
    found.get("/api/docs/")
    return found


def key_of(client: Client) -> str:
    return str(client.cookies["mqweb_session"].value)


def is_in(client: Client) -> bool:
    return client.get("/account").status_code == 200


def test_the_page_shows_where_one_is_signed_in(vera: Client, clock: ManualClock) -> None:
    here = browser(REMOTE_ADDR="203.0.113.9", HTTP_USER_AGENT="Firefox <b>")
    clock.now_ms += 5_000
    browser(REMOTE_ADDR="198.51.100.1", HTTP_USER_AGENT="Safari")

    page = here.get("/account").content.decode()

    assert page.count("this one") == 1
    assert all(text in page for text in ("203.0.113.9", "198.51.100.1", "Safari"))
    assert "Firefox &lt;b&gt;" in page
    assert key_of(here) not in page
    assert AccountSession.objects.count() == 2


def test_when_it_was_seen_is_written_once_a_minute(vera: Client, clock: ManualClock) -> None:
    here = browser()
    first = AccountSession.objects.get().seen_at

    clock.now_ms += 59_000
    here.get("/account")
    soon = AccountSession.objects.get().seen_at
    clock.now_ms += 2_000
    here.get("/account")

    assert soon == first
    assert (AccountSession.objects.get().seen_at - first).total_seconds() == 61


def test_one_session_is_ended_and_the_others_go_on(vera: Client, ended: list[str]) -> None:
    here, there = browser(), browser()
    key = key_of(there)
    row = AccountSession.objects.get(session_key=key)

    answer = here.post(f"/account/sessions/{row.pk}/end")

    assert answer.status_code == 303
    assert (is_in(here), is_in(there)) == (True, False)
    assert ended == [key]
    assert not Session.objects.filter(pk=ended[0]).exists()
    entry = AuditEntry.objects.get(act="session.end")
    assert (entry.name, entry.by) == ("vera", "vera")
    assert key not in str(entry.before)


def test_somebody_elses_session_is_no_session(vera: Client, ended: list[str]) -> None:
    here, boss = browser(), browser("root")
    row = AccountSession.objects.get(session_key=key_of(boss))

    page = here.post(f"/account/sessions/{row.pk}/end", follow=True).content.decode()
    missing = here.post(f"/account/sessions/{row.pk + 99}/end", follow=True).content.decode()

    assert f"there is no session {row.pk}" in page
    assert f"there is no session {row.pk + 99}" in missing
    assert is_in(boss)
    assert ended == []


def test_all_others_are_ended_at_once(vera: Client, ended: list[str]) -> None:
    here, there, elsewhere = browser(), browser(), browser()
    boss = browser("root")
    keys = sorted([key_of(there), key_of(elsewhere)])

    here.post("/account/sessions/end-others")

    assert [is_in(one) for one in (here, there, elsewhere, boss)] == [True, False, False, True]
    assert sorted(ended) == keys
    assert AuditEntry.objects.get(act="session.end_all").after == {
        "ended": 2, "kept_this_one": True,
    }  # fmt: skip


@pytest.mark.parametrize("door", ["page", "api"])
def test_an_admin_ends_all_sessions_of_an_account(
    vera: Client, ended: list[str], door: str
) -> None:
    here, there, boss = browser(), browser(), browser("root")
    listed = boss.get("/api/v1/accounts/vera/sessions").json()["items"]
    path = {"page": "/access/accounts/vera/end-sessions",
            "api": "/api/v1/accounts/vera/sessions:end"}[door]  # fmt: skip

    refused = here.post(path, {}, "application/json")
    answer = boss.post(path, {}, "application/json")

    assert len(listed) == 2
    assert refused.status_code == 403
    assert answer.status_code in (200, 303)
    assert [is_in(one) for one in (here, there, boss)] == [False, False, True]
    assert len(ended) == 2
    assert AuditEntry.objects.get(act="session.end_all", result="done").by == "root"


def test_ones_own_new_password_ends_the_other_sessions(vera: Client, ended: list[str]) -> None:
    here, there = browser(), browser()
    old, other = key_of(here), key_of(there)

    answer = here.post("/account/password", {"password": PASSWORD, "new_password": NEW})

    assert answer.status_code == 303
    assert (is_in(here), is_in(there)) == (True, False)
    assert key_of(here) != old
    assert ended == [other]
    assert [row.session_key for row in AccountSession.objects.all()] == [key_of(here)]
    assert AuditEntry.objects.get(act="account.password").after["sign_ins_ended"] == 1
    assert sign_in(Client(), "vera", NEW).status_code == 303


@pytest.mark.parametrize(
    "asked", [{"password": "wrong", "new_password": NEW}, {"password": PASSWORD},
              {"password": PASSWORD, "new_password": "short"}, {}],
)  # fmt: skip
def test_who_does_not_know_the_password_changes_none(
    vera: Client, ended: list[str], asked: dict[str, str]
) -> None:
    here, there = browser(), browser()

    here.post("/account/password", asked)

    assert (is_in(here), is_in(there)) == (True, True)
    assert sign_in(Client(), "vera", PASSWORD).status_code == 303


def test_guessing_the_password_from_inside_is_counted_as_from_outside(vera: Client) -> None:
    here = browser()
    for _ in range(10):
        here.post("/account/password", {"password": "wrong", "new_password": NEW})

    told = here.post("/account/password", {"password": PASSWORD, "new_password": NEW}, follow=True)

    assert "Too many wrong passwords" in told.content.decode()
    assert get_user_model().objects.get(username="vera").check_password(PASSWORD)


@pytest.mark.parametrize("change", [{"is_active": False}, {"password": NEW}])
def test_a_closed_account_and_a_password_of_an_admins_leave_no_session(
    vera: Client, ended: list[str], change: dict[str, Any]
) -> None:
    here, there = browser(), browser()

    accounts.change_account(name="vera", by="t", **change)

    assert sorted(ended) == sorted([key_of(here), key_of(there)])
    assert not AccountSession.objects.exists()
    assert not is_in(here)


def test_sessions_that_are_over_are_not_listed(vera: Client, clock: ManualClock) -> None:
    browser()
    user = get_user_model().objects.get(username="vera")
    assert len(sessions.of_account(user)) == 1

    clock.now_ms += django_settings.MQWEB.session.idle_ms_max

    assert sessions.of_account(user) == []


@pytest.mark.parametrize(("after_ms", "is_open"), [(179_999, True), (180_000, False)])
def test_sessions_end_and_are_listed_by_the_times_that_are_set(
    vera: Client,
    clock: ManualClock,
    settings: Any,
    after_ms: int,
    is_open: bool,
) -> None:
    short = SessionTimes(age_ms_max=3_600_000, idle_ms_max=180_000)
    settings.MQWEB = dataclasses.replace(settings.MQWEB, session=short)
    here = browser()
    user = get_user_model().objects.get(username="vera")
    page = here.get("/account").content.decode()
    clock.now_ms += after_ms

    assert "One lasts 60 min, or 3 min without a request." in page
    assert len(sessions.of_account(user)) == is_open
    assert is_in(here) == is_open


def test_the_cookie_lives_as_long_as_its_session_may() -> None:
    assert django_settings.MQWEB.session.age_ms_max == django_settings.SESSION_COOKIE_AGE * 1_000


@pytest.mark.parametrize(
    ("age", "idle", "said"),
    [
        ("12h", "1m", "MQWEB_SESSION_IDLE_MAX=1m: must be at least 2m"),
        ("91d", "2h", "MQWEB_SESSION_AGE_MAX=91d: must be at most 90d"),
        ("1h", "2h", "MQWEB_SESSION_IDLE_MAX=2h: must not be longer than MQWEB_SESSION_AGE_MAX=1h"),
        ("soon", "2h", "MQWEB_SESSION_AGE_MAX: 'soon' must be a number and s, m, h or d"),
        ("12h", "0s", "MQWEB_SESSION_IDLE_MAX: '0s' must be"),
    ],
)
def test_times_that_are_none_are_refused_at_start(age: str, idle: str, said: str) -> None:
    with pytest.raises(Refused, match=re.escape(said)):
        env.read({"MQWEB_SESSION_AGE_MAX": age, "MQWEB_SESSION_IDLE_MAX": idle})


def test_times_of_sessions_are_read_from_the_environment() -> None:
    found = env.read({"MQWEB_SESSION_AGE_MAX": "90d", "MQWEB_SESSION_IDLE_MAX": "2m"}).session

    assert found == SessionTimes(age_ms_max=90 * 86_400_000, idle_ms_max=120_000)


def test_signing_out_takes_the_row_away(vera: Client) -> None:
    here = browser()

    here.post("/sign-out")

    assert not AccountSession.objects.exists()


async def test_the_sockets_of_an_ended_session_are_closed_within_a_turn(
    closed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asyncio.Event()

    class Gate:
        def end_session(self, session: str) -> None:
            assert session == "k"
            told.set()

    monkeypatch.setattr(asking, "gate", Gate())
    asking.streams_on(asyncio.get_running_loop())
    try:
        await asyncio.to_thread(asking.end_session, "k")
        async with asyncio.timeout(5):
            await told.wait()
    finally:
        asking.streams_on(None)


def test_pages_ask_as_much_for_many_sessions_as_for_one(
    vera: Client, django_assert_max_num_queries: Any
) -> None:
    here = browser()
    user = get_user_model().objects.get(username="vera")
    store = Session.objects.get(pk=key_of(here))
    mine = AccountSession.objects.get()
    for number in range(50):
        Session.objects.create(
            session_key=f"k{number}", session_data="", expire_date=store.expire_date
        )
        AccountSession.objects.create(
            user=user, session_key=f"k{number}", begun_at=mine.begun_at, seen_at=mine.seen_at
        )

    with django_assert_max_num_queries(8):
        assert here.get("/account").content.decode().count("End this session") == 51


def test_where_nobody_signs_in_the_page_says_so(db: None) -> None:
    page = Client().get("/account")

    assert page.status_code == 200
    assert "Access is off" in page.content.decode()
