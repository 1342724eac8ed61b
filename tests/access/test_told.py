"""What the audit log gets to know of sign-ins and of denials, and what it never does."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from apps.access import accounts, snapshot, tokens
from apps.access.gate import Denied, Knock
from apps.access.policy import CLUSTER, Role
from apps.access.telling import of_data_plane, of_socket
from apps.access.throttle import ACCOUNT_FAILURES_MAX, Failures
from apps.audit import services
from apps.audit.models import AuditEntry
from apps.console.pages import signin
from tests.doors.fake_engine import ManualClock

PASSWORD = "Correct horse 1"


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_now_ms", lambda: 60_000_000)
    monkeypatch.setattr(signin, "failures", Failures(ManualClock()))


@pytest.fixture
def vera(closed: None) -> Client:
    """Return a browser, for somebody who may look and no more."""
    accounts.create_account(name="vera", password=PASSWORD, role=Role.VIEWER, by="t")
    snapshot.publish()
    return Client()


def told() -> list[tuple[Any, ...]]:
    """Return what was kept but for the making of accounts and tokens, the oldest first."""
    found = AuditEntry.objects.exclude(act__in=["account.create", "token.issue"])
    return [(one.act, one.by, one.name, one.result, one.code) for one in found.order_by("number")]


def test_signing_in_is_kept_with_its_account(vera: Client) -> None:
    vera.post("/sign-in", {"name": "vera", "password": PASSWORD})

    assert told() == [("session.sign_in", "vera", "vera", "done", "")]


def test_wrong_passwords_are_kept_together_and_never_what_was_typed(vera: Client) -> None:
    vera.post("/sign-in", {"name": PASSWORD, "password": "vera"})
    for _ in range(ACCOUNT_FAILURES_MAX + 1):
        vera.post("/sign-in", {"name": "vera", "password": "gu3ss"})
    services.write_refusals(is_last=True)

    assert told() == [
        (
            "session.sign_in", "anonymous at 127.0.0.1", "a name without an account", "refused",
            "unauthenticated",
        ),
        ("session.sign_in", "anonymous at 127.0.0.1", "vera", "refused", "too_many_requests"),
        ("session.sign_in", "anonymous at 127.0.0.1", "vera", "refused", "unauthenticated"),
    ]  # fmt: skip
    assert AuditEntry.objects.get(number=AuditEntry.objects.count()).count == ACCOUNT_FAILURES_MAX
    kept = str(list(AuditEntry.objects.values()))
    assert PASSWORD not in kept
    assert "gu3ss" not in kept


def test_a_page_that_is_denied_is_kept_with_what_was_asked_for(vera: Client) -> None:
    vera.post("/sign-in", {"name": "vera", "password": PASSWORD})

    answer = vera.get("/access")

    assert answer.status_code == 403
    assert told()[-1] == ("access.refused", "vera", "", "refused", "forbidden")
    entry = AuditEntry.objects.first()
    assert (entry.kind, entry.door) == ("cluster", "console")


def test_a_wrong_token_at_the_api_is_kept_and_a_missing_one_is_not(vera: Client) -> None:
    APIClient().get("/api/v1/topics")
    nobody = told()
    wrong = APIClient(headers={"Authorization": "Bearer mqt_s3cr3t"}).get("/api/v1/topics")

    assert nobody == []
    assert wrong.status_code == 401
    assert told() == [
        (
            "access.refused", "anonymous at 127.0.0.1", "/api/v1/topics", "refused",
            "unauthenticated",
        )
    ]  # fmt: skip
    assert "s3cr3t" not in str(list(AuditEntry.objects.values()))


def test_a_token_without_the_right_is_kept_under_its_account(vera: Client) -> None:
    secret = tokens.issue_token(name="vera", label="ci", by="t").secret
    snapshot.publish()
    api = APIClient(headers={"Authorization": f"Bearer {secret}"})

    answer = api.put("/api/v1/topics/orders", {"queue_count": 2}, format="json")

    assert answer.status_code == 403
    ((act, by, name, _, code),) = told()
    assert (act, name, code) == ("access.refused", "orders", "forbidden")
    assert by.startswith("vera")
    assert secret not in str(list(AuditEntry.objects.values()))


def test_doors_on_the_loop_count_without_the_database(
    db: None, django_assert_num_queries: Any
) -> None:
    denied = Denied("forbidden", "shop has no right", by="shop", resource=CLUSTER)
    with django_assert_num_queries(0):
        of_data_plane(denied, Knock(source="192.0.2.7", agent="curl", path="/api/v1/status"))
        of_socket(Denied("forbidden", "no", by="vera"), "192.0.2.8")

    assert services.write_refusals() == 2
    found = AuditEntry.objects.order_by("number")
    assert [(one.by, one.door, one.kind, one.address, one.agent) for one in found] == [
        ("shop", "data", "cluster", "192.0.2.7", "curl"),
        ("vera", "socket", "request", "192.0.2.8", ""),
    ]
