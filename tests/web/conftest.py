"""What tests of the control plane share: an installed fake engine, and a caller of the API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.bridge import engine as bridge
from tests.web.fake_engine import FakeEngine


class Api:
    """Calls the API as a client on the same machine does."""

    def __init__(self) -> None:
        self.client = Client(raise_request_exception=False)

    def get(self, path: str, **query: str) -> Any:
        return self.client.get(f"/api/v1{path}", query)

    def put(self, path: str, body: object) -> Any:
        return self.client.put(
            f"/api/v1{path}", data=json.dumps(body), content_type="application/json"
        )

    def delete(self, path: str) -> Any:
        return self.client.delete(f"/api/v1{path}")


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    """Install a fake engine for the time of a test."""
    fake = FakeEngine()
    bridge.install(fake, None)  # type: ignore[arg-type]
    yield fake
    bridge.remove()


@pytest.fixture
def api() -> Api:
    """Return a caller of the API."""
    return Api()


@pytest.fixture
def admin() -> Client:
    """Return a browser in which an administrator has signed in."""
    user = get_user_model().objects.create_superuser("root", password="x")
    client = Client()
    client.force_login(user)
    return client
