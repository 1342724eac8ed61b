"""What members may ask, and what follows from their coming and going. Waits for nothing.

Knows members, assignments and locks, and brings them together: a client that leaves gives its
queues to the others, one that is silent for too long loses them.
"""

from collections.abc import Iterable

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.assigned import AssignmentTable, Queues
from apps.engine.broker.assignment import Assigner
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.members import Member, Members, conflicts
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.operatorstate import OperatorState
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.sessions import Sessions
from apps.engine.errors import InvalidArgument
from apps.engine.filters.subscription import compile_filter
from apps.engine.grouptypes import (
    HeartbeatRequest,
    HeartbeatResult,
    MemberState,
    Rebalance,
    Subscription,
)
from apps.engine.limits import (
    BLOCKED_HEADS_MAX,
    MEMBER_CHARACTERS_MAX,
    SITE_CHARACTERS_MAX,
    SUBSCRIPTIONS_MAX,
    WAIT_MS_MAX,
)
from apps.engine.types import MessageModel

LEAVE = "leave"
EXPIRY = "expiry"
RECOVERY = "recovery"

_REASON_CHARACTERS_MAX = 200


class Membership:
    """The verbs of groups at work, without waiting."""

    def __init__(
        self,
        *,
        members: Members,
        table: AssignmentTable,
        assigner: Assigner,
        locks: QueueLocks,
        access: AccessLocks,
        sessions: Sessions,
        catalog: Catalog,
        fences: Fences,
        operators: OperatorState,
        heartbeat_ms: int,
    ) -> None:
        """Take back the members that the assignments in force name."""
        self._members = members
        self._table = table
        self._assigner = assigner
        self._locks = locks
        self._access = access
        self._sessions = sessions
        self._catalog = catalog
        self._fences = fences
        self._operators = operators
        self._heartbeat_ms = heartbeat_ms
        for assignment in table.all():
            for member in assignment.members:
                members.restore(member)

    def heartbeat(self, request: HeartbeatRequest) -> Member:
        """Take a heartbeat and share out the queues again where it changes something.

        Raises InvalidName, InvalidArgument, InvalidFilter, UnknownTopic, NotPermitted, Overloaded
        or StoreFull. After the last one the client is a member, and what it gets is decided later.
        One that was on its way when its client left changes nothing.
        """
        self._check(request)
        late = self._members.late(request)
        if late is not None:
            return late
        reason = self._members.see(request)
        self._sessions.see(request.group, request.client_id, _topics(request))
        if reason is not None:
            self._assigner.note(request.group, reason)
        self._assigner.share_out(request.group, at_once=False)
        generation, _ = self._assigner.share(request.group, request.client_id)
        if generation < request.generation < self._fences.first:
            # A power cut took back an assignment that was answered. Generations only grow, so
            # the one from before it needs a higher number.
            self._assigner.renew(request.group, RECOVERY)
        member = self._members.find(request.group, request.client_id)
        assert member is not None
        return member

    def answer(self, member: Member, known: int = 0) -> HeartbeatResult:
        """Return what a member has now; nothing, once it is a member no more.

        `known` is the generation it was told last, 0 for none. Where a queue of its was given a
        fence since, it is first told that it has lost the queue, under the fence itself, and with
        its next heartbeat that it has it: so it begins anew there, whatever it had read. A
        suspended queue is nobody's to read.
        """
        generation, queues = self._assigner.share(member.group, member.client_id)
        if member.is_gone:
            # The group may be gone with it, and with the group its generation.
            generation, queues = max(generation, member.generation), {}
        elif member.model is MessageModel.CLUSTERING:
            generation, queues = self._told(member.group, generation, queues, known)
        return HeartbeatResult(
            generation=generation,
            assignment=queues,
            heartbeat_ms=self._heartbeat_ms,
            retry_max=self._catalog.group(member.group).retry_max,
        )

    def _told(self, group: str, generation: int, queues: Queues, known: int) -> tuple[int, Queues]:
        """Return what a member is told of what it has."""
        suspended = self._operators.suspensions
        fences: list[int] = []
        told: dict[str, tuple[int, ...]] = {}
        for topic, numbers in queues.items():
            kept = []
            for number in numbers:
                mark = self._operators.mark(group, topic, number)
                if mark is not None and 0 < known < mark.fence:
                    fences.append(mark.fence)
                elif (group, topic, number) not in suspended:
                    kept.append(number)
            if kept:
                told[topic] = tuple(kept)
        return max(fences, default=generation), told

    def has_news(self, member: Member, generation: int) -> bool:
        """Say whether a member that knows a generation has anything to be told."""
        if member.is_gone or not self._catalog.group(member.group).enabled:
            return True
        return self._assigner.share(member.group, member.client_id)[0] != generation

    def leave(self, group: str, client_id: str) -> None:
        """Forget a member, release its locks and share out its queues.

        Raises InvalidName, InvalidArgument or StoreFull.
        """
        check_group_name(group)
        check_client_id(client_id)
        if self._members.leave(group, client_id):
            self._assigner.note(group, LEAVE)
        self._access.leave(group, client_id)
        self._locks.release_all(group, client_id, reason=LEAVE)
        self._assigner.share_out(group, at_once=False)

    def look(self) -> None:
        """Forget silent members, and share out what waited for its time. Raises StoreFull."""
        expired = self._members.expire()
        for member in expired:
            # Its locks stay until their leases end: it may be paused, and believe in them.
            self._access.leave(member.group, member.client_id)
            self._assigner.note(member.group, EXPIRY)
        for group in {member.group for member in expired}:
            self._assigner.share_out(group, at_once=False)
        self._assigner.share_out_due()

    def next_look_ms(self) -> int | None:
        """Return when `look` may have something to do, on the monotonic clock."""
        times = (self._members.next_look_ms(), self._assigner.next_due_ms())
        return min((time for time in times if time is not None), default=None)

    def rebalance(self, *, reason: str, group: str | None = None) -> None:
        """Forget silent members and look at one group or all.

        Raises InvalidArgument or StoreFull.
        """
        if not 1 <= len(reason) <= _REASON_CHARACTERS_MAX or not reason.isprintable():
            raise InvalidArgument(f"a reason is 1 to {_REASON_CHARACTERS_MAX} characters")
        self.look()
        for name in self._names() if group is None else [group]:
            self._assigner.share_out(name, reason)

    def catalog_changed(self) -> None:
        """Share out anew what the catalog has changed for groups that have members."""
        for group in self._names():
            self._assigner.share_out(group)

    def states(self, group: str | None = None) -> list[MemberState]:
        """Return the members of one group or all, by group and client id."""
        names = sorted(self._names()) if group is None else [group]
        return [state for name in names for state in self._states(name)]

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        """Return the assignment in force of one group or of all that have one, by group."""
        found = self._table.all() if group is None else [self._table.get(group)]
        return [assignment.line() for assignment in found if assignment is not None]

    def _names(self) -> list[str]:
        return list(self._members.groups())

    def _states(self, group: str) -> Iterable[MemberState]:
        members = self._members.of(group)
        conflicting = conflicts(members.values())
        for client_id, member in sorted(members.items()):
            yield MemberState(
                group=group,
                client_id=client_id,
                subscriptions=member.subscriptions,
                model=member.model,
                ordered=member.ordered,
                strategy=member.strategy,
                site=member.site,
                generation=member.generation,
                joined_ms=member.joined_ms,
                last_seen_ms=self._members.last_seen_ms(member),
                is_waiting=member.parked > 0,
                assignment=self._assigner.share(group, client_id)[1],
                conflicts=tuple(sorted(conflicting.get(client_id, ()))),
                blocked=member.blocked,
            )

    def _check(self, request: HeartbeatRequest) -> None:
        check_group_name(request.group)
        check_client_id(request.client_id)
        if not request.client_id:
            raise InvalidArgument("a member has a client_id")
        self._catalog.usable_group(request.group)
        if not 0 <= request.wait_ms <= WAIT_MS_MAX:
            raise InvalidArgument(f"wait_ms must be 0 to {WAIT_MS_MAX}, not {request.wait_ms}")
        if request.generation < 0:
            raise InvalidArgument("a generation is 0 or more")
        if len(request.site) > SITE_CHARACTERS_MAX or not request.site.isprintable():
            raise InvalidArgument(f"site is at most {SITE_CHARACTERS_MAX} printable characters")
        if len(request.blocked) > BLOCKED_HEADS_MAX:
            raise InvalidArgument(f"at most {BLOCKED_HEADS_MAX} queues can be blocked")
        self._check_subscriptions(request)

    def _check_subscriptions(self, request: HeartbeatRequest) -> None:
        """Check what the client did not want before: a topic that is gone puts no member out."""
        member = self._members.find(request.group, request.client_id)
        known = () if member is None else member.subscriptions
        if request.subscriptions == known:
            return
        if len(request.subscriptions) > SUBSCRIPTIONS_MAX:
            raise InvalidArgument(f"a member has at most {SUBSCRIPTIONS_MAX} subscriptions")
        if len(_topics(request)) != len(request.subscriptions):
            raise InvalidArgument("a member has one subscription a topic")
        if sum(map(_characters, request.subscriptions)) > MEMBER_CHARACTERS_MAX:
            raise InvalidArgument(f"subscriptions are over {MEMBER_CHARACTERS_MAX} characters")
        for wanted in set(request.subscriptions) - set(known):
            self._catalog.readable(wanted.topic)
            compile_filter(wanted.filter, wanted.filter_type)


def _topics(request: HeartbeatRequest) -> tuple[str, ...]:
    return tuple(sorted({wanted.topic for wanted in request.subscriptions}))


def _characters(wanted: Subscription) -> int:
    return len(wanted.topic) + len(wanted.filter)
