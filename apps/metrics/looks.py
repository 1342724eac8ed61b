"""What of a moment costs the engine more to say: ages, blocked queues, members, refusals. Pure.

A row of the backlog costs the engine's loop 13 us, so a large store is looked at less often.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.engine.grouptypes import MemberState, QueueBacklog
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import ClientSeen, QueueRange
from apps.groups.blocked import blocked_queues
from apps.groups.retrytopics import group_of

# So many rows hold the loop for 50 ms; one percent of the time between two samples.
ROWS_PER_SLOT = 4_000
# A look that is older says nothing of now.
LOOK_KEPT_MS = 120_000

GroupKey = tuple[str, str]
"""Group and topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOfGroup:
    """What was seen of a group in one topic; a None age is not known."""

    oldest_age_ms: int | None
    blocked: int
    members: int
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of all groups. Dead letters are those in the log, by group."""

    ages_ms: Mapping[GroupKey, int] = field(default_factory=dict)
    blocked: Mapping[GroupKey, int] = field(default_factory=dict)
    refusals: Mapping[GroupKey, int] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """By group, the topics each of its members wants."""
    ordered: frozenset[str] = frozenset()
    dead_letters: Mapping[str, int] = field(default_factory=dict)

    def of(self, key: GroupKey, *, lag: int | None) -> LookOfGroup:
        """Return what was seen of a group in a topic that is `lag` messages behind there."""
        group, topic = key
        return LookOfGroup(
            oldest_age_ms=0 if lag == 0 else self.ages_ms.get(key),
            blocked=self.blocked.get(key, 0),
            members=self.members(group)
            if group_of(topic) == group
            else sum(topic in wanted for wanted in self.topics.get(group, {}).values()),
            refusals=self.refusals.get(key, 0),
        )

    def members(self, group: str) -> int:
        """Return how many members a group has, whatever they want."""
        return len(self.topics.get(group, {}))


def is_due(*, slot_ms: int, slot_length_ms: int, rows: int) -> bool:
    """Say whether a slot of samples has a look, in a store with so many rows."""
    every = max(1, -(-rows // ROWS_PER_SLOT))
    return slot_ms // slot_length_ms % every == 0


def look_of(
    *,
    backlog: Sequence[QueueBacklog],
    members: Sequence[MemberState],
    clients: Iterable[ClientSeen],
    dead_letters: Mapping[str, Sequence[QueueRange]],
    now_ms: int,
    lites: Iterable[LiteBacklog] = (),
) -> Look:
    """Sum up what the engine said by group and topic; `dead_letters` is by group."""
    ages_ms: dict[GroupKey, int] = {
        (row.group, row.topic): row.oldest_age_ms for row in lites if row.oldest_age_ms is not None
    }
    refusals: Counter[GroupKey] = Counter()
    for row in backlog:
        key = row.group, row.topic
        if row.oldest_age_ms is not None:
            ages_ms[key] = max(row.oldest_age_ms, ages_ms.get(key, 0))
        refusals[key] += row.refusals
    topics: dict[str, dict[str, frozenset[str]]] = {}
    for client in clients:
        topics.setdefault(client.group, {})[client.client_id] = frozenset(client.topics)
    for member in members:
        wanted = topics.setdefault(member.group, {})
        mine = frozenset(subscription.topic for subscription in member.subscriptions)
        wanted[member.client_id] = mine | wanted.get(member.client_id, frozenset())
    return Look(
        ages_ms=ages_ms,
        blocked=Counter(
            (queue.group, queue.topic) for queue in blocked_queues(backlog, members, now_ms=now_ms)
        ),
        refusals=refusals,
        topics=topics,
        ordered=frozenset(member.group for member in members if member.ordered),
        dead_letters={
            group: sum(found.held for found in ranges) for group, ranges in dead_letters.items()
        },
    )
