"""Groups at work while the power is cut: fences only grow, and what was answered stays.

Clients join, leave, expire and lock at random. An answer counts from the sync that makes it
durable. The sweep cuts at every sync and keeps, of what was not synced, nothing, all, or a part.
"""

import random

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.config import EngineConfig
from apps.engine.errors import SyncFailed
from apps.engine.failpoints import Failpoints
from apps.engine.grouptypes import HeartbeatRequest, QueuePlace, Subscription
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.rounds import report, rounds

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=4_096,
    consume_queue_file_entries=16,
    reserve_bytes=0,
    member_timeout_ms=3_000,
)
QUEUES = 4
STEPS = 40
GROUPS = ("g", "h")
CLIENTS = ("a", "b", "c")

Shares = dict[str, dict[str, tuple[int, ...]]]
# A group's generation, or the owner and epoch of the lock of a queue of a group; None for none.
Key = tuple[str] | tuple[str, int]
State = int | tuple[str, int] | None


class Clients:
    """Members of two groups, doing one random thing at a time.

    `states` are those each group and lock went through, in order, and `told` is how many of them
    are known to be durable.
    """

    def __init__(self, broker: Broker, clock: ManualClock, seed: int, *, early: bool) -> None:
        """Use a broker; early ones believe an answer before the sync."""
        self.states: dict[Key, list[State]] = {}
        self.told: dict[Key, int] = {}
        self.made: dict[int, Shares] = {}
        self.fences: list[int] = []
        self.syncs = 0
        self._broker = broker
        self._clock = clock
        self._rng = random.Random(seed)
        self._is_early = early

    def step(self) -> None:
        """Do one thing, and note what it made of the groups."""
        act = self._rng.choice(
            [self._beat, self._beat, self._leave, self._lock, self._unlock, self._pass_time,
             self._sync, self._sync, self._checkpoint]
        )  # fmt: skip
        act(self._rng.choice(GROUPS), self._rng.choice(CLIENTS))
        self._note()
        if self._is_early:
            self._believe()

    def _note(self) -> None:
        for line in self._broker.membership.rebalances():
            self.made[line.generation] = {k: dict(v) for k, v in line.assignment.items()}
        for key, state in states_of(self._broker).items():
            passed = self.states.setdefault(key, [None])
            if passed[-1] != state:
                passed.append(state)
                if state is not None:
                    self.fences.append(state if isinstance(state, int) else state[1])

    def _beat(self, group: str, client_id: str) -> None:
        wanted = (Subscription(topic="t"),)
        self._broker.membership.heartbeat(
            HeartbeatRequest(group=group, client_id=client_id, subscriptions=wanted)
        )

    def _leave(self, group: str, client_id: str) -> None:
        self._broker.membership.leave(group, client_id)

    def _lock(self, group: str, client_id: str) -> None:
        places = [QueuePlace(topic="t", queue=queue) for queue in range(QUEUES)]
        self._broker.locks.acquire(group, client_id, places)

    def _unlock(self, group: str, client_id: str) -> None:
        place = QueuePlace(topic="t", queue=self._rng.randrange(QUEUES))
        self._broker.locks.release(group, client_id, [place])

    def _pass_time(self, group: str, client_id: str) -> None:
        del group, client_id
        self._clock.advance(self._rng.randrange(2_000))
        self._broker.membership.look()

    def _sync(self, group: str, client_id: str) -> None:
        del group, client_id
        self._broker.log.sync()
        self._broker.show_synced()
        self._believe()

    def _checkpoint(self, group: str, client_id: str) -> None:
        del group, client_id
        self._broker.checkpoint()
        self._believe()

    def _believe(self) -> None:
        self.told = {key: len(passed) - 1 for key, passed in self.states.items()}


def states_of(broker: Broker) -> dict[Key, State]:
    """Return the generation of every group and whose every lock is."""
    found: dict[Key, State] = {}
    for group in GROUPS:
        lines = broker.membership.rebalances(group)
        found[(group,)] = lines[0].generation if lines else None
        held = {lock.queue: (lock.owner, lock.epoch) for lock in broker.locks.states(group)}
        found |= {(group, queue): held.get(queue) for queue in range(QUEUES)}
    return found


