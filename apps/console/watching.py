"""Who may watch which view: the one place where a subscription is asked for. Knows no picture."""

from collections.abc import Mapping
from typing import Any

from apps.access import asking, telling
from apps.access.gate import Denied, Rights
from apps.access.policy import CLUSTER, Action, Resource, group, topic

Scope = Mapping[str, Any]  # An ASGI scope: its shape depends on the protocol.

_OF_ONE = {"group": group, "topic": topic}


def may_watch(scope: Scope, view: str) -> bool:
    """Say whether the caller of a handshake may see a view, and keep the question.

    What was allowed here is asked again with every change of rights, and a socket that may not go
    on is closed. Asked once a subscription, on the event loop: it waits for no database.
    """
    if not asking.is_on():
        return True
    rights = scope.get("access")
    if not isinstance(rights, Rights):
        return False
    try:
        rights.require(resource_of(view), Action.GET)
    except Denied as denied:
        client = scope.get("client")
        telling.of_socket(denied, client[0] if client else "")
        return False
    return True


def resource_of(view: str) -> Resource:
    """Return what must be seen for a view: the group or topic it is of, else the installation."""
    kind, dot, name = view.partition(".")
    return _OF_ONE[kind](name) if dot and kind in _OF_ONE else CLUSTER
