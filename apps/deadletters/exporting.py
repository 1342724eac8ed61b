"""Dead letters as a file, streamed portion by portion. Knows rows, bodies and two formats.

Nothing is held but one portion, and no cursor of the database stays open while a reader is slow.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from apps.core.attachments import attachment
from apps.core.lines import Format, Line, formats
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.deadletters.attempts import attempts_of
from apps.deadletters.models import DeadLetter
from apps.deadletters.selectors import Body, bodies

ROWS_MAX = 10_000_000
_ROWS_PER_PORTION = 500
_BYTES_PER_PORTION = 8 * 1024 * 1024

_COLUMNS = (
    "id", "group", "offset", "state", "origin_topic", "origin_queue", "origin_offset",
    "message_id", "keys", "tag", "attempts", "reason", "first_failed_at", "dead_at", "body",
    "body_base64",
)  # fmt: skip


def answer(
    kind: Format, letters: QuerySet[DeadLetter], *, group: str, rows_max: int | None
) -> StreamingHttpResponse:
    """Return an answer that streams letters, the oldest first, with their bodies.

    The file breaks off where the engine or the database goes away meanwhile.
    """
    name = f"dead-letters-{group.replace('%', '_').replace('|', '_')}.{kind.ending}"
    pieces = _portions(kind, letters.order_by("pk"), rows_max)
    return attachment(pieces, media_type=kind.media_type, name=name)


async def _portions(
    kind: Format, letters: QuerySet[DeadLetter], rows_max: int | None
) -> AsyncIterator[str]:
    yield kind.head
    last, left = 0, ROWS_MAX if rows_max is None else rows_max
    while left:
        read = partial(_portion, letters.filter(pk__gt=last), rows_max=left)
        rows, found = await sync_to_async(read, thread_sensitive=False)()
        if not rows:
            return
        yield "".join(kind.written(_line(row, found.get(row.pk))) for row in rows)
        last, left = rows[-1].pk, left - len(rows)


def _portion(
    letters: QuerySet[DeadLetter], *, rows_max: int
) -> tuple[Sequence[DeadLetter], Mapping[int, Body]]:
    """Read some rows and their bodies, in a thread that keeps no connection."""
    try:
        rows = list(letters[: min(_ROWS_PER_PORTION, rows_max)])
    finally:
        connection.close()
    fitting, size = 0, 0
    for row in rows:
        size += row.size_bytes
        fitting += size <= _BYTES_PER_PORTION
    rows = rows[: max(1, fitting)]
    return rows, bodies(rows) if rows else {}


def _line(letter: DeadLetter, body: Body | None) -> Line:
    text = None if body is None else body.text
    first = letter.first_failed_at
    return {
        "id": str(letter.pk),
        "group": letter.group,
        "offset": str(letter.queue_offset),
        "state": letter.state,
        "origin_topic": letter.origin_topic or None,
        "origin_queue": letter.origin_queue,
        "origin_offset": None if letter.origin_offset is None else str(letter.origin_offset),
        "message_id": letter.message_id,
        "keys": letter.keys.split(),
        "tag": letter.tag or None,
        "attempts": attempts_of(letter),
        "reason": letter.reason,
        "first_failed_at": rfc3339_or_none(first),
        "dead_at": rfc3339(letter.dead_at),
        "body": text,
        "body_base64": body.base64 if body is not None and text is None else None,
        "properties": None if body is None else dict(body.properties),
    }


def _cells(line: Line) -> Line:
    return {
        **line,
        "keys": " ".join(map(str, _values(line["keys"]))),
        "attempts": len(_values(line["attempts"])),
    }


def _values(found: object) -> Sequence[object]:
    return found if isinstance(found, list) else ()


FORMATS = formats(_COLUMNS, cells=_cells)
