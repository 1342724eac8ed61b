"""Entries as a file, streamed portion by portion. Knows rows and two formats.

Nothing is held but one portion, and no cursor of the database stays open while a reader is slow.
That somebody took the log away is an entry itself.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from apps.audit.documents import rendered_entry
from apps.audit.models import AuditEntry
from apps.core.attachments import attachment
from apps.core.lines import Format, Line, formats

ROWS_MAX = 10_000_000
_ROWS_PER_PORTION = 1_000

_COLUMNS = (
    "number", "at", "by", "door", "address", "agent", "request_id", "act", "kind", "name",
    "reason", "before", "after", "result", "code", "detail", "follows", "count", "previous_hash",
    "hash",
)  # fmt: skip


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


def _cells(line: Line) -> Line:
    return {name: _cell(line[name]) for name in _COLUMNS}


def _cell(value: object) -> object:
    whole = isinstance(value, Mapping | list)
    return json.dumps(value, ensure_ascii=False) if whole else value


FORMATS = formats(_COLUMNS, cells=_cells)
