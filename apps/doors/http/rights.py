"""Which right each verb needs of the names in its address, and how a denial is answered.

What a body names is asked about by its handler.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.access.gate import Denied, Gate, Knock, Rights
from apps.access.policy import CLUSTER, Action, Kind, Resource
from apps.doors.http.refusals import Refusal
from apps.doors.http.routing import Match, Verb
from apps.engine import limits


@dataclass(frozen=True, slots=True)
class Need:
    """An action on what the address names: a topic, a group, or nothing but the cluster."""

    action: Action
    kind: Kind


_TOPIC_PUB = Need(Action.PUB, Kind.TOPIC)
_GROUP_SUB = Need(Action.SUB, Kind.GROUP)

NEEDS: Mapping[Verb, Need] = {
    Verb.SEND: _TOPIC_PUB,
    Verb.SEARCH: Need(Action.PEEK, Kind.TOPIC),
    Verb.PULL: Need(Action.SUB, Kind.TOPIC),
    Verb.RECEIVE: _GROUP_SUB,
    Verb.ACK: _GROUP_SUB,
    Verb.NACK: _GROUP_SUB,
    Verb.EXTEND: _GROUP_SUB,
    Verb.SEND_BACK: _GROUP_SUB,
    Verb.COMMIT: _GROUP_SUB,
    Verb.BEGIN: _GROUP_SUB,
    Verb.OFFSET_AT: Need(Action.GET, Kind.TOPIC),
    Verb.HEARTBEAT: _GROUP_SUB,
    Verb.LEAVE: _GROUP_SUB,
    Verb.ACQUIRE: _GROUP_SUB,
    Verb.RELEASE: _GROUP_SUB,
    Verb.BEGIN_TRANSACTION: _TOPIC_PUB,
    Verb.RECEIVE_CHECKS: Need(Action.PUB, Kind.GROUP),
    Verb.METRICS: Need(Action.GET, Kind.CLUSTER),
}
OPEN = frozenset({Verb.ALIVE, Verb.READY})
"""What probes ask: no message, no name, no figure."""
BY_TOKEN = frozenset(
    {
        Verb.COMMIT_TRANSACTION,
        Verb.ROLL_BACK_TRANSACTION,
        Verb.RECALL,
        Verb.DELIVER_NOW,
    }
)
"""What names a message by a text of the store's; its handler asks about the message's topic."""


class Everything:
    """The rights of every caller where access is off."""

    def require(self, resource: Resource, *actions: Action) -> None:
        """Allow it."""


EVERYTHING = Everything()
AnyRights = Rights | Everything


def require(rights: AnyRights, verb: Verb, match: Match) -> None:
    """Raise Denied unless the caller may use a verb on what its address names."""
    if verb in BY_TOKEN:
        return
    need = NEEDS[verb]
    rights.require(
        CLUSTER if need.kind is Kind.CLUSTER else Resource(need.kind, match.name), need.action
    )


def refusal_of(denied: Denied) -> Refusal:
    """Return a denial as the door answers it."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if denied.challenge:
        headers = ((b"www-authenticate", denied.challenge.encode()),)
    if denied.code == "database_unavailable":
        headers = ((b"retry-after", b"1"),)
    return Refusal(denied.code, str(denied), headers=headers)


def tell(
    gate: Gate | None, denied: Denied, scope: Mapping[str, Any], fields: Mapping[bytes, bytes]
) -> None:
    """Tell the gate of a denial, with where its request came from."""
    if gate is not None:
        client = scope.get("client")
        knock = Knock(
            source=client[0] if client else "",
            agent=fields.get(b"user-agent", b"").decode("latin-1"),
            path=scope["path"],
        )
        gate.tell(denied, knock)


def topic_in(handle: str) -> str | None:
    """Return the topic a recall handle says; None for what no store has issued.

    The engine checks that the message of the handle is of this topic.
    """
    try:
        padded = handle.encode("ascii") + b"=" * (-len(handle) % 4)
        words = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(" ", 2)
    except (ValueError, binascii.Error):
        return None
    if len(words) != 3 or words[0] != "v1" or limits.NAME_PATTERN.fullmatch(words[1]) is None:
        return None
    return words[1]
