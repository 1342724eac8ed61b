"""Signing in and out: what is told, what is counted, and what becomes of sessions."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from apps.access import accounts, asking, policy, snapshot
from apps.access.gate import Rights
from apps.access.policy import Role
from apps.access.throttle import (
    ACCOUNT_FAILURES_MAX,
    ADDRESS_FAILURES_MAX,
    WINDOW_MS,
    Failures,
)
from apps.console.pages import signin
from tests.doors.fake_engine import ManualClock

PASSWORD = "Correct horse 1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Stop the time of sessions and of wrong passwords."""
    stopped = ManualClock()
    monkeypatch.setattr(asking, "clock", stopped)
    monkeypatch.setattr(asking.gate, "_clock", stopped)
    monkeypatch.setattr(signin, "failures", Failures(stopped))
    return stopped


@pytest.fixture
def vera(closed: None, clock: ManualClock) -> Client:
    """Return a browser, for somebody who has an account."""
    accounts.create_account(name="vera", password=PASSWORD, role=Role.VIEWER, by="t")
    accounts.create_account(name="root", password=PASSWORD, role=Role.ADMIN, by="t")
    accounts.create_account(name="shop", password=None, by="t")
    snapshot.publish()
    return Client()


def sign_in(browser: Client, name: str, password: str, **more: str) -> Any:
    return browser.post("/sign-in", {"name": name, "password": password, **more})


def test_a_good_password_leads_to_where_one_wanted_to_go(vera: Client) -> None:
    sent = vera.get("/clockwork")
    page = vera.get(sent.headers["Location"])
    answer = sign_in(vera, "vera", PASSWORD, next="/clockwork")

    assert sent.headers["Location"] == "/sign-in?next=%2Fclockwork"
    assert b'name="next" value="/clockwork"' in page.content
    assert (answer.status_code, answer.headers["Location"]) == (303, "/clockwork")
    assert vera.get("/problems/").status_code == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil", ""]
)
def test_nobody_is_led_away_from_here(vera: Client, target: str) -> None:
    assert sign_in(vera, "vera", PASSWORD, next=target).headers["Location"] == "/"


def test_who_is_not_known_and_who_is_wrong_are_told_the_same(vera: Client) -> None:
    told = [
        sign_in(vera, name, password)
        for name, password in (
            ("vera", "wrong"), ("nobody", "wrong"), ("shop", ""), ("shop", "!"), ("ve\0ra", "x"),
        )
    ]  # fmt: skip

    assert {answer.status_code for answer in told} == {401}
    assert all(b"Name or password is wrong." in answer.content for answer in told)
    assert all(b"wrong</" not in answer.content for answer in told), "a password is never echoed"


def test_the_session_gets_a_new_key(vera: Client) -> None:
    vera.session.save()
    vera.cookies["mqweb_session"] = vera.session.session_key
    before = vera.cookies["mqweb_session"].value

    sign_in(vera, "vera", PASSWORD)

    assert vera.cookies["mqweb_session"].value != before
    assert not Session.objects.filter(pk=before).exists()


