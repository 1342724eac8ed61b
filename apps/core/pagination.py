"""Cursor paging over values in order. The cursor is opaque to callers and names the last item."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from django.http import QueryDict
from django.utils import timezone
from rest_framework.exceptions import ValidationError

Item = TypeVar("Item")

ITEMS_DEFAULT = 100
# A page is built in memory; a thousand rows keep an answer under a few hundred kilobytes.
ITEMS_MAX = 1000
# A larger one has no column to be compared with.
ROW_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """At most `items_max` items whose key comes after `after`; an empty `after` means the start."""

    after: str
    items_max: int


def page_request(query: QueryDict) -> PageRequest:
    """Read `cursor` and `limit`; raise ValidationError where either is not what was handed out."""
    limit = query.get("limit", str(ITEMS_DEFAULT))
    # Longer digit strings are refused before int() would have to read them.
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 6):
        raise ValidationError({"limit": ["must be a positive integer"]})
    if not 1 <= int(limit) <= ITEMS_MAX:
        raise ValidationError({"limit": [f"must be from 1 to {ITEMS_MAX}"]})
    return PageRequest(after=_decoded(query.get("cursor", "")), items_max=int(limit))


def number_after(request: PageRequest, *, highest: int = ROW_MAX) -> int | None:
    """Return the number a page comes after, where items are named by numbers; None at the start.

    Raises ValidationError for a cursor of another list.
    """
    if not request.after:
        return None
    is_number = request.after.isascii() and request.after.isdigit() and len(request.after) <= 19
    if not is_number or int(request.after) > highest:
        raise ValidationError({"cursor": ["was not handed out by this server"]})
    return int(request.after)


def page_of(
    found: Sequence[Item], request: PageRequest, *, key: Callable[[Item], str]
) -> tuple[list[Item], str | None]:
    """Return the items of one page and the next cursor, None on the last page.

    `found` must hold one item more than `items_max` when there are more.
    """
    items = list(found[: request.items_max])
    has_more = len(found) > request.items_max
    return items, _encoded(key(items[-1])) if has_more else None


def cursor_at(key: str) -> str:
    """Return the cursor of a list that says by itself where it goes on."""
    return _encoded(key)


def listing(items: Sequence[object], next_cursor: str | None) -> dict[str, object]:
    """Build the body that every list answer has."""
    return {"items": list(items), "next_cursor": next_cursor, "sampled_at": sampled_at()}


def sampled_at() -> str:
    """Return the moment an answer was put together, RFC 3339 in UTC."""
    return rfc3339(timezone.now())


def rfc3339(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(moment: datetime | None) -> str | None:
    """Write a moment as `rfc3339` does; None where there was none yet."""
    return None if moment is None else rfc3339(moment)


def _encoded(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise ValidationError({"cursor": ["was not handed out by this server"]}) from error
    # PostgreSQL has no way to hold a zero character in a text.
    if "\0" in key:
        raise ValidationError({"cursor": ["was not handed out by this server"]})
    return key
