"""Who is a member of which group, what it wants, and until when it may be silent.

Knows clients and the monotonic clock; not which queues anybody gets, nor whether a topic exists.
All of it is in memory: an assignment in the journal names its members, and a restart takes them
from there.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from apps.engine.clock import Clock
from apps.engine.errors import EngineError, Overloaded
from apps.engine.grouptypes import BlockedHead, HeartbeatRequest, Subscription
from apps.engine.limits import GROUP_CHARACTERS_MAX
from apps.engine.types import MessageModel, Strategy

# What a heartbeat may have changed, as the history of assignments names it.
JOIN = "join"
SUBSCRIPTION = "subscription"


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One client of one group. `seen_ms` and `due_ms` are of the monotonic clock.

    At `due_ms` it is silent for too long, unless it is `parked`: has a heartbeat waiting here.
    `look_ms` is when that will be looked at, `beats` how often it was heard of.
    """

    group: str
    client_id: str
    joined_ms: int
    subscriptions: tuple[Subscription, ...] = ()
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    strategy: Strategy | None = None
    site: str = ""
    blocked: tuple[BlockedHead, ...] = ()
    generation: int = 0
    seen_ms: int = 0
    due_ms: int = 0
    look_ms: int = 0
    beats: int = 0
    parked: int = 0
    is_gone: bool = False

    def wants(self) -> tuple[object, ...]:
        """Return what its share of the queues depends on."""
        topics = tuple(sorted({wanted.topic for wanted in self.subscriptions}))
        return (topics, self.model, self.strategy, self.site)


@dataclass(slots=True, eq=False)
class _Group:
    members: dict[str, Member] = field(default_factory=dict)
    version: int = 0
    characters: int = 0


