"""Who is in a group, as a picture shows it. Pure: knows what the engine said and the moment."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from apps.engine.grouptypes import MemberState
from apps.engine.types import ClientSeen
from apps.groups.blocked import is_idle

# Of one group; a page with more rows would help nobody.
MEMBERS_MAX: Final = 100

_SHARED = "shared"
_NONE = "none"


class MemberRow(TypedDict):
    """One client of a group; first and last seen so many seconds ago.

    `queues` says which are assigned to it; one that keeps no heartbeat shares them all.
    """

    client_id: str
    topics: list[str]
    queues: str
    trouble: str
    first_seen_s: int
    last_seen_s: int
    presence: str


class Members(TypedDict):
    """The clients of a group; `members_note` says what `members` leaves out."""

    member_count: int
    waiting_count: int
    members: list[MemberRow]
    members_note: str


def by_group(clients: Sequence[ClientSeen]) -> Mapping[str, list[ClientSeen]]:
    """Return the clients of each group."""
    found: dict[str, list[ClientSeen]] = {}
    for client in clients:
        found.setdefault(client.group, []).append(client)
    return found


def members_of(
    clients: Sequence[ClientSeen],
    states: Mapping[tuple[str, str], MemberState],
    *,
    now_ms: int,
) -> Members:
    """Return the members of one group by client id; when they are many, those seen last.

    `states` are the members that keep a heartbeat, by group and client id.
    """
    shown = sorted(clients, key=lambda client: client.last_seen_ms, reverse=True)[:MEMBERS_MAX]
    is_cut = len(shown) < len(clients)
    return {
        "member_count": len(clients),
        "waiting_count": sum(client.is_waiting for client in clients),
        "members": [
            _row(client, states.get((client.group, client.client_id)), now_ms)
            for client in sorted(shown, key=lambda client: client.client_id)
        ],
        "members_note": f"Only the {MEMBERS_MAX} members seen last are listed." if is_cut else "",
    }


def _row(client: ClientSeen, state: MemberState | None, now_ms: int) -> MemberRow:
    return {
        "client_id": client.client_id,
        "topics": list(client.topics),
        "queues": _SHARED if state is None else _queues(state) or _NONE,
        "trouble": _trouble(state),
        "first_seen_s": _age_s(client.first_seen_ms, now_ms),
        "last_seen_s": _age_s(client.last_seen_ms, now_ms),
        "presence": "waiting" if client.is_waiting else "not waiting",
    }


def _queues(state: MemberState) -> str:
    """Return the assigned queues in words, such as `orders 0-3, 5; bills 0`."""
    parts = [f"{topic} {_ranges(queues)}" for topic, queues in sorted(state.assignment.items())]
    return "; ".join(part for part in parts if not part.endswith(" "))


def _ranges(queues: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for queue in sorted(queues):
        if runs and queue == runs[-1][-1] + 1:
            runs[-1][1:] = [queue]
        else:
            runs.append([queue])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _trouble(state: MemberState | None) -> str:
    if state is None:
        return ""
    said = []
    if state.conflicts:
        said.append(
            f"Wants something else of {', '.join(state.conflicts)} than another member: "
            "messages are missed."
        )
    if is_idle(state):
        said.append("Idle: the others have all queues.")
    return " ".join(said)


def _age_s(moment_ms: int, now_ms: int) -> int:
    # A wall clock that was set back must not make anything lie ahead.
    return max(0, (now_ms - moment_ms) // 1000)