def test_too_many_wrong_passwords_close_the_account_for_a_while(
    vera: Client, clock: ManualClock
) -> None:
    for _ in range(ACCOUNT_FAILURES_MAX):
        assert sign_in(vera, "vera", "wrong").status_code == 401

    closed = sign_in(vera, "VERA", PASSWORD)
    other = sign_in(Client(), "root", PASSWORD)
    clock.now_ms += WINDOW_MS
    again = sign_in(vera, "vera", PASSWORD)

    assert closed.status_code == 429
    assert closed.headers["Retry-After"] == str(WINDOW_MS // 1000)
    assert b"Try again in 15 minutes." in closed.content
    assert other.status_code == 303
    assert again.status_code == 303


def test_an_address_that_tries_many_names_is_stopped_too(clock: ManualClock) -> None:
    failures = Failures(clock)
    for number in range(ADDRESS_FAILURES_MAX):
        failures.note(f"name{number}", "192.0.2.1")

    assert failures.wait_ms("fresh", "192.0.2.1") == WINDOW_MS
    assert failures.wait_ms("fresh", "192.0.2.2") == 0
    clock.now_ms += WINDOW_MS
    assert failures.wait_ms("fresh", "192.0.2.1") == 0


IDLE_MS = settings.MQWEB.session.idle_ms_max


@pytest.mark.parametrize(
    ("steps_ms", "status"),
    [
        ([IDLE_MS - 1], 200),
        ([IDLE_MS], 302),
        ([IDLE_MS - 1] * 5 + [IDLE_MS // 2], 200),
        ([IDLE_MS - 1] * 6 + [10], 302),
    ],
)
def test_a_session_ends_when_it_is_old_or_idle(
    vera: Client, clock: ManualClock, steps_ms: list[int], status: int
) -> None:
    sign_in(vera, "vera", PASSWORD)
    assert vera.get("/api/docs/").status_code == 200

    for step_ms in steps_ms:
        clock.now_ms += step_ms
        answer = vera.get("/api/docs/")

    assert answer.status_code == status


def test_signing_out_ends_the_session_on_this_side(vera: Client) -> None:
    sign_in(vera, "vera", PASSWORD)
    key = vera.cookies["mqweb_session"].value

    answer = vera.post("/sign-out")

    assert answer.headers["Location"] == "/sign-in"
    assert not Session.objects.filter(pk=key).exists()
    vera.cookies["mqweb_session"] = key
    assert vera.get("/api/docs/").status_code == 302


@pytest.mark.parametrize("change", [{"is_active": False}, {"password": "Another horse 2"}])
def test_a_closed_account_and_a_new_password_end_sessions(
    vera: Client, change: dict[str, Any]
) -> None:
    sign_in(vera, "vera", PASSWORD)
    assert vera.get("/api/docs/").status_code == 200

    accounts.change_account(name="vera", by="t", **change)
    snapshot.publish()

    assert vera.get("/api/docs/").status_code == 302


def test_the_forms_need_their_csrf_token(vera: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    assert sign_in(strict, "vera", PASSWORD).status_code == 403
    assert strict.post("/sign-out").status_code == 403


def test_who_is_signed_in_is_on_every_page(vera: Client) -> None:
    sign_in(vera, "root", PASSWORD)

    page = vera.get("/access").content.decode()

    assert '<a href="/account" title="Your account">root</a>' in page
    assert "Sign out" in page


def test_names_are_hostile_text(vera: Client) -> None:
    name = '<script>alert("x")</script>'

    answer = vera.post("/sign-in", {"name": name, "password": "x", "next": f'/"{name}'})

    assert name.encode() not in answer.content
    assert get_user_model().objects.filter(username=name).count() == 0


def test_a_password_changed_elsewhere_does_not_lock_its_owner_out(vera: Client) -> None:
    user = get_user_model().objects.get(username="vera")
    user.set_password("Another horse 2")
    user.save()  # As `manage.py changepassword` does, without a new version.

    signed_in = sign_in(vera, "vera", "Another horse 2")

    assert signed_in.status_code == 303
    assert vera.get("/api/docs/").status_code == 200


def test_a_button_one_may_not_press_is_disabled_and_says_why(vera: Client) -> None:
    from django.template import engines
    from django.test import RequestFactory

    page = engines["django"].from_string(
        '{% load access %}{% may "run" "cluster" as act %}'
        '<button{% if not act.is_allowed %} disabled title="{{ act.reason }}"{% endif %}>'
        "Ask</button>"
        '{% include "console/parts/why_not.html" %}'
    )
    book = asking.gate.book()
    shown = {}
    for name in ("vera", "root"):
        user = get_user_model().objects.get(username=name)
        request = RequestFactory().get("/")
        caller = policy.Caller(principal=book.accounts[user.pk].principal, account=user.pk)
        request.access = asking.Access(Rights(asking.gate, caller))  # type: ignore[attr-defined]
        shown[name] = page.render({}, request)

    reason = "vera has no right to run cluster"
    assert shown["vera"] == (
        f'<button disabled title="{reason}">Ask</button><span class="quiet">{reason}</span>\n'
    )
    assert "disabled" not in shown["root"]


def test_the_admin_signs_out_as_the_console_does(vera: Client) -> None:
    sign_in(vera, "root", PASSWORD)
    key = vera.cookies["mqweb_session"].value

    answer = vera.post("/admin/logout/")

    assert answer.headers["Location"] == "/sign-in"
    assert not Session.objects.filter(pk=key).exists()


def test_the_admin_leaves_somebody_who_administers(vera: Client) -> None:
    sign_in(vera, "root", PASSWORD)
    user = get_user_model().objects.get(username="root")
    form = {
        "username": "root", "access_role-TOTAL_FORMS": "1", "access_role-INITIAL_FORMS": "1",
        "access_role-0-id": str(user.access_role.pk), "access_role-0-user": str(user.pk),
        "access_role-0-role": "viewer", "is_active": "on",
    }  # fmt: skip

    answer = vera.post(f"/admin/auth/user/{user.pk}/change/", form)

    user.refresh_from_db()
    assert answer.status_code == 302
    assert user.access_role.role == "admin"
