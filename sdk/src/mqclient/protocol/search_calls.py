"""The request that searches messages. Knows its address, its query and its document."""

from base64 import b64decode
from typing import Any
from urllib.parse import urlencode

from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API
from mqclient.protocol.requests import Call, Requests
from mqclient.searching import FoundMessage, SearchResult, Wanted
from mqclient.times import milliseconds_of, parsed_ms

# What the query calls what callers name otherwise.
_NAMES = {
    "from_time": "from",
    "to_time": "to",
    "queue_offset": "offset",
    "messages_max": "max",
    "condition": "filter",
}


class SearchCalls(Requests):
    """Builds the request."""

    def search(self, topic: str, wanted: Wanted) -> Call[SearchResult]:
        """Ask for the messages of a topic that are all of what is wanted; see Wanted."""
        query: dict[str, object] = {_NAMES.get(name, name): value for name, value in wanted.items()}
        if "from_time" in wanted:
            query["from"] = milliseconds_of(wanted["from_time"])
        if "to_time" in wanted:
            query["to"] = milliseconds_of(wanted["to_time"])
        target = f"{API}/topics/{path_part(checked_name(topic, 'topic'))}/messages"
        return self._get(f"{target}?{urlencode(query)}" if query else target, _result)


def _result(document: Any) -> SearchResult:  # A JSON document.
    return SearchResult(
        messages=tuple(_found(item) for item in document["items"]),
        truncated=bool(document["truncated"]),
        scan_incomplete=bool(document["scan_incomplete"]),
        next_cursor=document.get("next_cursor"),
    )


def _found(item: Any) -> FoundMessage:  # A JSON document.
    encoded = item.get("body_base64")
    born_time = item.get("born_time")
    return FoundMessage(
        topic=item["topic"],
        queue=int(item["queue"]),
        queue_offset=int(item["offset"]),
        message_id=item["message_id"],
        body=item["body"].encode() if encoded is None else b64decode(encoded),
        tag=item.get("tag"),
        keys=tuple(item.get("keys") or ()),
        properties=dict(item.get("properties") or {}),
        sharding_key=item.get("sharding_key"),
        born_time_ms=None if born_time is None else parsed_ms(born_time),
        store_time_ms=parsed_ms(item["store_time"]),
        reconsume_times=int(item["reconsume_times"]),
    )
