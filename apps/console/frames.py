"""What goes over the socket: JSON text of a picture. Pure: knows pictures, no socket.

A greeting carries the history and is for a viewer who has just come; an update does not.
Names and numbers are data to the script that shows them, never markup.
"""

from typing import Any, Final

import msgspec

from apps.console import deathwatch
from apps.console.board import Posted
from apps.console.snapshot import Snapshot

# A frame stays below a few hundred kilobytes; pages say what they leave out.
TOPICS_MAX: Final = 200
GROUPS_MAX: Final = 200
QUEUES_MAX: Final = 1_000
MEMBERS_MAX: Final = 1_000


def update(snapshot: Snapshot) -> str:
    """Return the text that goes to every viewer each second."""
    return _text(shown(snapshot))


def greeting(posted: Posted) -> str:
    """Return the first text for a viewer: the newest picture and the history of the totals."""
    return _text({**shown(posted.snapshot), "history": posted.history})


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """Return the part of a picture that the overview has room for.

    Topics and groups are cut after a number of rows; the rows of queues, and those of members, are
    left out (None) from all of them when they are too many together. `is_cut` says whether a topic
    or a group is missing.
    """
    topics = _bounded("queues", snapshot["topics"][:TOPICS_MAX], QUEUES_MAX)
    groups = _bounded("queues", snapshot["groups"][:GROUPS_MAX], QUEUES_MAX)
    groups = _bounded("members", groups, MEMBERS_MAX)
    return {
        **snapshot,
        "topics": topics,
        "groups": groups,
        "deaths": deathwatch.cut(snapshot["deaths"]),
        "is_cut": len(topics) < len(snapshot["topics"]) or len(groups) < len(snapshot["groups"]),
    }


def _bounded(part: str, rows: Any, together_max: int) -> Any:  # Topic rows or group rows.
    together = sum(len(row[part] or ()) for row in rows)
    return rows if together <= together_max else [{**row, part: None} for row in rows]


def _text(frame: dict[str, Any]) -> str:
    return msgspec.json.encode(frame).decode()
