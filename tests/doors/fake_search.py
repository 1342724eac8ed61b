"""What a search of messages finds, by looking at every one of them: small, and obviously right."""

from collections.abc import Iterable, Sequence

import numpy as np

from apps.engine.codec.ids import offset_id
from apps.engine.codec.properties import TAGS
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.tags import java_hash
from apps.engine.errors import InvalidArgument
from apps.engine.filters.subscription import Filter, compile_filter
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import FilterType, MessageBlock


def searched(records: Iterable[bytes], request: SearchRequest) -> SearchResult:
    """Look at all records of a topic."""
    if request.queue_offset is not None and request.queue is None:
        raise InvalidArgument("an offset needs the queue it counts in")
    _condition(request)
    found = [one for one in map(bytes, records) if is_wanted(decode_record(one), request)]
    found.sort(key=lambda one: -decode_record(one).log_offset)
    shown, is_truncated = found[: request.messages_max], len(found) > request.messages_max
    return SearchResult(
        blocks=tuple(map(block_of, shown)),
        truncated=is_truncated,
        scan_incomplete=False,
        next_before=decode_record(shown[-1]).log_offset if is_truncated else None,
    )


def is_wanted(record: Record, request: SearchRequest) -> bool:
    """Say whether a record is all of what is asked for."""
    wanted: Sequence[tuple[object, object]] = (
        (request.message_id, record.message_id),
        (request.offset_id and request.offset_id.upper(), at(record)),
        (request.tag, record.properties.get("TAGS", "")),
        (request.queue, record.queue),
        (request.queue_offset, record.queue_offset),
    )
    keys = record.properties.get("KEYS", "").split(" ")
    condition = _condition(request)
    return (
        all(asked is None or asked == has for asked, has in wanted)
        and (request.key is None or request.key in keys)
        and (request.from_ms or 0) <= record.store_time_ms
        and (request.to_ms is None or record.store_time_ms < request.to_ms)
        and (request.before is None or record.log_offset < request.before)
        and (condition is None or condition.matches(record.properties))
    )


def _condition(request: SearchRequest) -> Filter | None:
    text = request.condition
    return None if text is None else compile_filter(text, FilterType.SQL92)


def at(record: Record) -> str:
    """Return the offset id of a record."""
    return offset_id(record.store_host, record.log_offset)


def block_of(record: bytes) -> MessageBlock:
    """Return a record as a block."""
    topic, queue = decode_record(record).topic, decode_record(record).queue
    sizes = np.array([len(record)], dtype=np.int32)
    return MessageBlock(topic=topic, queue=queue, payload=record, sizes=sizes)


def matches(record: bytes, expression: str, filter_type: FilterType) -> bool:
    """Say whether a filter takes a message."""
    wanted = compile_filter(expression, filter_type)
    properties = decode_record(record, 0).properties
    if wanted.hashes is None:
        return wanted.matches(properties)
    # By hash alone, as the engine does: a door must tell the collisions.
    return java_hash(properties.get(TAGS, "")) in wanted.hashes