def opened(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    return open_broker(disk, config=CONFIG, clock=clock, failpoints=Failpoints())


def run(seed: int, *, cut_at: int | None, early: bool = False) -> tuple[SimulatedDisk, Clients]:
    """Run the workload of `seed` up to its sync `cut_at`, which fails: there the power goes."""
    disk, clock = SimulatedDisk(), ManualClock()
    broker = opened(disk, clock)
    topics = {"t": TopicSpec(name="t", queue_count=QUEUES)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    broker.checkpoint()
    begin = disk.sync_count
    disk.fail_sync_from = None if cut_at is None else begin + cut_at
    clients = Clients(broker, clock, seed, early=early)
    try:
        for _ in range(STEPS):
            clients.step()
    except SyncFailed:
        disk.fail_sync_from = None
    clients.syncs = disk.sync_count - begin
    return disk, clients


def went_back(broker: Broker, clients: Clients) -> list[Key]:
    """Return what is not in a state that it was told to be in, or came to later."""
    now = states_of(broker)
    return [key for key, at in clients.told.items() if now[key] not in clients.states[key][at:]]


def check(disk: SimulatedDisk, clients: Clients) -> None:
    """Start on what is left and compare with what was told."""
    broker = opened(disk, ManualClock())
    assert went_back(broker, clients) == []
    for line in broker.membership.rebalances():
        assert clients.made[line.generation] == line.assignment, "nobody made this assignment"
        members = {state.client_id for state in broker.membership.states(line.group)}
        assert members == set(line.assignment), "members and assignment differ"
    check_new_fences(broker, clients)


def check_new_fences(broker: Broker, clients: Clients) -> None:
    """Join and lock anew: what is made from here on is above all that ever was."""
    highest = max(clients.fences, default=0)
    for group in GROUPS:
        before = broker.assigner.share(group, "new")[0]
        wanted = (Subscription(topic="t"),)
        broker.membership.heartbeat(
            HeartbeatRequest(group=group, client_id="new", subscriptions=wanted)
        )
        generation, queues = broker.assigner.share(group, "new")
        assert generation > max(highest, before), "a generation was made twice"
        held = {lock.queue: lock for lock in broker.locks.states(group)}
        for queue in queues["t"]:
            answer = broker.locks.acquire(group, "new", [QueuePlace(topic="t", queue=queue)])
            if queue in held:
                assert not answer.locked, "a restored lock was given away within its lease"
                assert answer.refused[0].owner == held[queue].owner
            else:
                assert answer.locked[0].epoch > highest, "an epoch was made twice"
    broker.close()


def sweep(seeds: range) -> int:
    """Cut at every sync of every seed in every mode; return how many cases ran."""
    cases = 0
    for seed in seeds:
        for cut_at in range(1, run(seed, cut_at=None)[1].syncs + 1):
            disk, clients = run(seed, cut_at=cut_at)
            assert disk.faults["sync"], "the fault did not fire"
            for modes, left in disk.crash_images(seed):
                cases += len(modes)
                print(f"seed {seed}, cut at sync {cut_at}, {modes}")
                check(left, clients)
    return cases


def test_fences_grow_over_a_power_cut_at_any_sync_and_what_was_told_stays() -> None:
    assert sweep(range(2)) > 200


def test_a_client_that_believes_before_the_sync_is_deceived() -> None:
    deceived = cases = 0
    for cut_at in range(1, run(1, cut_at=None)[1].syncs + 1):
        disk, clients = run(1, cut_at=cut_at, early=True)
        cases += 1
        left = disk.crash_image(random.Random(1), CrashMode.NOTHING)
        deceived += went_back(opened(left, ManualClock()), clients) != []

    print(f"{deceived} of {cases}")
    assert deceived > cases // 10


@pytest.mark.crash
def test_fences_grow_over_a_power_cut_for_many_seeds() -> None:
    seeds = rounds(10)

    cases = sweep(range(100, 100 + seeds))

    assert cases > 75 * seeds
    report("L8 groups and locks", seeds=seeds, cuts=cases, fences_made_twice=0)
