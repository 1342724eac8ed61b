"""Histories of a world where every promise holds: producers, two groups, faults of all kinds.

Knows what good looks like and nothing of the product. The same seed makes the same events. One
thing happens at a time, a millisecond or two each; listeners of paused clients run over others.
"""

import itertools
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.histories.events import Event, Kind, Verb

TOPIC = "orders"
ORDERED, TAGGED = "fulfil", "mail"
TAGS = ("created", "paid", "shipped")
WANTED = "paid"
LEASE_MS = 1_000
_MS_NS = 1_000_000
_RENEW_MS = 400
_STEPS_BETWEEN_FAULTS = 200
_PRODUCERS = ("producer-0", "producer-1")


@dataclass(slots=True)
class _Stored:
    id: str
    tag: str
    digest: str


@dataclass(slots=True, eq=False)
class _Client:
    name: str
    process: str
    positions: dict[int, int] = field(default_factory=dict)
    """Where it goes on in each queue it is given, in its own memory."""
    epochs: dict[int, int] = field(default_factory=dict)
    resumes_ns: int = 0
    open_delivery: tuple[int, int] | None = None
    """The number and the queue of a listener that a pause caught."""


@dataclass(slots=True, eq=False)
class _Group:
    name: str
    is_ordered: bool
    members: list[_Client] = field(default_factory=list)
    owners: dict[int, _Client] = field(default_factory=dict)
    committed: Counter[int] = field(default_factory=Counter)
    locks: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """Owner, epoch and end of the lease of each queue."""
    generation: int = 0


