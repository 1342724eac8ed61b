"""What a search of messages asks for and finds. Knows values only."""

from dataclasses import dataclass

from apps.engine.types import MessageBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """Messages of a topic that are all of what is given; None asks for nothing.

    `key` is one of a message's keys. `message_id` is the id a message shows; `offset_id` is
    RocketMQ's, which names the place of a message in the log. Times are store times, wall ms: from
    `from_ms` on, below `to_ms`. A `queue_offset` needs the `queue`. `condition` is a filter of the
    language SQL92 on properties. With `before` only messages are meant that lie before this place
    of the log. The newest messages come first, up to `messages_max`, and no more than the first of
    them that fit `bytes_max`.
    """

    topic: str
    key: str | None = None
    message_id: str | None = None
    offset_id: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    queue: int | None = None
    queue_offset: int | None = None
    condition: str | None = None
    before: int | None = None
    messages_max: int = 32
    bytes_max: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found, the newest message first, a block each.

    `truncated` says that there is more of it than was asked for. `scan_incomplete` says that the
    search ended before it had looked everywhere: what it might have found is not there. The same
    search with `before` at `next_before` goes on from there; None where there is nothing more, or
    where only a narrower search finds it.
    """

    blocks: tuple[MessageBlock, ...]
    truncated: bool
    scan_incomplete: bool
    next_before: int | None = None
