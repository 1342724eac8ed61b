"""Delayed messages and a power cut at every sync: each is in its queue once, or still waiting."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from apps.engine.broker.core import Broker
from apps.engine.delaytypes import Recall
from apps.engine.errors import StoreFull, SyncFailed
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.delayed import TINY, Store, bodies, deliver, move, send_at, sync
from tests.rounds import report, rounds

STEPS = 24


@dataclass(slots=True)
class Known:
    """What a client was told for certain: names of messages."""

    sent: set[str] = field(default_factory=set)
    delivered: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)


class Client:
    """Sends, cancels, lets time go by and moves what waits; believes an answer after its sync."""

    def __init__(self, store: Store, broker: Broker, seed: int, *, early: bool) -> None:
        self.known = Known()
        self.dues: dict[str, int] = {}
        self.tried_to_cancel: set[str] = set()
        self.moves = 0
        self._handles: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self._store = store
        self._broker = broker
        self._rng = random.Random(seed)
        self._is_early = early

    def step(self) -> None:
        self._rng.choice([self._send, self._send, self._cancel, self._wait, self._move])()
        if self._is_early:
            self._believe()
        elif self._rng.random() < 0.4:
            sync(self._broker)
            self._believe()

    def _send(self) -> None:
        now_ms, count = self._store.clock.wall_ms(), len(self.dues)
        dues = {
            f"m{count + number}": now_ms + self._rng.choice([5, 40, 150, 900])
            for number in range(self._rng.randrange(1, 6))
        }
        self.dues |= dues
        answer = send_at(self._broker, dues, queue=self._rng.randrange(2))
        self._handles |= dict(zip(dues, answer.handles, strict=True))

    def _cancel(self) -> None:
        if self._handles:
            name = self._rng.choice(list(self._handles))
            self.tried_to_cancel.add(name)
            if self._broker.delaydelivery.recall(self._handles[name], wait=True) is (
                Recall.CANCELLED
            ):
                self._cancelled.add(name)

    def _wait(self) -> None:
        self._store.clock.advance(self._rng.choice([5, 20, 100]))
        deliver(self._broker)

    def _move(self) -> None:
        self.moves += move(self._broker)
        self._believe()

    def _believe(self) -> None:
        self.known.sent = set(self._handles)
        self.known.cancelled |= self._cancelled
        if not self._is_early:
            self.known.delivered |= set(bodies(self._broker))


def run(seed: int, *, cut_at: int | None, early: bool = False) -> tuple[Store, Client, int]:
    """Run the workload of `seed` up to its sync `cut_at`, which fails: there the power goes."""
    store = Store(tuning=TINY)
    broker = store.open()
    broker.checkpoint()
    begin = store.disk.sync_count
    store.disk.fail_sync_from = None if cut_at is None else begin + cut_at
    client = Client(store, broker, seed, early=early)
    try:
        for _ in range(STEPS):
            client.step()
    except SyncFailed:
        store.disk.fail_sync_from = None
    return store, client, store.disk.sync_count - begin


def check(store: Store, disk: SimulatedDisk, client: Client) -> None:
    """Start on what is left, let all time go by, and compare with what was promised."""
    again = Store(disk=disk, clock=store.clock, tuning=TINY)
    broker = again.open()
    at_once = set(bodies(broker))
    assert client.known.delivered <= at_once, "a delivered message is gone"
    assert all(client.dues[name] <= store.clock.wall_ms() for name in at_once), "early"
    deliver(broker)
    move(broker)
    again.clock.advance(400)
    deliver(broker)
    broker.close()
    broker = again.open()
    again.clock.advance(2_000)
    deliver(broker)
    there = bodies(broker)
    assert len(there) == len(set(there)), "delivered twice"
    assert set(there) <= set(client.dues), "a message nobody sent"
    assert not set(there) & client.known.cancelled, "delivered after it was cancelled"
    missing = client.known.sent - set(there)
    assert missing <= client.tried_to_cancel, f"lost {sorted(missing)}"
    assert len(broker.delays.waiting) == 0


def sweep(
    seeds: range, modes: Sequence[CrashMode] = tuple(CrashMode), *, early: bool = False
) -> tuple[int, int]:
    """Cut at every sync of every seed in every one of `modes`; return cases and runs written."""
    cases = moves = 0
    for seed in seeds:
        _, whole, syncs = run(seed, cut_at=None, early=early)
        moves += whole.moves
        for cut_at in range(1, syncs + 1):
            store, client, _ = run(seed, cut_at=cut_at, early=early)
            assert store.disk.faults["sync"], "the fault did not fire"
            now_ms = store.clock.wall_ms()
            for alike, left in store.disk.crash_images(seed, modes):
                cases += len(alike)
                print(f"seed {seed}, cut at sync {cut_at}, {alike}")
                store.clock = type(store.clock)(now_ms)
                check(store, left, client)
    return cases, moves


def test_a_power_cut_at_any_sync_delivers_each_delayed_message_once() -> None:
    cases, moves = sweep(range(1))

    assert cases > 100
    assert moves, "the sweep saw no runs"


def test_a_client_that_is_answered_before_the_sync_loses_delayed_messages() -> None:
    with pytest.raises(AssertionError, match=r"lost|gone|early|cancelled"):
        sweep(range(1), [CrashMode.NOTHING], early=True)


@pytest.mark.crash
def test_a_power_cut_at_any_sync_delivers_each_delayed_message_once_for_many_seeds() -> None:
    seeds = rounds(10)

    cases, _ = sweep(range(100, 100 + seeds))

    assert cases > 80 * seeds
    report("S1 S2 delays", seeds=seeds, cuts=cases, early=0, lost=0, doubled=0)


@pytest.mark.parametrize("place", ["timer.before_run", "timer.after_run"])
def test_a_run_that_cannot_be_written_leaves_everything_where_it_was(place: str) -> None:
    store = Store(tuning=TINY, failpoints=Failpoints(f"{place}=full(1)"))
    broker, now_ms = store.open(), store.clock.wall_ms()
    send_at(broker, {f"{number}": now_ms + 1_000 for number in range(6)})

    with pytest.raises(StoreFull):
        move(broker)

    assert store.failpoints.fired[place] == 1
    assert [name for name in store.disk.names("timer") if name.endswith(".run")] == []
    assert len(broker.delays.waiting) == 6
    store.clock.advance(1_000)
    assert deliver(broker) == 6
