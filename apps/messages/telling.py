"""What consumers told of one message in the topic of traces (docs/FORMAT.md section 10). Pure.

Anybody may write there, so whatever is not of that shape is passed over.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.engine.codec.layout import TRACE_RECALLED, TRACE_VERSION
from apps.messages.seen import Seen

_TIME_MS_MAX = 253_402_300_799_999
_NUMBER_MAX = 2**62
_TEXT_CHARACTERS_MAX = 1_000
# A consumer tells of 100 at most; whoever writes more than that is none.
_RECORDS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """That a consumer's code had a message; times are its own wall ms. -1 is no offset."""

    group: str
    client_id: str
    mode: str
    topic: str
    queue: int
    queue_offset: int
    attempt: int
    started_ms: int
    ended_ms: int
    result: str
    error: str

    @property
    def is_recall(self) -> bool:
        """Say whether it is the broker that tells, of a message nobody ever had."""
        return self.result == TRACE_RECALLED and not self.group


def told_of(message_id: str, traces: Iterable[Seen]) -> list[Told]:
    """Return what traces tell of one message, the earliest first."""
    found = [one for trace in traces for one in _records(trace.record.body, message_id)]
    return sorted(found, key=lambda one: (one.started_ms, one.attempt))


def _records(body: bytes, message_id: str) -> Iterator[Told]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict) or document.get("v") != TRACE_VERSION:
        return
    records = document.get("records")
    if not isinstance(records, list):
        return
    for record in records[:_RECORDS_MAX]:
        if isinstance(record, dict) and record.get("id") == message_id:
            told = _told(document, record)
            if told is not None:
                yield told


def _told(document: Mapping[str, Any], record: Mapping[str, Any]) -> Told | None:  # Any JSON.
    try:
        return Told(
            group=_text(document, "group"),
            client_id=_text(document, "client"),
            mode=_text(document, "mode") if "mode" in document else "",
            topic=_text(record, "topic"),
            queue=_number(record, "queue", -1, _NUMBER_MAX),
            queue_offset=_number(record, "offset", -1, _NUMBER_MAX),
            attempt=_number(record, "attempt", 0, _NUMBER_MAX),
            started_ms=_number(record, "started_ms", 0, _TIME_MS_MAX),
            ended_ms=_number(record, "ended_ms", 0, _TIME_MS_MAX),
            result=_text(record, "result"),
            error=_text(record, "error") if "error" in record else "",
        )
    except ValueError:
        return None


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise ValueError(name)
    # Half a character can come out of an escape in JSON, and no encoding has it.
    return value[:_TEXT_CHARACTERS_MAX].encode(errors="replace").decode()


def _number(said: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = said.get(name)
    if type(value) is not int or not low <= value <= high:
        raise ValueError(name)
    return value
