"""Who is in a group, as a picture shows it. Pure: knows what the engine said and the moment."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from apps.console.templatetags.visible import in_line
from apps.core.phrases import Text, phrase, phrase_in
from apps.engine.grouptypes import MemberState
from apps.engine.types import ClientSeen
from apps.groups.blocked import is_idle

# Of one group; a page with more rows would help nobody.
MEMBERS_MAX: Final = 100

_SHARED: Final = phrase_in("queues of a member", "shared")
_NONE: Final = phrase_in("queues of a member", "none")
_UNTOLD: Final = phrase_in("software or address of a client", "not told")
_IDLE: Final = phrase("Idle: the others have all queues.")
_PRESENCE_WORDS: Final[Mapping[str, Text]] = {
    "waiting": phrase_in("member", "waiting"),
    "not waiting": phrase_in("member", "not waiting"),
}


class MemberRow(TypedDict):
    """One client of a group; first and last seen so many seconds ago.

    `queues` says which are assigned to it; one that keeps no heartbeat shares them all. `software`
    and `address` are what it said it is, and where its last request came from.
    """

    client_id: str
    software: Text
    address: Text
    topics: list[str]
    queues: Text
    trouble: Text
    first_seen_s: int
    last_seen_s: int
    presence: str
    presence_said: Text


class Members(TypedDict):
    """The clients of a group; `members_note` says what `members` leaves out."""

    member_count: int
    waiting_count: int
    members: list[MemberRow]
    members_note: Text


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
        "members_note": phrase(
            "Only the %(count)s members seen last are listed.", count=MEMBERS_MAX
        )
        if is_cut
        else "",
    }


def _row(client: ClientSeen, state: MemberState | None, now_ms: int) -> MemberRow:
    presence = "waiting" if client.is_waiting else "not waiting"
    return {
        "client_id": client.client_id,
        "software": in_line(client.software) or _UNTOLD,
        "address": client.address or _UNTOLD,
        "topics": list(client.topics),
        "queues": _SHARED if state is None else _queues(state) or _NONE,
        "trouble": _trouble(state),
        "first_seen_s": _age_s(client.first_seen_ms, now_ms),
        "last_seen_s": _age_s(client.last_seen_ms, now_ms),
        "presence": presence,
        "presence_said": _PRESENCE_WORDS[presence],
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


def _trouble(state: MemberState | None) -> Text:
    if state is None:
        return ""
    said: list[Text] = []
    if state.conflicts:
        said.append(
            phrase(
                "Wants something else of %(topics)s than another member: messages are missed.",
                topics=", ".join(state.conflicts),
            )
        )
    if is_idle(state):
        said.append(_IDLE)
    if len(said) > 1:
        return phrase("%(first)s %(second)s", first=said[0], second=said[1])
    return said[0] if said else ""


def _age_s(moment_ms: int, now_ms: int) -> int:
    # A wall clock that was set back must not make anything lie ahead.
    return max(0, (now_ms - moment_ms) // 1000)