class Members:
    """Members by group and client id."""

    def __init__(
        self,
        clock: Clock,
        *,
        timeout_ms: int,
        grace_ms: int,
        members_max: int,
        group_members_max: int,
    ) -> None:
        """Know nobody.

        A client whose connection broke while it waited has only `grace_ms`, and so long its last
        heartbeat may come after it left.
        """
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._grace_ms = min(grace_ms, timeout_ms)
        self._members_max = members_max
        self._group_members_max = group_members_max
        self._groups: dict[str, _Group] = {}
        self._count = 0
        self._version = 0
        # (when to look, number, member): an entry a member, not one a heartbeat. What is found
        # before its member is due is put back for when it will be.
        self._looks: list[tuple[int, int, Member]] = []
        self._look_number = 0
        # Who left lately, the earliest first, with until when a heartbeat may still be on its way.
        self._left: dict[tuple[str, str], tuple[int, Member]] = {}

    def see(self, request: HeartbeatRequest) -> str | None:
        """Take a heartbeat; return JOIN or SUBSCRIPTION where its group's assignment depends on it.

        Raises Overloaded when there are too many members; nothing has changed then.
        """
        member = self.find(request.group, request.client_id)
        is_new = member is None
        self._check_room(request, member)
        if member is None:
            member = self._join(request.group, request.client_id, self._clock.wall_ms())
        wanted = member.wants()
        self._subscribe(member, request.subscriptions)
        member.model = request.model
        member.ordered = request.ordered
        member.strategy = request.strategy
        member.site = request.site
        member.blocked = request.blocked
        member.beats += 1
        self._postpone(member, self._timeout_ms)
        if is_new:
            return JOIN
        if member.wants() == wanted:
            return None
        self._changed(self._groups[member.group])
        return SUBSCRIPTION

    def restore(self, member: Member) -> None:
        """Take back a member known from before a restart; it has the whole time-out from now on."""
        joined = self._join(member.group, member.client_id, member.joined_ms)
        self._subscribe(joined, member.subscriptions)
        joined.model = member.model
        joined.ordered = member.ordered
        joined.strategy = member.strategy
        joined.site = member.site

    @contextmanager
    def waiting(self, member: Member) -> Iterator[None]:
        """Count the member as seen for the time of the block.

        It is due soon when the block is cancelled: its connection is gone. Where it was heard of
        meanwhile, it has another one.
        """
        member.parked += 1
        beats = member.beats
        left_ms = self._grace_ms
        try:
            yield
            left_ms = self._timeout_ms
        except EngineError:
            # It is told that it cannot wait here, so it is there to hear it.
            left_ms = self._timeout_ms
            raise
        finally:
            member.parked -= 1
            if not member.is_gone and (beats == member.beats or left_ms == self._timeout_ms):
                self._postpone(member, left_ms)

    def leave(self, group: str, client_id: str) -> bool:
        """Forget a member; return False where there was none."""
        member = self.find(group, client_id)
        if member is None:
            return False
        self._remove(member)
        self._remember(member)
        return True

    def late(self, request: HeartbeatRequest) -> Member | None:
        """Return who left and sent this before it did; None for who is or becomes a member.

        Requests of one client go by several connections, so its last heartbeat may be read after
        its leaving. Who comes back starts with no generation, or comes after the grace.
        """
        key = request.group, request.client_id
        if not request.generation or key not in self._left or self.find(*key) is not None:
            return None
        until_ms, member = self._left[key]
        return member if self._clock.monotonic_ms() < until_ms else None

    def expire(self) -> list[Member]:
        """Forget who was silent for too long, and return them."""
        now_ms = self._clock.monotonic_ms()
        expired = []
        while self._looks and self._looks[0][0] <= now_ms:
            at_ms, _, member = heapq.heappop(self._looks)
            if member.is_gone or at_ms != member.look_ms:
                # A sooner look has taken the place of this one.
                continue
            if member.parked:
                self._look(member, now_ms + self._timeout_ms)
            elif member.due_ms > now_ms:
                self._look(member, member.due_ms)
            else:
                self._remove(member)
                expired.append(member)
        return expired

    def next_look_ms(self) -> int | None:
        """Return when `expire` may have somebody to forget, on the monotonic clock."""
        return self._looks[0][0] if self._looks else None

    def find(self, group: str, client_id: str) -> Member | None:
        """Return a member, None where there is none."""
        found = self._groups.get(group)
        return None if found is None else found.members.get(client_id)

    def of(self, group: str) -> Mapping[str, Member]:
        """Return the members of a group by client id."""
        found = self._groups.get(group)
        return {} if found is None else found.members

    def version(self, group: str) -> int:
        """Return a number that grows when the members or what they want changes; 0 for nobody."""
        found = self._groups.get(group)
        return 0 if found is None else found.version

    def groups(self) -> Collection[str]:
        """Return the names of groups that have members."""
        return self._groups.keys()

    def __len__(self) -> int:
        """Return how many members there are."""
        return self._count

    def last_seen_ms(self, member: Member) -> int:
        """Return when the member was seen last, on the wall clock."""
        now_ms = self._clock.monotonic_ms()
        silent_ms = 0 if member.parked else now_ms - member.seen_ms
        return self._clock.wall_ms() - silent_ms

    def _check_room(self, request: HeartbeatRequest, member: Member | None) -> None:
        name = request.group
        group = self._groups.get(name) or _Group()
        if member is None and self._count >= self._members_max:
            raise Overloaded(f"{self._members_max} clients are members of groups already")
        if member is None and len(group.members) >= self._group_members_max:
            raise Overloaded(f"group {name!r} has {self._group_members_max} members already")
        before = () if member is None else member.subscriptions
        characters = group.characters - _characters(before) + _characters(request.subscriptions)
        if characters > GROUP_CHARACTERS_MAX:
            raise Overloaded(f"the members of group {name!r} want more than can be kept of them")

    def _join(self, name: str, client_id: str, joined_ms: int) -> Member:
        group = self._groups.get(name) or _Group()
        member = Member(group=name, client_id=client_id, joined_ms=joined_ms)
        self._groups[name] = group
        group.members[client_id] = member
        self._changed(group)
        self._count += 1
        member.seen_ms = self._clock.monotonic_ms()
        member.due_ms = member.seen_ms + self._timeout_ms
        self._look(member, member.due_ms)
        return member

    def _remove(self, member: Member) -> None:
        member.is_gone = True
        self._subscribe(member, ())
        group = self._groups[member.group]
        del group.members[member.client_id]
        self._changed(group)
        self._count -= 1
        if not group.members:
            del self._groups[member.group]

    def _remember(self, member: Member) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._left:
            first = next(iter(self._left))
            if now_ms < self._left[first][0]:
                break
            del self._left[first]
        key = member.group, member.client_id
        self._left.pop(key, None)
        self._left[key] = (now_ms + self._grace_ms, member)

    def _subscribe(self, member: Member, subscriptions: tuple[Subscription, ...]) -> None:
        group = self._groups[member.group]
        group.characters += _characters(subscriptions) - _characters(member.subscriptions)
        member.subscriptions = subscriptions

    def _postpone(self, member: Member, left_ms: int) -> None:
        member.seen_ms = self._clock.monotonic_ms()
        member.due_ms = member.seen_ms + left_ms
        if member.due_ms < member.look_ms:
            self._look(member, member.due_ms)

    def _changed(self, group: _Group) -> None:
        self._version += 1
        group.version = self._version

    def _look(self, member: Member, at_ms: int) -> None:
        member.look_ms = at_ms
        self._look_number += 1
        heapq.heappush(self._looks, (at_ms, self._look_number, member))


def _characters(subscriptions: tuple[Subscription, ...]) -> int:
    return sum([len(wanted.topic) + len(wanted.filter) for wanted in subscriptions])


def conflicts(members: Collection[Member]) -> dict[str, set[str]]:
    """Return by client id the topics of which other members of the group want something else."""
    wishes: dict[str, dict[tuple[object, ...], list[str]]] = {}
    for member in members:
        for wanted in member.subscriptions:
            wish = (wanted.filter, wanted.filter_type, member.model)
            wishes.setdefault(wanted.topic, {}).setdefault(wish, []).append(member.client_id)
    found: dict[str, set[str]] = {}
    for topic, clients_by_wish in wishes.items():
        if len(clients_by_wish) > 1:
            for client_id in (name for names in clients_by_wish.values() for name in names):
                found.setdefault(client_id, set()).add(topic)
    return found
