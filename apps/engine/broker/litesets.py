"""Which clients are subscribed to which lite topics, and which of theirs may have something.

Knows names and a clock; no queue, no group's progress and no disk. A restart begins with nobody,
and clients say their sets again. A receive costs what is marked for its client, not what the client
is subscribed to.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest

from apps.engine.clock import Clock
from apps.engine.errors import LiteSubscriptionsExhausted, NotPermitted
from apps.engine.limits import LITE_SILENT_MS
from apps.engine.litetypes import LiteAction

_Key = tuple[str, str]


class LiteClient:
    """A client of a group: its lite topics, and in order those that may have something for it."""

    __slots__ = (
        "client_id",
        "group",
        "parent",
        "parked",
        "ready",
        "seen_ms",
        "stored_to",
        "topics",
    )

    def __init__(self, group: str, client_id: str, parent: str) -> None:
        """Begin without any."""
        self.group = group
        self.client_id = client_id
        self.parent = parent
        # By the engine's own names.
        self.topics: dict[str, None] = {}
        self.ready: dict[str, None] = {}
        self.parked = 0
        self.seen_ms = 0
        # The log offset behind the newest message for it: what is not synced up to there it waits
        # for.
        self.stored_to = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePlan:
    """What is to become of a client's set: all of it in order, and what of that is `new` to it.

    `again` is what the client says it has and has lost to another.
    """

    group: str
    client_id: str
    parent: str
    action: LiteAction
    after: dict[str, None]
    new: list[str]
    again: list[str]


def _heard_by_nobody(_group: str, _of_it: str) -> None:
    """Tell nobody."""


class LiteSets:
    """Sets by group and client, those of clients that were silent for longest first."""

    def __init__(self, clock: Clock, *, of_client_max: int, of_store_max: int) -> None:
        """Know nobody; a client has up to `of_client_max` lite topics, all `of_store_max`."""
        self._clock = clock
        self._of_client_max = of_client_max
        self._of_store_max = of_store_max
        self._clients: OrderedDict[_Key, LiteClient] = OrderedDict()
        # Mostly one or two: a tuple is a fifth of a set.
        self._subscribers: dict[str, tuple[LiteClient, ...]] = {}
        self._of_groups: dict[str, dict[str, LiteClient]] = {}
        # What a client lost to another: by group and client, own topics and when.
        self._lost: dict[_Key, dict[str, int]] = {}
        self.count = 0
        self.on_ready: Callable[[str, str], None] = _heard_by_nobody
        # Told the group and the lite topic that one of its clients has now, or has no more.
        self.on_change: Callable[[str, str], None] = _heard_by_nobody

    def __len__(self) -> int:
        """Return how many clients are known."""
        return len(self._clients)

    # --- what clients say ----------------------------------------------------------------------

    def planned(
        self, group: str, client_id: str, parent: str, action: LiteAction, topics: Collection[str]
    ) -> LitePlan:
        """Return what would become of a client's set, and change nothing.

        Raises NotPermitted where the group reads another parent, LiteSubscriptionsExhausted.
        """
        self.forget_silent()
        key = (group, client_id)
        client = self._clients.get(key)
        others = (one for one in self._of_groups.get(group, {}).values() if one is not client)
        other = next(others, None)
        if other is not None and other.parent != parent and action is not LiteAction.CLEAR:
            raise NotPermitted(f"group {group!r} reads lite topics of {other.parent!r}")
        all_before = {} if client is None else client.topics
        # A client that turns to another parent begins anew.
        before = {} if client is None or client.parent != parent else client.topics
        lost = self._lost.get(key, {})
        again: list[str] = []
        match action:
            case LiteAction.ADD:
                after = {**before, **dict.fromkeys(topics)}
            case LiteAction.REMOVE:
                gone = set(topics)
                after = {topic: None for topic in before if topic not in gone}
            case LiteAction.REPLACE:
                after = {topic: None for topic in topics if topic not in lost}
                again = [topic for topic in lost if topic in set(topics)]
            case LiteAction.CLEAR:
                after = {}
        if len(after) > max(self._of_client_max, len(before)):
            raise LiteSubscriptionsExhausted(
                f"a client has up to {self._of_client_max} lite topics, not {len(after)}"
            )
        if len(after) > len(all_before):
            count = self.count - len(all_before) + len(after)
            if count > self._of_store_max:
                raise LiteSubscriptionsExhausted(
                    f"all clients together have up to {self._of_store_max} lite topics"
                )
        return LitePlan(
            group=group,
            client_id=client_id,
            parent=parent,
            action=action,
            after=after,
            new=[topic for topic in after if topic not in before],
            again=again,
        )

    def carry_out(self, plan: LitePlan, *, is_exclusive: bool) -> list[tuple[str, str]]:
        """Let a client have what was planned; return who lost which topic to it, and what it lacks.

        What it said again although it lost it is told with its own id.
        """
        key = (plan.group, plan.client_id)
        client = self._clients.get(key)
        if client is not None and (not plan.after or client.parent != plan.parent):
            self._forget(client)
            client = None
        self._settle_lost(plan)
        evicted = [(plan.client_id, topic) for topic in plan.again]
        if not plan.after:
            return evicted
        if client is None:
            client = self._clients[key] = LiteClient(*key, plan.parent)
            self._of_groups.setdefault(plan.group, {})[plan.client_id] = client
        for topic in [topic for topic in client.topics if topic not in plan.after]:
            self._take(client, topic)
        for topic in plan.new:
            if is_exclusive:
                evicted += self._evict(client, topic)
            self._give(client, topic)
        self._see(client)
        return evicted

    def find(self, group: str, client_id: str) -> LiteClient | None:
        """Return a client, None for one that has no lite topics here."""
        self.forget_silent()
        return self._clients.get((group, client_id))

    def see(self, client: LiteClient) -> None:
        """Note that a client asks now."""
        if self._clients.get((client.group, client.client_id)) is client:
            self._see(client)

    @contextmanager
    def waiting(self, group: str, client_id: str) -> Iterator[None]:
        """Count a client as seen now for the time of the block."""
        client = self._clients.get((group, client_id))
        if client is None:
            yield
            return
        client.parked += 1
        try:
            yield
        finally:
            client.parked -= 1
            self.see(client)

    def forget_silent(self) -> None:
        """Forget the clients that were not there for 3 minutes, and what such clients had lost."""
        now_ms = self._clock.monotonic_ms()
        while self._clients:
            client = next(iter(self._clients.values()))
            if client.parked and client.seen_ms < now_ms:
                self._see(client)
                continue
            if now_ms - client.seen_ms <= LITE_SILENT_MS:
                break
            self._forget(client)
        while self._lost:
            key, lost = next(iter(self._lost.items()))
            # A client's newest is its last; the older ones bar it no longer than that.
            if now_ms - next(reversed(lost.values())) <= LITE_SILENT_MS:
                break
            del self._lost[key]

    # --- what may be ready ---------------------------------------------------------------------

    def mark(self, topic: str) -> None:
        """Note that a lite topic may have something for whoever is subscribed to it."""
        for client in self._subscribers.get(topic, ()):
            client.ready[topic] = None
            self.on_ready(client.group, client.client_id)

    def mark_for(self, client: LiteClient, topics: Iterable[str]) -> None:
        """Note that topics may have something for one client."""
        found = {topic: None for topic in topics if topic in client.topics}
        if found:
            client.ready.update(found)
            self.on_ready(client.group, client.client_id)

    def stored(self, topic: str, log_end: int) -> tuple[LiteClient, ...]:
        """Note a message that is not synced; return who may wait for it."""
        clients = self._subscribers.get(topic, ())
        for client in clients:
            client.stored_to = log_end
        return clients

    # --- for people ----------------------------------------------------------------------------

    def subscribers(self, topic: str) -> int:
        """Return how many clients of all groups are subscribed to a lite topic."""
        return len(self._subscribers.get(topic, ()))

    def has(self, group: str, topic: str) -> bool:
        """Say whether a client of a group is subscribed to a lite topic."""
        return any(client.group == group for client in self._subscribers.get(topic, ()))

    def reads(self, group: str, parent: str) -> bool:
        """Say whether a client of a group has lite topics of a parent."""
        return any(client.parent == parent for client in self._of_groups.get(group, {}).values())

    def of_group(self, group: str) -> list[LiteClient]:
        """Return the clients of a group that have lite topics, by client id."""
        self.forget_silent()
        clients = self._of_groups.get(group, {})
        return [clients[client_id] for client_id in sorted(clients)]

    def first(self, client: LiteClient, count: int) -> list[str]:
        """Return the first of a client's topics by name."""
        return nsmallest(count, client.topics)

    # --- inside --------------------------------------------------------------------------------

    def _see(self, client: LiteClient) -> None:
        client.seen_ms = self._clock.monotonic_ms()
        self._clients.move_to_end((client.group, client.client_id))

    def _give(self, client: LiteClient, topic: str) -> None:
        others = self._subscribers.get(topic, ())
        self._subscribers[topic] = (*others, client)
        client.topics[topic] = None
        self.count += 1
        self.on_change(client.group, topic)

    def _take(self, client: LiteClient, topic: str) -> None:
        del client.topics[topic]
        client.ready.pop(topic, None)
        left = tuple(one for one in self._subscribers[topic] if one is not client)
        if left:
            self._subscribers[topic] = left
        else:
            del self._subscribers[topic]
        self.count -= 1
        self.on_change(client.group, topic)

    def _evict(self, client: LiteClient, topic: str) -> list[tuple[str, str]]:
        """Take a topic from the other clients of the group."""
        evicted = []
        for other in self._subscribers.get(topic, ()):
            if other.group == client.group and other is not client:
                self._take(other, topic)
                lost = self._lost.pop((other.group, other.client_id), {})
                lost.pop(topic, None)
                lost[topic] = self._clock.monotonic_ms()
                self._lost[other.group, other.client_id] = lost
                evicted.append((other.client_id, topic))
        return evicted

    def _settle_lost(self, plan: LitePlan) -> None:
        """Let a client have what it lost: by subscribing anew, or once it has said so itself."""
        key = (plan.group, plan.client_id)
        lost = self._lost.get(key)
        if lost is None:
            return
        match plan.action:
            case LiteAction.ADD:
                left = {topic: at_ms for topic, at_ms in lost.items() if topic not in plan.after}
            case LiteAction.REPLACE:
                left = {topic: at_ms for topic, at_ms in lost.items() if topic in plan.again}
            case LiteAction.REMOVE:
                left = lost
            case LiteAction.CLEAR:
                left = {}
        if left:
            self._lost[key] = left
        else:
            del self._lost[key]

    def _forget(self, client: LiteClient) -> None:
        for topic in list(client.topics):
            self._take(client, topic)
        del self._clients[client.group, client.client_id]
        clients = self._of_groups[client.group]
        del clients[client.client_id]
        if not clients:
            del self._of_groups[client.group]
