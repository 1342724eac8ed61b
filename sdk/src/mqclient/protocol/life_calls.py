"""The request for the life of a message. Knows its address and its document."""

from typing import Any
from urllib.parse import quote, urlencode

from mqclient.errors import InvalidArgument
from mqclient.lives import LifeEvent, MessageLife
from mqclient.names import checked_name
from mqclient.protocol.endpoint import API
from mqclient.protocol.requests import Call, Requests
from mqclient.times import parsed_ms


class LifeCalls(Requests):
    """Builds the request."""

    def trace(self, message_id: str, topic: str | None = None) -> Call[MessageLife]:
        """Ask what became of a message; with a topic only there. Raises InvalidArgument."""
        if not message_id:
            raise InvalidArgument("a message id is not empty")
        target = f"{API}/messages/{quote(message_id, safe='')}/trace"
        if topic is not None:
            target += f"?{urlencode({'topic': checked_name(topic, 'topic')})}"
        return self._get(target, _life)


def _life(document: Any) -> MessageLife:  # A JSON document.
    return MessageLife(
        message_id=document["message_id"],
        topic=document.get("topic"),
        queue=document.get("queue"),
        queue_offset=_number(document.get("offset")),
        events=tuple(_event(item) for item in document["events"]),
        unknown=tuple((item["code"], item["detail"]) for item in document["unknown"]),
        scan_incomplete=bool(document["scan_incomplete"]),
    )


def _event(item: Any) -> LifeEvent:  # A JSON document.
    return LifeEvent(
        kind=item["kind"],
        source=item["source"],
        at_ms=_time(item.get("at")),
        ended_ms=_time(item.get("ended_at")),
        group=item.get("group"),
        client_id=item.get("client_id"),
        attempt=item.get("attempt"),
        topic=item.get("topic"),
        queue=item.get("queue"),
        queue_offset=_number(item.get("offset")),
        result=item.get("result"),
        detail=item.get("detail"),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _time(text: str | None) -> int | None:
    return None if text is None else parsed_ms(text)