class World:
    """Makes events until it is told to end."""

    def __init__(self, seed: int, *, queue_count: int = 4, member_count: int = 3) -> None:
        """Start the broker and the members of both groups."""
        self.events: list[Event] = []
        self._rng = random.Random(seed)
        self._now_ns = 1_000_000_000
        self._numbers: Counter[str] = Counter()
        self._queue_count = queue_count
        self._log: defaultdict[int, list[_Stored]] = defaultdict(list)
        self._epoch = 0
        self._sent = 0
        self._starts = 1
        self._clients = 0
        self._groups = [_Group(ORDERED, is_ordered=True), _Group(TAGGED, is_ordered=False)]
        self._paused: list[tuple[_Group, _Client]] = []
        self._notice("run", Verb.PROCESS, target="broker", state="started", role="broker")
        for group in self._groups:
            tags = None if group.is_ordered else [WANTED]
            ordered = group.is_ordered
            self._notice(
                "run", Verb.SUBSCRIBE, group=group.name, topic=TOPIC, ordered=ordered, tags=tags
            )
            for _ in range(member_count):
                self._join(group)

    def run(self, steps: int) -> None:
        """Let so many things happen, and every kind of fault to each group in turn."""
        kinds = (self._kill, self._pause, self._leave, self._restart_broker)
        faults = itertools.cycle(itertools.product(kinds, self._groups))
        for step in range(1, steps + 1):
            roll = self._rng.random()
            if step % _STEPS_BETWEEN_FAULTS == 0:
                fault, group = next(faults)
                fault(group)
            elif roll < 0.15:
                self._send()
            elif roll < 0.16:
                self._read_progress()
            else:
                self._consume(self._rng.choice(self._groups))
            self._resume(is_all=False)

    def finish(self) -> list[Event]:
        """Heal, let the groups do all that is left, and return every event."""
        self._resume(is_all=True)
        self._notice("run", Verb.NEMESIS, fault="heal", target="")
        self._read_progress()
        while any(self._left(group) for group in self._groups):
            for group in self._groups:
                self._consume(group)
        for group in self._groups:
            for queue, client in sorted(group.owners.items()):
                self._commit(group, client, queue)
        self._read_progress()
        self._inspect()
        return self.events

    def _left(self, group: _Group) -> int:
        return sum(
            len(self._log[queue])
            - (0 if (owner := group.owners.get(queue)) is None else owner.positions[queue])
            for queue in range(self._queue_count)
        )

    def _event(self, process: str, number: int, kind: Kind, verb: Verb, values: Any) -> None:
        self.events.append(Event(process, number, kind, verb, self._now_ns, self._now_ns, values))

    def _notice(self, process: str, verb: Verb, **values: Any) -> None:
        self._numbers[process] += 1
        self._event(process, self._numbers[process], Kind.INFO, verb, values)

    def _invoke(self, process: str, verb: Verb, asked: dict[str, Any]) -> int:
        self._numbers[process] += 1
        self._event(process, self._numbers[process], Kind.INVOKE, verb, asked)
        self._now_ns += self._rng.randrange(1, 3) * _MS_NS
        return self._numbers[process]

    def _operate(
        self, process: str, verb: Verb, asked: dict[str, Any], kind: Kind, **told: Any
    ) -> None:
        number = self._invoke(process, verb, asked)
        self._event(process, number, kind, verb, told)
        self._now_ns += 10_000

    def _send(self) -> None:
        producer = self._rng.choice(_PRODUCERS)
        key = f"{producer}-{self._rng.randrange(20)}"
        queue = sum(key.encode()) % self._queue_count
        messages, stored = [], []
        for _ in range(self._rng.randrange(1, 4)):
            self._sent += 1
            message = _Stored(f"m{self._sent}", self._rng.choice(TAGS), f"digest of {self._sent}")
            messages.append([message.id, key, message.tag, message.digest])
            stored.append(message)
        asked = {"producer": producer, "topic": TOPIC, "messages": messages}
        outcome = self._rng.random()
        first = len(self._log[queue])
        if outcome < 0.97:
            self._log[queue] += stored
        if outcome < 0.95:
            places = [[queue, first + index] for index in range(len(stored))]
            self._operate(producer, Verb.SEND, asked, Kind.OK, places=places)
        else:
            self._operate(producer, Verb.SEND, asked, Kind.INFO, code="unanswered")

    def _consume(self, group: _Group) -> None:
        if not group.owners:
            return
        queue, client = self._rng.choice(sorted(group.owners.items()))
        if client.resumes_ns or (group.is_ordered and not self._has_lock(group, client, queue)):
            return
        log = self._log[queue]
        while client.positions[queue] < len(log) and not self._wants(group, log, client, queue):
            client.positions[queue] += 1
        if client.positions[queue] < len(log):
            number = self._begin(group, client, queue)
            done = int(self._rng.random() < 0.95)
            self._event(client.process, number, Kind.OK, Verb.DELIVER, {"done": done})
            self._now_ns += 10_000
            client.positions[queue] += done
        if self._rng.random() < 0.2:
            self._commit(group, client, queue)

    def _wants(self, group: _Group, log: list[_Stored], client: _Client, queue: int) -> bool:
        return group.is_ordered or log[client.positions[queue]].tag == WANTED

    def _begin(self, group: _Group, client: _Client, queue: int) -> int:
        offset = client.positions[queue]
        message = self._log[queue][offset]
        asked = {"group": group.name, "client": client.name, "topic": TOPIC, "queue": queue}
        messages = [[message.id, offset, message.digest]]
        return self._invoke(client.process, Verb.DELIVER, {**asked, "messages": messages})

    def _commit(self, group: _Group, client: _Client, queue: int) -> None:
        offset, epoch = client.positions[queue], client.epochs.get(queue)
        asked = {"group": group.name, "client": client.name}
        offsets = [[TOPIC, queue, offset, epoch]]
        held = group.locks.get(queue)
        is_stale = group.is_ordered and (held is None or held[1] != epoch)
        if not is_stale:
            group.committed[queue] = max(group.committed[queue], offset)
        kind, told = (Kind.FAIL, {"code": "lock_lost"}) if is_stale else (Kind.OK, {})
        self._operate(client.process, Verb.COMMIT, {**asked, "offsets": offsets}, kind, **told)

    def _has_lock(self, group: _Group, client: _Client, queue: int) -> bool:
        """Renew or take the lock where it is due; say whether the client may go on."""
        owner, epoch, end_ns = group.locks.get(queue, ("", 0, 0))
        is_own = owner == client.name and client.epochs.get(queue) == epoch
        if is_own and end_ns - self._now_ns > _RENEW_MS * _MS_NS:
            return True
        asked = {"group": group.name, "client": client.name, "queues": [[TOPIC, queue]]}
        if owner not in ("", client.name) and end_ns > self._now_ns:
            refused = [[TOPIC, queue, owner]]
            self._operate(client.process, Verb.LOCK, asked, Kind.OK, locked=[], refused=refused)
            return False
        if not (is_own and end_ns > self._now_ns):
            self._epoch += 1
            epoch = self._epoch
            # What another member did meanwhile is in the broker, not in this client's memory.
            client.positions[queue] = group.committed[queue]
        client.epochs[queue] = epoch
        locked = [[TOPIC, queue, epoch, LEASE_MS]]
        self._operate(client.process, Verb.LOCK, asked, Kind.OK, locked=locked, refused=[])
        # The broker counts from a moment within the request: at the latest from its end.
        group.locks[queue] = (client.name, epoch, self._now_ns + LEASE_MS * _MS_NS)
        return True

    def _join(self, group: _Group) -> None:
        self._clients += 1
        client = _Client(f"{group.name}-{self._clients}", f"client-{self._clients}")
        self._notice("run", Verb.PROCESS, target=client.process, state="started", role="client")
        asked = {"group": group.name, "client": client.name}
        self._operate(client.process, Verb.JOIN, asked, Kind.OK)
        group.members.append(client)
        self._rebalance(group)

    def _rebalance(self, group: _Group) -> None:
        group.generation += 1
        members = sorted(group.members, key=lambda client: client.name)
        owners = {queue: members[queue % len(members)] for queue in range(self._queue_count)}
        for queue, client in list(group.owners.items()):
            if owners[queue] is not client and client in group.members:
                self._commit(group, client, queue)
                self._unlock(group, client, queue)
        for queue, client in owners.items():
            if group.owners.get(queue) is not client:
                client.positions[queue] = group.committed[queue]
        group.owners = owners
        for client in members:
            queues = [[TOPIC, queue] for queue, owner in owners.items() if owner is client]
            self._notice(
                client.process,
                Verb.ASSIGN,
                group=group.name,
                client=client.name,
                generation=group.generation,
                queues=queues,
            )

    def _unlock(self, group: _Group, client: _Client, queue: int) -> None:
        if group.is_ordered and group.locks.get(queue, ("",))[0] == client.name:
            asked = {"group": group.name, "client": client.name, "queues": [[TOPIC, queue]]}
            self._operate(client.process, Verb.UNLOCK, asked, Kind.OK)
            del group.locks[queue]
            client.epochs.pop(queue, None)

    def _leave(self, group: _Group) -> None:
        client = self._rng.choice(group.members)
        for queue, owner in sorted(group.owners.items()):
            if owner is client:
                self._commit(group, client, queue)
                self._unlock(group, client, queue)
                del group.owners[queue]
        asked = {"group": group.name, "client": client.name}
        self._operate(client.process, Verb.LEAVE, asked, Kind.OK)
        self._notice("run", Verb.PROCESS, target=client.process, state="ended", role="client")
        group.members.remove(client)
        self._join(group)

    def _kill(self, group: _Group) -> None:
        client = self._rng.choice(group.members)
        self._catch_in_listener(group, client)
        self._notice("run", Verb.NEMESIS, fault="kill", target=client.process)
        self._notice("run", Verb.PROCESS, target=client.process, state="ended", role="client")
        group.members.remove(client)
        self._join(group)

    def _pause(self, group: _Group) -> None:
        if len(group.members) < 2:
            return
        client = self._rng.choice(group.members)
        client.open_delivery = self._catch_in_listener(group, client)
        self._notice("run", Verb.NEMESIS, fault="pause", target=client.process)
        client.resumes_ns = self._now_ns + LEASE_MS * 2 * _MS_NS
        group.members.remove(client)
        self._paused.append((group, client))
        self._rebalance(group)

    def _catch_in_listener(self, group: _Group, client: _Client) -> tuple[int, int] | None:
        """Begin a delivery that a fault will interrupt, where the client has one to begin."""
        for queue, owner in sorted(group.owners.items()):
            if owner is client and (not group.is_ordered or self._has_lock(group, client, queue)):
                position, log = client.positions[queue], self._log[queue]
                if position < len(log) and self._wants(group, log, client, queue):
                    return self._begin(group, client, queue), queue
        return None

    def _resume(self, *, is_all: bool) -> None:
        for group, client in list(self._paused):
            if is_all:
                self._now_ns = max(self._now_ns, client.resumes_ns)
            if self._now_ns < client.resumes_ns:
                continue
            self._paused.remove((group, client))
            self._notice("run", Verb.NEMESIS, fault="resume", target=client.process)
            client.resumes_ns = 0
            if client.open_delivery is not None:
                number, queue = client.open_delivery
                self._event(client.process, number, Kind.OK, Verb.DELIVER, {"done": 1})
                client.open_delivery = None
                if group.is_ordered:
                    client.positions[queue] += 1
                    self._commit(group, client, queue)
            client.positions.clear()
            client.epochs.clear()
            asked = {"group": group.name, "client": client.name}
            self._operate(client.process, Verb.JOIN, asked, Kind.OK)
            group.members.append(client)
            self._rebalance(group)

    def _restart_broker(self, _: _Group) -> None:
        self._notice("run", Verb.NEMESIS, fault="kill", target="broker")
        self._notice("run", Verb.PROCESS, target="broker", state="ended", role="broker")
        self._now_ns += 50 * _MS_NS
        self._starts += 1
        self._notice("run", Verb.PROCESS, target="broker", state="started", role="broker")
        for group in self._groups:
            # Owners are kept, and each must ask again: its epoch is not the table's any more.
            for queue, (owner, _epoch, end_ns) in group.locks.items():
                self._epoch += 1
                group.locks[queue] = (owner, self._epoch, end_ns)

    def _inspect(self) -> None:
        """Stop the broker and say what lies in its store."""
        self._notice("run", Verb.PROCESS, target="broker", state="ended", role="broker")
        places = [
            (queue, offset, message)
            for queue in range(self._queue_count)
            for offset, message in enumerate(self._log[queue])
        ]
        queues = [[TOPIC, queue, 0, len(self._log[queue])] for queue in range(self._queue_count)]
        records = [[TOPIC, queue, offset, m.id, m.digest] for queue, offset, m in places]
        self._operate(
            "run",
            Verb.INSPECT,
            {"topics": [TOPIC]},
            Kind.OK,
            queues=queues,
            records=records,
            epochs=list(range(1, self._starts + 1)),
            faults=[],
        )

    def _read_progress(self) -> None:
        for group in self._groups:
            offsets = [
                [TOPIC, queue, group.committed[queue], len(self._log[queue])]
                for queue in range(self._queue_count)
            ]
            asked = {"group": group.name}
            self._operate("run", Verb.PROGRESS, asked, Kind.OK, offsets=offsets)


def good_events(seed: int, *, steps: int = 2_000, queue_count: int = 4) -> list[Event]:
    """Return the events of a whole run of a good world."""
    world = World(seed, queue_count=queue_count)
    world.run(steps)
    return world.finish()
