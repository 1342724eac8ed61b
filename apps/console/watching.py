"""Who may watch which view: the one place where a subscription is asked for. Knows no picture."""

from collections.abc import Mapping
from typing import Any

Scope = Mapping[str, Any]  # An ASGI scope: its shape depends on the protocol.


def may_watch(scope: Scope, view: str) -> bool:
    """Say whether the caller of a handshake may see a view.

    Asked once a subscription, on the event loop: it must not wait for a database. While
    authentication is off, which settings permit on loopback only, everybody may.
    """
    del scope, view
    return True
