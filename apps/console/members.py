"""Who is in a group, as a picture shows it. Pure: knows what the engine said and the moment."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from apps.engine.types import ClientSeen

# Of one group; a page with more rows would help nobody.
MEMBERS_MAX: Final = 100


class MemberRow(TypedDict):
    """One client of a group; first and last seen so many seconds ago."""

    client_id: str
    topics: list[str]
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


def members_of(clients: Sequence[ClientSeen], *, now_ms: int) -> Members:
    """Return the members of one group by client id; when they are many, those seen last."""
    shown = sorted(clients, key=lambda client: client.last_seen_ms, reverse=True)[:MEMBERS_MAX]
    is_cut = len(shown) < len(clients)
    return {
        "member_count": len(clients),
        "waiting_count": sum(client.is_waiting for client in clients),
        "members": [
            _row(client, now_ms) for client in sorted(shown, key=lambda client: client.client_id)
        ],
        "members_note": f"Only the {MEMBERS_MAX} members seen last are listed." if is_cut else "",
    }


def _row(client: ClientSeen, now_ms: int) -> MemberRow:
    return {
        "client_id": client.client_id,
        "topics": list(client.topics),
        "first_seen_s": _age_s(client.first_seen_ms, now_ms),
        "last_seen_s": _age_s(client.last_seen_ms, now_ms),
        "presence": "waiting" if client.is_waiting else "not waiting",
    }


def _age_s(moment_ms: int, now_ms: int) -> int:
    # A wall clock that was set back must not make anything lie ahead.
    return max(0, (now_ms - moment_ms) // 1000)
