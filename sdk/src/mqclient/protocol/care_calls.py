"""Requests of operators: care of a blocked queue, and where a group goes on.

Knows addresses and documents; nothing of consumers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API
from mqclient.protocol.requests import Call, Requests, number
from mqclient.values import (
    OffsetsPreview,
    OffsetsReset,
    PlannedOffset,
    QueueCare,
    QueueMoved,
    TopicQueue,
)


class CareCalls(Requests):
    """Builds the requests about a group's queues and offsets."""

    def care(
        self, act: str, group: str, place: TopicQueue, *, expected_offset: int | None, reason: str
    ) -> Call[QueueCare]:
        """Suspend, resume, skip or park; the broker knows what was done before."""
        document: dict[str, object] = {"reason": reason}
        if expected_offset is not None:
            document["expected_offset"] = str(expected_offset)
        target = f"{_group(group)}/queues/{path_part(place.topic)}/{place.queue}:{act}"
        return self._json("POST", target, document, _care)

    def preview_offsets(self, group: str, document: Mapping[str, object]) -> Call[OffsetsPreview]:
        """Ask what a reset would do."""
        return self._json("POST", f"{_group(group)}/offsets:preview", document, _preview)

    def apply_offsets(self, group: str, token: str, reason: str) -> Call[OffsetsReset]:
        """Carry out what was previewed; again it is answered as the first time."""
        document = {"token": token, "reason": reason}
        return self._json("POST", f"{_group(group)}/offsets:apply", document, _reset)

    def undo_offsets(
        self, group: str, undo_id: str, reason: str, moved_max: int | None
    ) -> Call[OffsetsReset]:
        """Have a group go on where it was before a reset."""
        document: dict[str, object] = {"undo_id": undo_id, "reason": reason}
        if moved_max is not None:
            document["moved_max"] = moved_max
        return self._json("POST", f"{_group(group)}/offsets:undo", document, _reset)


def target_document(
    target: str,
    *,
    time_ms: int | None,
    offset: int | None,
    shift: int | None,
    copy_from: str | None,
    topic: str | None,
    queues: Sequence[int] | None,
    moved_max: int | None,
) -> dict[str, object]:
    """Return the document of a preview; what is None is left out."""
    values: dict[str, object | None] = {
        "target": target,
        "time": time_ms,
        "offset": None if offset is None else str(offset),
        "shift": None if shift is None else str(shift),
        "copy_from": copy_from,
        "topic": topic,
        "queues": None if queues is None else list(queues),
        "moved_max": moved_max,
    }
    return {name: value for name, value in values.items() if value is not None}


def _group(group: str) -> str:
    checked_name(group, "group")
    return f"{API}/groups/{path_part(group)}"


def _care(document: Any) -> QueueCare:  # A JSON document.
    return QueueCare(
        head=int(document["head"]),
        is_repeat=bool(document["is_repeat"]),
        is_suspended=document["suspension"] is not None,
        dead_letter_offset=number(document["dead_letter_offset"]),
    )


def _preview(document: Any) -> OffsetsPreview:  # A JSON document.
    return OffsetsPreview(
        target=document["target"],
        queues=tuple(
            PlannedOffset(
                topic=item["topic"],
                queue=item["queue"],
                current=int(item["current"]),
                target=int(item["target"]),
                was_clamped=bool(item["was_clamped"]),
            )
            for item in document["items"]
        ),
        is_online=bool(document["is_online"]),
        moved_max=int(document["moved_max"]),
        token=document["token"],
    )


def _reset(document: Any) -> OffsetsReset:  # A JSON document.
    return OffsetsReset(
        undo_id=document["undo_id"],
        target=document["target"],
        state=document["state"],
        queues=tuple(
            QueueMoved(
                topic=item["topic"],
                queue=item["queue"],
                before=int(item["before"]),
                after=int(item["after"]),
            )
            for item in document["queues"]
        ),
    )
