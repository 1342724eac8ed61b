"""The end of sessions: their rows, Django's own, and the sockets that are open with them.

Knows rows; is told which, and asks nobody whether.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.access import asking
from apps.access.models import AccountSession


def end(rows: Iterable[AccountSession]) -> int:
    """End sessions, and count them; their sockets are closed once that has committed."""
    keys = {row.session_key: row.pk for row in rows}
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    for key in keys:
        store().delete(key)
    AccountSession.objects.filter(pk__in=keys.values()).delete()

    def tell() -> None:
        for key in keys:
            asking.end_session(key)

    transaction.on_commit(tell)
    return len(keys)
