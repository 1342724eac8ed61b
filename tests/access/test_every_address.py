"""Every address of the URLconf: no write without a token of ours, no write by looking, all headers.

The addresses are those that Django has, so a new page is asked the same questions.
"""

import hashlib
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from apps.engine.searchtypes import SearchRequest, SearchResult
from mqweb.rights import TABLE
from tests.access.test_routes import OURS, address, methods_of, patterns
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db(transaction=True)

# What looking may change: the session says when it was seen last, and what is refused is counted.
_ALIVE = {"sessions_session", "access_accountsession"}
_POLICY = (
    "default-src 'self'", "object-src 'none'", "base-uri 'none'", "form-action 'self'",
    "frame-ancestors 'none'",
)  # fmt: skip


@pytest.fixture
def boss(closed: None, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a client that is signed in, may everything, and checks as a browser's server does."""

    async def search(_request: SearchRequest) -> SearchResult:
        return SearchResult(blocks=(), truncated=False, scan_incomplete=False)

    monkeypatch.setattr(engine, "search", search, raising=False)
    accounts.create_account(name="boss", password="Correct horse 1", role=Role.ADMIN, by="t")
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(get_user_model().objects.get(username="boss"))
    return client


def digest() -> dict[str, str]:
    """Return a digest of the rows of each table."""
    found = {}
    for model in sorted(apps.get_models(include_auto_created=True), key=lambda one: one.__name__):
        if model._meta.db_table.removeprefix("django_") in _ALIVE | {"session"}:
            continue
        if not model._meta.managed or model._meta.proxy:
            continue
        rows = model._default_manager.order_by("pk").values_list()
        found[model._meta.label] = hashlib.sha256(str(list(rows)).encode()).hexdigest()
    return found


def writing() -> list[tuple[str, str]]:
    """Return route and method of all that changes something."""
    found = [
        (route, method)
        for route, methods in TABLE.routes.items()
        for method in methods
        if method not in ("GET", "HEAD", "OPTIONS")
    ]
    assert len(found) > 60
    return found


def test_nothing_is_written_for_a_session_without_our_token(boss: Client) -> None:
    boss.get("/access")
    before = digest()

    for route, method in writing():
        answer = boss.generic(method, address(route), b"{}", content_type="application/json")
        assert answer.status_code == 403, (method, route, answer.status_code)
        form = boss.generic(
            method, address(route), b"a=1", content_type="application/x-www-form-urlencoded",
            headers={"Origin": "https://evil.example", "Referer": "https://evil.example/"},
        )  # fmt: skip
        assert form.status_code == 403, (method, route, form.status_code)

    after = digest()
    changed = {label for label in after if after[label] != before[label]}
    # That they were refused is written down, and nothing else is.
    assert {label.partition(".")[0] for label in changed} <= {"audit"}, changed


def test_a_token_of_ours_from_a_foreign_page_is_no_use(boss: Client) -> None:
    boss.get("/access")
    token = boss.cookies["mqweb_csrf"].value

    for route, method in writing():
        if method != "POST" or route.startswith("api/"):
            continue
        answer = boss.post(
            address(route), {"csrfmiddlewaretoken": token},
            headers={"Origin": "https://evil.example"},
        )  # fmt: skip
        assert answer.status_code == 403, route


def test_looking_changes_no_row(boss: Client) -> None:
    looked = [address(route) for route in OURS] + ["/admin/"]
    for path in looked:
        boss.get(path)
    before = digest()

    for path in looked:
        boss.get(path)
        boss.head(path)
        boss.options(path)

    after = digest()
    changed = {label for label in after if after[label] != before[label]}
    # Who takes a file of messages or of the audit is written down.
    assert changed <= {"audit.AuditEntry"}
    assert len(looked) > 100


def test_every_answer_has_the_headers_that_keep_a_browser_in(boss: Client) -> None:
    seen = 0
    for who in (boss, Client(raise_request_exception=False)):
        for route, view in patterns():
            for method in ("GET", "POST", *methods_of(view)):
                if "<" in route and route.startswith("admin/"):
                    continue
                answer = who.generic(method, address(route), b"{}", content_type="text/plain")
                told = (method, route, answer.status_code)
                policy = answer.headers["Content-Security-Policy"]
                assert all(part in policy for part in _POLICY), told
                assert answer.headers["X-Content-Type-Options"] == "nosniff", told
                assert answer.headers["X-Frame-Options"] == "DENY", told
                assert answer.headers["Referrer-Policy"] == "same-origin", told
                assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin", told
                assert answer.status_code != 500, told
                seen += 1
    assert seen > 400


def test_no_answer_to_who_is_not_signed_in_is_kept_by_a_browser(closed: Any) -> None:
    del closed
    for route in OURS:
        answer = Client(raise_request_exception=False).get(address(route))
        assert "public" not in answer.headers.get("Cache-Control", ""), route
