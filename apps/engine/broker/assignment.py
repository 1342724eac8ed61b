"""Keep the assignment of every group up to date. Knows when to look; what it is to be is apart.

The broker does it, at once when something changes and for all members alike; RocketMQ's clients
each compute it for themselves. A generation names one sharing out. Where nothing changes there is
no new one, so looking again costs next to nothing.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from apps.engine.broker.assigned import AssignmentTable, Queues, encode
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.journal import Assigned, Event
from apps.engine.broker.members import Member, Members
from apps.engine.broker.shareout import Outcome, Terms, count_moved, share_out, terms_of
from apps.engine.caretypes import WhatIf, WhatIfRequest
from apps.engine.clock import Clock
from apps.engine.errors import InvalidArgument
from apps.engine.grouptypes import Subscription
from apps.engine.limits import GROUP_MEMBERS_MAX
from apps.engine.types import CatalogSnapshot, MessageModel

# What of the catalog may change an assignment, as its history names it.
QUEUE_COUNT = "queue_count"
STRATEGY = "strategy"

# Every new generation makes every member ask again. A group of many members that start together
# would ask the square of their number; it gets a new generation at most this often instead. One
# costs 75 us a member, so the largest groups keep the loop busy for a seventh of the time.
_MANY_MEMBERS = 32
_PAUSE_MS_MIN = 100
_PAUSE_MS_PER_MEMBER = 0.5


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What was known when a group was last looked at."""

    version: int
    snapshot: CatalogSnapshot
    topics: frozenset[str]
    terms: Terms


