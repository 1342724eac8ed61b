"""GET /topics/{topic}/messages: find messages by key, id, place, time, tag and properties.

Translates only.
"""

from apps.doors.http import answers, messages, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.shapes import SearchAnswer
from apps.engine import limits
from apps.engine.searchtypes import SearchRequest

PARAMETERS = frozenset(
    (
        "key", "message_id", "offset_id", "from", "to", "tag", "queue", "offset", "max",
        "max_bytes", "filter", "cursor",
    )
)  # fmt: skip
MESSAGES_DEFAULT = 32
BYTES_DEFAULT = 4 * limits.MIB


async def search(_door: Door, call: Call) -> Answer:
    """Answer with the messages that are all of what was asked for, the newest first."""
    request = _request_of(call)
    # Whoever left is not searched for: a search may read much.
    result = await reading.unless_gone(call.engine.search(request), call)
    found = [
        messages.message_of(record)
        for block in result.blocks
        for record in messages.records_of(block)
    ]
    before = result.next_before
    next_cursor = None if before is None else str(before)
    return answers.json(
        200, SearchAnswer(found, result.truncated, result.scan_incomplete, next_cursor)
    )


def _request_of(call: Call) -> SearchRequest:
    query = reading.query_of(call, PARAMETERS)
    return SearchRequest(
        topic=call.name,
        key=query.get("key"),
        message_id=query.get("message_id"),
        offset_id=query.get("offset_id"),
        from_ms=_time(query, "from"),
        to_ms=_time(query, "to"),
        tag=query.get("tag"),
        queue=_number(query, "queue", limits.QUEUE_COUNT_MAX - 1),
        queue_offset=_number(query, "offset", reading.LONG_MAX),
        condition=query.get("filter"),
        before=_number(query, "cursor", reading.LONG_MAX),
        messages_max=reading.number(
            query, "max", default=MESSAGES_DEFAULT, low=1, high=limits.SEARCH_MESSAGES_MAX
        ),
        bytes_max=reading.number(
            query, "max_bytes", default=BYTES_DEFAULT, low=1, high=limits.FETCH_BYTES_MAX
        ),
    )


def _number(query: dict[str, str], name: str, high: int) -> int | None:
    return None if name not in query else reading.number(query, name, default=0, high=high)


def _time(query: dict[str, str], name: str) -> int | None:
    return None if name not in query else places.time_at(query[name], f"?{name}")
