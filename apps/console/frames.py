"""What goes over the socket, as text. Pure: knows pictures, no socket.

    {"kind": "whole", "view", "version", "state", "history"}   all that a view shows
    {"kind": "delta", "view", "version", "delta"}              what changed since the version before

Names and numbers are data to the script that shows them, never markup. A frame is in one language.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from apps.console import deathwatch
from apps.console.deltas import Delta
from apps.console.picture import Point
from apps.console.snapshot import Snapshot
from apps.core import phrases
from apps.core.languages import Language

# A frame stays below a few hundred kilobytes; pages say what they leave out.
TOPICS_MAX: Final = 200
GROUPS_MAX: Final = 200
QUEUES_MAX: Final = 1_000
MEMBERS_MAX: Final = 1_000
LOCKS_MAX: Final = 500
# A longer frame holds the loop for too long, and a browser with it.
FRAME_CHARACTERS_MAX: Final = 1024 * 1024


def whole(
    view: str,
    version: int,
    state: Mapping[str, Any],
    *,
    history: Sequence[Point],
    language: Language,
) -> str:
    """Return all that a view shows; the charts of the overview get the minutes before it."""
    frame: dict[str, Any] = {"kind": "whole", "view": view, "version": version, "state": state}
    if view == "overview":
        frame["history"] = history
    return _text(frame, language)


def delta(view: str, version: int, changed: Delta, *, language: Language) -> str:
    """Return what changed in a view since the version before; empty where only time went on."""
    return _text({"kind": "delta", "view": view, "version": version, "delta": changed}, language)


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """Return the part of a picture that the overview has room for.

    Topics and groups are cut after a number of rows; the rows of queues, and those of members, are
    left out (None) from all of them when they are too many together. `is_cut` says whether a topic
    or a group is missing. Of locks the first rows are kept.
    """
    topics = _bounded("queues", snapshot["topics"][:TOPICS_MAX], QUEUES_MAX)
    groups = _bounded("queues", snapshot["groups"][:GROUPS_MAX], QUEUES_MAX)
    groups = _bounded("members", groups, MEMBERS_MAX)
    return {
        **snapshot,
        "topics": topics,
        "groups": groups,
        "locks": {**snapshot["locks"], "rows": snapshot["locks"]["rows"][:LOCKS_MAX]},
        "deaths": deathwatch.cut(snapshot["deaths"]),
        "is_cut": len(topics) < len(snapshot["topics"]) or len(groups) < len(snapshot["groups"]),
    }


def _bounded(part: str, rows: Any, together_max: int) -> Any:  # Topic rows or group rows.
    together = sum(len(row[part] or ()) for row in rows)
    return rows if together <= together_max else [{**row, part: None} for row in rows]


def _text(frame: dict[str, Any], language: Language) -> str:
    return msgspec.json.encode(frame, enc_hook=phrases.reader(language.value)).decode()