class Assigner:
    """Keeps the table of assignments up to date."""

    def __init__(
        self,
        table: AssignmentTable,
        record: Callable[[Event], int],
        *,
        members: Members,
        catalog: Catalog,
        fences: Fences,
        clock: Clock,
        broker_name: str,
    ) -> None:
        """Take the assignments in the table as they are: what they rest on has not changed."""
        self._table = table
        self._record = record
        self._members = members
        self._catalog = catalog
        self._fences = fences
        self._clock = clock
        self._broker_name = broker_name
        self._seen: dict[str, _Seen] = {}
        self._reasons: dict[str, str] = {}
        # When a group may have its next generation, on the monotonic clock.
        self._pauses: dict[str, int] = {}

    def note(self, group: str, reason: str) -> None:
        """Remember why the next assignment of a group will differ; the first reason stays."""
        self._reasons.setdefault(group, reason)

    def share_out(self, group: str, reason: str = "", *, at_once: bool = True) -> None:
        """Give a group a new assignment if anything changed.

        `reason` is why, unless one was noted; without one, it is what the catalog has changed.
        Unless it must be `at_once`, a group of many members may be left for `share_out_due`.
        Raises StoreFull, and the old one stays in force.
        """
        if self._is_seen(group):
            self._reasons.pop(group, None)
            return
        now_ms = self._clock.monotonic_ms()
        if not at_once and self._pauses.get(group, now_ms) > now_ms:
            self.note(group, reason)
            return
        self._look(group, reason, is_forced=False)

    def renew(self, group: str, reason: str) -> None:
        """Give a group a new generation, whether or not anything changed."""
        self._look(group, reason, is_forced=True)

    def telling(self, group: str, reason: str) -> list[Event]:
        """Return the event that has the members of a group ask again, by a new generation.

        It is for whoever has something to record that they must be told; none without members.
        """
        if self._table.get(group) is None:
            return []
        members, _, outcome = self._outcome(group)
        return [self._event(group, members, outcome, reason)]

    def what_if(self, request: WhatIfRequest, topics: Collection[str]) -> WhatIf:
        """Return how a group's queues would be shared out; see WhatIfRequest. Changes nothing.

        Without a member they are those of `topics`. Raises InvalidArgument.
        """
        now = sorted(
            (m for m in self._members.of(request.group).values() if _is_sharing(m)),
            key=lambda member: member.client_id,
        )
        members, added = _imagined(request, now, topics)
        names = frozenset(wanted.topic for member in members for wanted in member.subscriptions)
        terms = self._terms(request.group, names)
        if request.strategy is not None:
            settings = replace(terms.settings, strategy=request.strategy)
            terms = replace(terms, settings=settings)
        outcome = share_out(members, terms, broker_name=self._broker_name)
        before = self._table.get(request.group)
        return WhatIf(
            strategy=outcome.strategy,
            assignment=outcome.queues,
            before={} if before is None else before.queues,
            added=tuple(added),
            idle=tuple(
                sorted(name for name, got in outcome.queues.items() if not any(got.values()))
            ),
            queues_moved=count_moved({} if before is None else before.owners, outcome.owners),
        )

    def share_out_due(self) -> None:
        """Give those groups their assignment that had to wait for it."""
        now_ms = self._clock.monotonic_ms()
        for group in [name for name, due_ms in self._pauses.items() if due_ms <= now_ms]:
            del self._pauses[group]
            if group in self._reasons:
                self.share_out(group, self._reasons[group])

    def next_due_ms(self) -> int | None:
        """Return when `share_out_due` has something to do, on the monotonic clock."""
        return min(
            (due for group, due in self._pauses.items() if group in self._reasons), default=None
        )

    def owner(self, group: str, topic: str, queue: int) -> str | None:
        """Return whose a queue is; empty where it is nobody's.

        None where the group does not share out the topic.
        """
        assignment = self._table.get(group)
        owners = None if assignment is None else assignment.owners.get(topic)
        if owners is None:
            return None
        return owners[queue] if queue < len(owners) else ""

    def share(self, group: str, client_id: str) -> tuple[int, Queues]:
        """Return the group's generation, 0 without one, and the queues of a client by topic."""
        assignment = self._table.get(group)
        if assignment is None:
            return 0, {}
        return assignment.event.generation, assignment.queues.get(client_id, {})

    def _is_seen(self, group: str) -> bool:
        seen = self._seen.get(group)
        version = self._members.version(group)
        if seen is None:
            return version == 0 and self._table.get(group) is None
        if seen.version != version:
            return False
        snapshot = self._catalog.snapshot
        if seen.snapshot is not snapshot and self._terms(group, seen.topics) != seen.terms:
            return False
        seen.snapshot = snapshot
        return True

    def _look(self, group: str, reason: str, *, is_forced: bool) -> None:
        """Compute what the assignment is to be, and record it where it is not that yet."""
        members, (topics, terms), outcome = self._outcome(group)
        if is_forced or self._is_new(group, members, outcome):
            reason = self._reasons.get(group) or reason or self._why(group, terms)
            self._record(self._event(group, members, outcome, reason))
            if len(members) > _MANY_MEMBERS:
                pause_ms = max(_PAUSE_MS_MIN, int(len(members) * _PAUSE_MS_PER_MEMBER))
                self._pauses[group] = self._clock.monotonic_ms() + pause_ms
        self._reasons.pop(group, None)
        self._remember(group, topics, terms)

    def _is_new(self, group: str, members: Sequence[Member], outcome: Outcome) -> bool:
        before = self._table.get(group)
        if before is None or not members:
            return (before is None) != (not members)
        known = (before.strategy, before.queues, before.owners)
        if known != (outcome.strategy, outcome.queues, outcome.owners):
            return True
        # A restart must find what each member wants, also where it gets the same as before.
        return _wishes(before.members) != _wishes(members)

    def _why(self, group: str, terms: Terms) -> str:
        seen = self._seen.get(group)
        return STRATEGY if seen and seen.terms.settings != terms.settings else QUEUE_COUNT

    def _outcome(self, group: str) -> tuple[list[Member], tuple[frozenset[str], Terms], Outcome]:
        """Return the members of a group, what they depend on, and what each is to have."""
        members = sorted(self._members.of(group).values(), key=lambda member: member.client_id)
        topics = frozenset(wanted.topic for member in members for wanted in member.subscriptions)
        terms = self._terms(group, topics)
        outcome = share_out(members, terms, broker_name=self._broker_name)
        return members, (topics, terms), outcome

    def _event(
        self, group: str, members: Sequence[Member], outcome: Outcome, reason: str
    ) -> Assigned:
        before = self._table.get(group)
        moved = count_moved({} if before is None else before.owners, outcome.owners)
        return Assigned(
            group=group,
            generation=self._fences.next(),
            reason=reason,
            strategy=outcome.strategy,
            content=encode(members, outcome.queues, shared=outcome.shared, queues_moved=moved),
        )

    def _remember(self, group: str, topics: frozenset[str], terms: Terms) -> None:
        version = self._members.version(group)
        if version == 0:
            self._seen.pop(group, None)
            self._pauses.pop(group, None)
            return
        self._seen[group] = _Seen(
            version=version, snapshot=self._catalog.snapshot, topics=topics, terms=terms
        )

    def _terms(self, group: str, topics: frozenset[str]) -> Terms:
        return terms_of(self._catalog.group(group), topics, self._catalog.snapshot)


def _imagined(
    request: WhatIfRequest, now: Sequence[Member], topics: Collection[str]
) -> tuple[list[Member], list[str]]:
    """Return as many members as are asked for, and which of them there are not."""
    count = len(now) if request.member_count is None else request.member_count
    if not 0 <= count <= GROUP_MEMBERS_MAX:
        raise InvalidArgument(f"member_count must be 0 to {GROUP_MEMBERS_MAX}, not {count}")
    model = (
        now[0]
        if now
        else Member(
            group=request.group,
            client_id="",
            joined_ms=0,
            subscriptions=tuple(Subscription(topic=topic) for topic in sorted(topics)),
        )
    )
    taken = {member.client_id for member in now}
    names = (f"~{number}" for number in range(1, GROUP_MEMBERS_MAX * 2))
    free = (name for name in names if name not in taken)
    added = [next(free) for _ in range(count - len(now))]
    new = [replace(model, client_id=name, generation=0) for name in added]
    return [*now[:count], *new], added


def _is_sharing(member: Member) -> bool:
    return member.model is MessageModel.CLUSTERING


def _wishes(members: Sequence[Member]) -> dict[str, tuple[object, ...]]:
    return {member.client_id: member.wants() for member in members}
