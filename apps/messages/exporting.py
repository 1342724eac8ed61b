"""What a search finds as a file, streamed page by page. Knows searches and two formats.

Nothing is held but one page. The last line says where the file ends before the search does.
"""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from apps.core.attachments import attachment
from apps.core.lines import Format, Line, csv_row, formats, json_line
from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.engine.errors import EngineError
from apps.engine.limits import MIB, SEARCH_MESSAGES_MAX
from apps.messages.seen import Seen
from apps.messages.selectors import Found, Wanted, find

MESSAGES_MAX = 10_000
BYTES_MAX = 64 * MIB
# A condition that few messages meet is looked for in so many steps.
_PAGES_MAX = 400

_COLUMNS = (
    "topic", "queue", "offset", "message_id", "tag", "keys", "stored_at", "born_time_ms",
    "attempt", "origin_topic", "origin_message_id", "body", "body_base64", "properties",
)  # fmt: skip


def answer(kind: Format, wanted: Wanted) -> StreamingHttpResponse:
    """Return an answer that streams what a search finds, the newest first."""
    name = f"messages-{wanted.topic.replace('%', '_').replace('|', '_') or 'all'}.{kind.ending}"
    return attachment(_pieces(kind, wanted), media_type=kind.media_type, name=name)


async def _pieces(kind: Format, wanted: Wanted) -> AsyncIterator[str]:
    yield kind.head
    count, size_bytes, why = 0, 0, ""
    is_incomplete = False
    before = wanted.before
    for page in range(_PAGES_MAX):
        step = min(SEARCH_MESSAGES_MAX, MESSAGES_MAX - count)
        asked = replace(wanted, before=before, messages_max=step)
        try:
            found: Found = await sync_to_async(partial(find, asked), thread_sensitive=False)()
        except EngineError as error:
            why = f"the broker could not be asked further: {error}"
            break
        for one in found.messages:
            size_bytes += one.record.size_bytes
            yield kind.written(_line(one))
        count += len(found.messages)
        is_incomplete = is_incomplete or (found.scan_incomplete and found.next_before is None)
        before = found.next_before
        if before is None:
            why = "there is more, which only a narrower search finds" if found.truncated else ""
            break
        if count >= MESSAGES_MAX or size_bytes >= BYTES_MAX:
            why = f"a file holds {MESSAGES_MAX} messages or {BYTES_MAX // MIB} MiB"
            break
        if page == _PAGES_MAX - 1:
            why = "the search took too many steps"
    yield kind.last(
        {
            "count": count,
            "is_cut": bool(why),
            "why": why,
            "scan_incomplete": is_incomplete,
            "next_cursor": None if before is None else str(before),
        }
    )


def _line(seen: Seen) -> Line:
    record, origin = seen.record, seen.origin
    is_copy = seen.group is not None
    try:
        text, encoded = record.body.decode(), None
    except UnicodeDecodeError:
        text, encoded = None, base64.b64encode(record.body).decode()
    return {
        "topic": record.topic,
        "queue": record.queue,
        "offset": str(record.queue_offset),
        "message_id": seen.message_id,
        "tag": seen.tag or None,
        "keys": seen.keys,
        "stored_at": rfc3339(moment(record.store_time_ms)),
        "born_time_ms": str(record.born_time_ms),
        "attempt": record.reconsume_times,
        "origin_topic": origin.topic if is_copy else None,
        "origin_message_id": origin.message_id if is_copy else None,
        "body": text,
        "body_base64": encoded,
        "properties": dict(seen.properties),
    }


def _cells(line: Line) -> Line:
    return {
        **line,
        "keys": " ".join(map(str, _list(line["keys"]))),
        "properties": json.dumps(line["properties"], ensure_ascii=False),
    }


def _end_as_json(end: Line) -> str:
    return json_line({"end": dict(end)})


def _end_as_csv(end: Line) -> str:
    """Return a last row where the file is not all there is; a spreadsheet shows it at the end."""
    if not (end["is_cut"] or end["scan_incomplete"]):
        return ""
    why = end["why"] or "the search did not look everywhere"
    return csv_row([f"# not all: {why}"] + [None] * (len(_COLUMNS) - 1))


def _list(found: object) -> list[object]:
    return found if isinstance(found, list) else []


FORMATS = formats(_COLUMNS, cells=_cells, last_as_json=_end_as_json, last_as_csv=_end_as_csv)
