"""Values of lite topics: who is subscribed to which, and what there are. Knows no files or door."""

from dataclasses import dataclass
from enum import StrEnum

from apps.engine.types import ConsumeFrom, LiteModel

__all__ = [
    "LiteAction", "LiteBacklog", "LiteModel", "LitePage", "LiteSubscription", "LiteSync",
    "LiteSynced", "LiteTopic", "LiteTotal",
]  # fmt: skip


class LiteAction(StrEnum):
    """What a client says of its set of lite topics; RocketMQ's names are in the comments."""

    ADD = "add"  # PARTIAL_ADD
    REMOVE = "remove"  # PARTIAL_REMOVE
    REPLACE = "replace"  # COMPLETE_ADD
    CLEAR = "clear"  # COMPLETE_REMOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSync:
    """A client's set of lite topics of the parent `topic` changes, or is said once more.

    `begin` is where the group begins in a lite topic that it has no progress in. Without it an
    ADD begins as the group says; a REPLACE, which tells again what a broker may have forgotten,
    at the first message. `begin_ms` goes with TIMESTAMP, wall time. In the place of `begin` it may
    be at `begin_offset`, or have the last `begin_tail` messages before it; both end at what is
    there. A CLEAR has no names.
    """

    group: str
    client_id: str
    topic: str
    action: LiteAction
    names: tuple[str, ...] = ()
    begin: ConsumeFrom | None = None
    begin_ms: int | None = None
    begin_offset: int | None = None
    begin_tail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSynced:
    """What became of it: how many lite topics the client has now.

    `evicted` are client ids and names of those who lost theirs, in a group that is EXCLUSIVE: to
    this client; and the client itself, where it says again what it had lost to another.
    """

    count: int
    evicted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteTopic:
    """A lite topic by its name; `topic` is what all that reads topics calls it.

    `last_ms` is the wall time its newest message was stored at, None where that is not known yet.
    `subscribers` counts clients of all groups.
    """

    name: str
    topic: str
    min_offset: int
    max_offset: int
    last_ms: int | None
    subscribers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePage:
    """Some lite topics of a parent by name, and how many it has in all."""

    total: int
    topics: tuple[LiteTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteTotal:
    """All lite topics of a parent in sum: messages that `came` since the store was opened.

    `held` can still be read.
    """

    came: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSubscription:
    """A client of a group and its `count` lite topics of `topic`; the first 100 by name.

    `seen_ms` is the wall time at which it was there last; one that waits for messages is now.
    `lag` is how many messages of all of them the group has not settled yet, None where that was too
    much to count: of clients that share a lite topic each has it.
    """

    client_id: str
    topic: str
    names: tuple[str, ...]
    count: int
    seen_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteBacklog:
    """What a group has left to do in all lite topics of the parent `topic`.

    `lag` messages, in `topics_behind` of them; `in_flight` are handed out, and `ready` are with
    nobody. `oldest_age_ms` is the age of the oldest of them, None without one. `arrived` grows by
    one with each message of any of them, and begins at some number when the store is opened. What
    is not known is None, never 0: a group that is new to the parent is counted within some answers.
    """

    group: str
    topic: str
    arrived: int
    lag: int | None
    topics_behind: int | None
    in_flight: int | None
    ready: int | None
    oldest_age_ms: int | None

    @property
    def passed(self) -> int | None:
        """Return how many of those that `arrived` the group is done with."""
        return None if self.lag is None else self.arrived - self.lag
