"""Values of retention that cross the engine's border. Knows no files, clock or door."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionBlock:
    """Somebody who still needs a part of the log that would be deleted otherwise.

    `holder` names the part of the engine, `topic <name>` or `reader <owner>`; it needs the log from
    `log_offset` on, which keeps `size_bytes` that are due. `since_ms` is the wall time it was first
    seen.
    """

    holder: str
    log_offset: int
    size_bytes: int
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStatus:
    """What the log holds and what keeps it; counts are since the engine was opened.

    `oldest_ms` is when the first message that is kept was stored, wall time; None without any.
    `disk_used` is the share of the disk that is used, 0 to 1, by whoever.
    """

    log_bytes: int
    oldest_ms: int | None
    disk_used: float
    deleted_segments: int = 0
    deleted_bytes: int = 0
    lost_messages: int = 0
    """Messages that were deleted before a group had settled them, a time for each such group."""
    blocked_by: tuple[RetentionBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What one cleaning did: where the log starts now, and what that freed.

    `more` says that more may go at once: ask again.
    """

    log_start: int
    deleted_segments: int
    deleted_bytes: int
    more: bool = False
    blocked_by: tuple[RetentionBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """What compaction has done since the engine was opened.

    Messages and bytes are counted a time for each round they went through: before it, and after.
    `damaged` counts places of kept messages that are not what was written.
    """

    rounds: int = 0
    failed_rounds: int = 0
    messages_before: int = 0
    messages_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    damaged: int = 0
