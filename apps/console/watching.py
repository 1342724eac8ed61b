"""Who may watch which view: the one place where a subscription is asked for. Knows no picture."""

from collections.abc import Mapping
from typing import Any

from apps.access import asking, telling
from apps.access.gate import Denied, Rights
from apps.access.policy import CLUSTER, Action, Resource, Sight, group, topic
from apps.access.policy.sight import ALL

Scope = Mapping[str, Any]  # An ASGI scope: its shape depends on the protocol.

_OF_ONE = {"group": group, "topic": topic}
_OF_MANY = frozenset({"overview", "locks", "delays", "transactions", "job"})


def sight_on(scope: Scope, view: str) -> Sight:
    """Return what the caller of a handshake may see of a view, and keep the question.

    Raises Denied for a view that shows nothing but what they may not see. What was allowed here is
    asked again with every change of rights: a socket that may not go on is closed, and one whose
    viewer sees more or less from now on is told to come back. Asked once a subscription, on the
    event loop: it waits for no database.
    """
    if not asking.is_on():
        return ALL
    rights = scope.get("access")
    if not isinstance(rights, Rights):
        raise Denied("forbidden", "nobody was asked who looks")
    resource = resource_of(view)
    try:
        if resource is not None:
            rights.require(resource, Action.GET)
        return rights.sight()
    except Denied as denied:
        client = scope.get("client")
        telling.of_socket(denied, client[0] if client else "")
        if resource is None or denied.code != "forbidden":
            raise
        raise rights.refusal(resource, Action.GET) from None


def resource_of(view: str) -> Resource | None:
    """Return what must be seen for a view: the group or topic it is of, or the installation.

    None for a view of many things, of which everybody is shown their own.
    """
    kind, dot, name = view.partition(".")
    if kind in _OF_MANY:
        return None
    return _OF_ONE[kind](name) if dot and kind in _OF_ONE else CLUSTER
