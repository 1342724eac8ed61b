"""Entries as a file, streamed portion by portion. Knows rows and two formats.

Nothing is held but one portion, and no cursor of the database stays open while a reader is slow.
That somebody took the log away is an entry itself.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from apps.audit.documents import rendered_entry
from apps.audit.models import AuditEntry
from apps.core.attachments import attachment, safe_cell

ROWS_MAX = 10_000_000
_ROWS_PER_PORTION = 1_000

_COLUMNS = (
    "number", "at", "by", "door", "address", "agent", "request_id", "act", "kind", "name",
    "reason", "before", "after", "result", "code", "detail", "follows", "count", "previous_hash",
    "hash",
)  # fmt: skip

Line = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: its media type, how a file ends, what it begins with, and how a line is made."""

    media_type: str
    ending: str
    head: str
    written: Callable[[Line], str]


def answer(
    kind: Format, entries: QuerySet[AuditEntry], *, rows_max: int | None
) -> StreamingHttpResponse:
    """Return an answer that streams entries, the oldest first, as they were chained.

    The file breaks off where the database goes away meanwhile.
    """
    pieces = _portions(kind, entries.order_by("number"), rows_max)
    return attachment(pieces, media_type=kind.media_type, name=f"audit.{kind.ending}")


async def _portions(
    kind: Format, entries: QuerySet[AuditEntry], rows_max: int | None
) -> AsyncIterator[str]:
    yield kind.head
    last, left = 0, ROWS_MAX if rows_max is None else rows_max
    while left:
        read = partial(_portion, entries.filter(number__gt=last), rows_max=left)
        rows = await sync_to_async(read, thread_sensitive=False)()
        if not rows:
            return
        yield "".join(kind.written(rendered_entry(row)) for row in rows)
        last, left = rows[-1].number, left - len(rows)


def _portion(entries: QuerySet[AuditEntry], *, rows_max: int) -> Sequence[AuditEntry]:
    """Read some rows, in a thread that keeps no connection."""
    try:
        return list(entries[: min(_ROWS_PER_PORTION, rows_max)])
    finally:
        connection.close()


def _as_json(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _as_csv(line: Line) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerow([_cell(line[name]) for name in _COLUMNS])
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    whole = isinstance(value, Mapping | list)
    return safe_cell(json.dumps(value, ensure_ascii=False) if whole else str(value))


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "jsonl": Format(
            media_type="application/x-ndjson", ending="jsonl", head="", written=_as_json
        ),
        "csv": Format(
            media_type="text/csv; charset=utf-8",
            ending="csv",
            head=",".join(_COLUMNS) + "\r\n",
            written=_as_csv,
        ),
    }
)
