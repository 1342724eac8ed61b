"""Requests about messages that failed: sending back, dead letters, how a group tries again.

Knows addresses and documents; what failed is the consumers' affair.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from mqclient.limits import REASON_CHARACTERS_MAX
from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API
from mqclient.protocol.group_calls import GroupCalls
from mqclient.protocol.requests import JSON, Call, nothing
from mqclient.values import DeadLetter, Returned, SentBack, TopicQueue


class FailureCalls(GroupCalls):
    """Builds the requests about failed messages."""

    def send_back(
        self,
        group: str,
        client_id: str,
        place: TopicQueue,
        queue_offsets: Iterable[int],
        *,
        generation: int | None = None,
        epoch: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
    ) -> Call[list[Returned]]:
        """Give messages of one queue to the group's retry topic, or with level -1 to its dead
        letters; repeatable, since the broker knows what it has already."""
        fields: dict[str, object] = {"topic": place.topic, "queue": place.queue}
        if epoch is not None:
            fields["epoch"] = epoch
        document: dict[str, object] = {
            "client_id": client_id,
            "messages": [{**fields, "offset": str(offset)} for offset in queue_offsets],
            "reason": cut(reason),
        }
        if generation is not None:
            document["generation"] = generation
        if delay_level is not None:
            document["delay_level"] = delay_level
        return self._json("POST", f"{_group(group)}/messages:send-back", document, _returned)

    def set_group(self, group: str, settings: Mapping[str, object]) -> Call[None]:
        """Decide about a group; what is not named keeps what holds."""
        buffers = self._json_buffers("PUT", _group(group), dict(settings), JSON)
        return Call(buffers, nothing)

    def dead_letters(
        self, group: str, cursor: str | None = None
    ) -> Call[tuple[list[DeadLetter], str | None]]:
        """Read a page of a group's dead letters, and the cursor of the next page."""
        query = "" if cursor is None else "?" + urlencode({"cursor": cursor})
        return self._get(f"{_group(group)}/dead-letters{query}", _letter_page)

    def resend_dead_letters(
        self,
        group: str,
        letter_ids: Sequence[str] | None,
        *,
        topic: str | None = None,
        is_dry_run: bool = False,
    ) -> Call[str]:
        """Have dead letters sent again, all of them without ids; the id of the job that does it."""
        document: dict[str, object] = {"dry_run": is_dry_run}
        document.update({"all": True} if letter_ids is None else {"ids": list(letter_ids)})
        if topic is not None:
            document["topic"] = checked_name(topic, "topic")
        target = f"{_group(group)}/dead-letters:resend"
        return self._json("POST", target, document, _job_id, is_repeatable=False)


def cut(reason: str) -> str:
    """Return a reason as long as the broker takes it."""
    return reason[:REASON_CHARACTERS_MAX]


def _group(group: str) -> str:
    return f"{API}/groups/{path_part(checked_name(group, 'group'))}"


def _returned(document: Any) -> list[Returned]:  # A JSON document.
    return [
        Returned(
            index=int(item["index"]),
            status=int(item["status"]),
            outcome=SentBack(item["outcome"]) if item.get("outcome") else None,
        )
        for item in document["results"]
    ]


def _letter_page(document: Any) -> tuple[list[DeadLetter], str | None]:  # A JSON document.
    items = [
        DeadLetter(
            letter_id=str(item["id"]),
            topic=item.get("origin_topic") or "",
            message_id=item["message_id"],
            attempts=int(item["attempt_count"]),
            reason=item["reason"],
            state=item["state"],
        )
        for item in document["items"]
    ]
    return items, document.get("next_cursor")


def _job_id(document: Any) -> str:  # A JSON document.
    return str(document["id"])
