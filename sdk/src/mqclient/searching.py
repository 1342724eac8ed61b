"""What a search asks for and finds. Knows values only; the broker searches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict


class Wanted(TypedDict, total=False):
    """What messages must be to be found: all of what is given.

    `key` is one of a message's keys, `message_id` the id it shows, `offset_id` RocketMQ's id of its
    place in the log. It was stored at `from_time` or later and before `to_time`: datetimes with a
    time zone, or milliseconds since 1970 UTC. A `queue_offset` needs the `queue`.
    `condition` is a filter in SQL92 on properties. `messages_max` is 32 where it is not
    given, and 256 at most. With the `cursor` of a result the same search goes on behind it.
    """

    key: str
    message_id: str
    offset_id: str
    from_time: datetime | int
    to_time: datetime | int
    tag: str
    queue: int
    queue_offset: int
    condition: str
    messages_max: int
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message as a search shows it; times are wall times, in milliseconds."""

    topic: str
    queue: int
    queue_offset: int
    message_id: str
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
    born_time_ms: int | None = None
    store_time_ms: int
    reconsume_times: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found, the newest message first.

    `truncated` says that there is more of it than was asked for; `scan_incomplete` that the broker
    ended the search before it had looked everywhere, so that what is missing may yet be there. The
    same search with `next_cursor` goes on; None where nothing is left to look at, or where only a
    narrower search finds the rest.
    """

    messages: tuple[FoundMessage, ...]
    truncated: bool
    scan_incomplete: bool
    next_cursor: str | None = None
