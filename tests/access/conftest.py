"""Fixtures of the tests of access: access switched on, and a fake engine behind Django's side."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings

from apps.access import snapshot
from tests.web.conftest import engine

__all__ = ["closed", "engine"]


@pytest.fixture
def closed(settings: Any, db: None) -> Iterator[None]:
    """Switch access on, and forget all books at the end."""
    settings.MQWEB = dataclasses.replace(django_settings.MQWEB, auth="on")
    snapshot.install(None)
    yield
    snapshot.install(None)
