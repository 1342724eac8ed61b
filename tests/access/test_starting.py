"""What a broker does not start with, and what is kept from being read on its way."""

import dataclasses
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings as django_settings
from django.core.checks import run_checks
from django.db import OperationalError

from apps.access import accounts, asking
from apps.access.policy import Role
from apps.bridge import lifecycle
from apps.bridge.exits import Exit
from apps.engine.errors import Refused
from mqweb import asgi


@pytest.fixture
def gated(closed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the composition root believe that it was made with access on."""
    monkeypatch.setattr(asgi, "_gate", asking.gate)
    monkeypatch.setattr(lifecycle, "_refusal", None)
    # The other one closes connections, and the test's transaction is on one.
    monkeypatch.setattr(asgi, "database_sync_to_async", sync_to_async)


def test_nobody_to_administer_is_a_refusal(gated: None) -> None:
    with pytest.raises(Refused, match="needs an account that can sign in and administer"):
        async_to_sync(asgi._check_accounts)()

    refusal = lifecycle.refusal()
    assert refusal is not None
    assert refusal.code is Exit.REFUSED


def test_one_who_can_administer_is_enough(gated: None) -> None:
    accounts.create_account(name="prog", password=None, role=Role.ADMIN, by="t")
    with pytest.raises(Refused):
        async_to_sync(asgi._check_accounts)()

    accounts.create_account(name="root", password="Correct horse 1", role=Role.ADMIN, by="t")
    async_to_sync(asgi._check_accounts)()


def test_a_database_that_is_away_starts_closed(
    gated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away() -> bool:
        asked.append(1)
        raise OperationalError("planted")

    monkeypatch.setattr(asgi, "somebody_administers", away)

    async_to_sync(asgi._check_accounts)()

    assert asked
    with pytest.raises(asking.Denied) as denied:
        asking.gate.book()
    assert denied.value.code == "database_unavailable"


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"auth": "off"}, False),
        ({"auth": "on"}, False),
        ({"auth": "on", "host": "0.0.0.0"}, True),
        ({"auth": "on", "host": "queue.example.org"}, True),
        ({"auth": "on", "host": "0.0.0.0", "https": True}, False),
    ],
)
def test_passwords_that_could_be_read_are_warned_of(
    settings: Any, changes: dict[str, Any], warned: bool
) -> None:
    settings.MQWEB = dataclasses.replace(django_settings.MQWEB, **changes)

    found = [one.id for one in run_checks(include_deployment_checks=True)]

    assert ("mqweb.W002" in found) is warned
