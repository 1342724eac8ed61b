"""Messages as pages show them. Pure: values of the log to plain rows, ages in seconds."""

import ipaddress
from collections.abc import Sequence
from urllib.parse import quote

from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.engine.codec.layout import DEAD_LETTER_PREFIX, LITE_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX
from apps.engine.codec.litenames import lite_parts
from apps.engine.types import TopicType
from apps.messages.grouping import Family
from apps.messages.seen import Failure, Role, Seen

PREVIEW_CHARACTERS = 160
_PREVIEW_BYTES = 4 * PREVIEW_CHARACTERS

Row = dict[str, object]


def topic_path(name: str) -> str:
    """Return the address of a topic's page."""
    return f"/topics/{quote(name, safe='')}/"


def is_own(name: str) -> bool:
    """Say whether a topic is the engine's own, and so has messages to show and nothing else."""
    return name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX, LITE_PREFIX, SYSTEM_PREFIX))


def head_of(name: str, type_: str | None) -> Row:
    """Return what the head of a topic's pages says; a lite topic's leads to its parent."""
    return {
        "name": name,
        "is_own": is_own(name),
        "lite": lite_parts(name),
        "type": type_,
        "has_lites": type_ == TopicType.LITE,
    }


def home_path(name: str) -> str:
    """Return the address that shows most of a topic."""
    return f"{topic_path(name)}messages" if is_own(name) else topic_path(name)


def message_path(topic: str, queue: int, queue_offset: int) -> str:
    """Return the address of a message's page."""
    return f"{topic_path(topic)}queues/{queue}/messages/{queue_offset}"


def id_path(message_id: str) -> str:
    """Return an address that leads to a message, by its id."""
    return f"/messages/{quote(message_id, safe='')}"


def trace_path(seen: Seen) -> str:
    """Return the address of what became of a message, or of the one it is a copy of."""
    origin = seen.origin
    return f"{id_path(origin.message_id)}/trace?topic={quote(origin.topic, safe='')}"


def message_row(seen: Seen, *, now_ms: int) -> Row:
    """Return a message as a line of a table."""
    record = seen.record
    failures = seen.failures
    return {
        "href": message_path(record.topic, record.queue, record.queue_offset),
        "trace_href": trace_path(seen),
        "origin_topic": seen.origin.topic,
        "topic": record.topic,
        "topic_href": home_path(record.topic),
        "queue": record.queue,
        "offset": record.queue_offset,
        "log_offset": record.log_offset,
        "message_id": seen.message_id,
        "tag": seen.tag,
        "keys": seen.keys,
        "role": seen.role.value,
        "group": seen.group,
        "attempt": record.reconsume_times if seen.group else None,
        "reason": failures[-1].reason if failures else "",
        "stored_at": stamp(record.store_time_ms),
        "stored_s": max(0, now_ms - record.store_time_ms) // 1000,
        "body_bytes": len(record.body),
        "preview": preview_of(record.body),
        "is_intact": record.is_intact,
    }


def family_row(family: Family, *, now_ms: int) -> Row:
    """Return a message with its copies below it; the head is None where it was not found."""
    return {
        "head": None if family.head is None else message_row(family.head, now_ms=now_ms),
        "topic": family.topic,
        "topic_href": home_path(family.topic),
        "message_id": family.message_id,
        "id_href": id_path(family.message_id),
        "copies": [message_row(one, now_ms=now_ms) for one in family.copies],
    }


def facts_of(seen: Seen, *, now_ms: int) -> Row:
    """Return all that a record says of itself, but its body and properties."""
    record, origin = seen.record, seen.origin
    has_place = origin.queue is not None and origin.queue_offset is not None
    return {
        **message_row(seen, now_ms=now_ms),
        "offset_id": seen.offset_id,
        "born_at": stamp(record.born_time_ms),
        "born_host": host_of(record.born_host),
        "store_host": host_of(record.store_host),
        "took_ms": _took(record.born_time_ms, record.store_time_ms),
        "size_bytes": record.size_bytes,
        "flag": record.flag,
        "sys_flag": f"0x{record.sys_flag & 0xFFFFFFFF:x}",
        "body_crc": f"{record.body_crc & 0xFFFFFFFF:08x}",
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
        "due_at": stamp(seen.due_ms),
        "sharding_key": seen.properties.get("__SHARDINGKEY", ""),
        "is_copy": seen.role in (Role.RETRY, Role.DEAD_LETTER),
        "origin_topic": origin.topic,
        "origin_id": origin.message_id,
        "origin_href": message_path(origin.topic, origin.queue or 0, origin.queue_offset or 0)
        if has_place
        else id_path(origin.message_id),
    }


def failure_rows(failures: Sequence[Failure]) -> list[Row]:
    """Return failed attempts as lines of a table."""
    return [
        {
            "number": one.number,
            "at": stamp(one.at_ms),
            "reason": one.reason,
            "client_id": one.client_id,
        }
        for one in failures
    ]


def preview_of(body: bytes) -> str | None:
    """Return the begin of a body that is text; None for bytes."""
    try:
        text = body[:_PREVIEW_BYTES].decode()
    except UnicodeDecodeError as error:
        # A character may have been cut in two.
        if len(body) <= _PREVIEW_BYTES or error.start < _PREVIEW_BYTES - 4:
            return None
        text = body[: error.start].decode()
    is_cut = len(text) > PREVIEW_CHARACTERS or len(body) > _PREVIEW_BYTES
    return f"{text[:PREVIEW_CHARACTERS]}\N{HORIZONTAL ELLIPSIS}" if is_cut else text


def host_of(packed: bytes) -> str | None:
    """Return an address and a port as they are written; None where the record has none."""
    if len(packed) != 8 or not any(packed):
        return None
    return f"{ipaddress.IPv4Address(packed[:4])}:{int.from_bytes(packed[4:], 'big')}"


def stamp(time_ms: int | None) -> str | None:
    """Return a time that anybody may have written, RFC 3339; None for no time there can be."""
    if time_ms is None or time_ms <= 0:
        return None
    try:
        return rfc3339(moment(time_ms))
    except OverflowError:
        return None


def _took(born_ms: int, stored_ms: int) -> int | None:
    """Return how long a message was on its way; None where clocks say it came before it left."""
    return stored_ms - born_ms if 0 < born_ms <= stored_ms else None
