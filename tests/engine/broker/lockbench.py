"""A lock table with its journal, and the rules over it: restarts and power cuts without a store."""

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.journal import Event, LockGranted, LockReleased, decode_event, encode_event
from apps.engine.broker.lockevents import LockExpired
from apps.engine.broker.locktable import LockTable
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.errors import LockLost, StoreFull
from apps.engine.failpoints import Failpoints
from apps.engine.grouptypes import LockTransition, QueuePlace
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PERM_READ, PERM_WRITE, CatalogSnapshot, GroupSpec, TopicSpec

LEASE_MS = 60_000
GROUP = "g"


def place(queue: int = 0, topic: str = "orders") -> QueuePlace:
    return QueuePlace(topic=topic, queue=queue)


class LockBench:
    """Rules over a table that is changed by what the journal reads back, never directly."""

    def __init__(self) -> None:
        """Begin with topics of eight queues and nobody assigned."""
        self.clock = ManualClock()
        self.catalog = Catalog(SimulatedDisk(), failpoints=Failpoints())
        self.version = 0
        self.publish()
        self.owners: dict[tuple[str, str, int], str] = {}
        self.journal: list[tuple[bytes, int]] = []
        self.synced = 0
        self.room: int | None = None
        self.store_epoch = 0
        self.lines: list[LockTransition] = []
        self.table = LockTable()
        self.start()

    def publish(self, *topics: str, disabled: str = "") -> None:
        """Let there be these topics, at first `orders` and `bills`, and one disabled group."""
        self.version += 1
        known = {
            name: TopicSpec(name=name, queue_count=8) for name in topics or ("orders", "bills")
        }
        known["blind"] = TopicSpec(name="blind", queue_count=1, perm=PERM_WRITE)
        known["fixed"] = TopicSpec(name="fixed", queue_count=1, perm=PERM_READ)
        groups = {disabled: GroupSpec(name=disabled, enabled=False)} if disabled else {}
        self.catalog.publish(CatalogSnapshot(version=self.version, topics=known, groups=groups))

    def start(self, *, from_checkpoint: bool = False) -> None:
        """Open what the journal has, as a new run of the store."""
        self.store_epoch += 1
        rows = self.table.dump() if from_checkpoint else []
        self.table = LockTable()
        self.table.load(rows)
        for number, (data, at_ms) in enumerate(self.journal):
            if not from_checkpoint:
                self.apply(decode_event(data), number, at_ms)
        self.synced = len(self.journal)
        self.locks = QueueLocks(
            self.table,
            self.record,
            lambda events: [self.record(event) for event in events],
            catalog=self.catalog,
            clock=self.clock,
            fences=Fences(self.store_epoch),
            lease_ms=LEASE_MS,
            owner_of=lambda *where: self.owners.get(where),
            suspensions={},
        )

    def cut_power(self) -> None:
        """Lose what was not synced, and open the rest."""
        del self.journal[self.synced :]
        self.start()

    def record(self, event: Event) -> int:
        """Write an event down, and apply what can be read of it."""
        if self.room is not None and len(self.journal) >= self.room:
            raise StoreFull("no room for another event")
        self.journal.append((encode_event(event), self.clock.wall_ms()))
        data, at_ms = self.journal[-1]
        number = len(self.journal) - 1
        line = self.apply(decode_event(data), number, at_ms)
        if line is not None:
            self.lines.append(line)
        return number

    def apply(self, event: Event, number: int, at_ms: int) -> LockTransition | None:
        """Change the table as the broker's state does."""
        if isinstance(event, LockGranted):
            return self.table.grant(event, number=number, at_ms=at_ms)
        if isinstance(event, LockExpired):
            return self.table.expire(event, number=number, at_ms=at_ms)
        assert isinstance(event, LockReleased)
        return self.table.release(event, number=number, at_ms=at_ms)

    def acquire(self, client_id: str, *queues: int) -> dict[int, int]:
        """Ask for locks; return the epochs granted by queue."""
        places = [place(queue) for queue in queues or (0,)]
        answer = self.locks.acquire(GROUP, client_id, places)
        assert len(answer.locked) + len(answer.refused) == len(places)
        return {grant.queue: grant.epoch for grant in answer.locked}

    def holds(self, client_id: str, epoch: int, queue: int = 0) -> bool:
        """Say whether the fence lets a client through."""
        try:
            self.locks.check(GROUP, "orders", queue, client_id=client_id, epoch=epoch)
        except LockLost:
            return False
        return True
