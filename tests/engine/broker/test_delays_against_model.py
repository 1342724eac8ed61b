"""A broker with tiny limits against a table of what was sent: random work, kills and power cuts.

A seed names a run; a failing one is printed by its case.
"""

import random
from dataclasses import dataclass, field

import pytest

from apps.engine.broker.core import Broker
from apps.engine.delaytypes import Recall
from apps.engine.testing.crashes import CrashMode
from tests.engine.broker.delayed import TINY, Store, deliver, found, listed, move, send_at, sync
from tests.rounds import rounds

SEEDS = range(8)
STEPS = 120
QUEUES = 2


@dataclass(slots=True)
class Sent:
    """A message, and what it is known to be."""

    due_ms: int
    handle: str
    end: Recall | None = None


@dataclass(slots=True)
class Run:
    """One store, the table, and the messages that arrived by the moment they did."""

    seed: int
    store: Store = field(default_factory=lambda: Store(tuning=TINY))
    table: dict[str, Sent] = field(default_factory=dict)
    moves: int = 0
    ends: int = 0

    def go(self) -> None:
        rng = random.Random(self.seed)
        broker = self.store.open(queues=QUEUES)
        for _ in range(STEPS):
            broker = self.step(rng, broker)
            self.check(broker)
        self.store.clock.advance(10_000)
        deliver(broker)
        self.delivered()
        self.check(broker)
        broker.checkpoint()
        broker.checkpoint()
        assert self.store.disk.names("timer") in (["manifest"], []), "a run outlived its messages"
        assert broker.state.timers.delivered == []

    def step(self, rng: random.Random, broker: Broker) -> Broker:
        act = rng.choice(["send"] * 3 + ["advance"] * 3 + ["end"] * 2 + ["move"] * 2 + ["again"])
        if act == "send":
            self.send(rng, broker)
        elif act == "advance":
            self.store.clock.advance(rng.choice([1, 10, 10, 60, 300]))
            deliver(broker)
            self.delivered()
        elif act == "end":
            self.end(rng, broker)
        elif act == "move":
            self.moves += move(broker)
        else:
            return self.again(rng, broker)
        return broker

    def send(self, rng: random.Random, broker: Broker) -> None:
        now_ms, queue = self.store.clock.wall_ms(), rng.randrange(QUEUES)
        dues = {
            f"m{len(self.table) + number}": now_ms + rng.choice([1, 5, 50, 50, 200, 1_000, 3_000])
            for number in range(rng.randrange(1, 7))
        }
        answer = send_at(broker, dues, queue=queue)
        for (name, due_ms), handle in zip(dues.items(), answer.handles, strict=True):
            self.table[name] = Sent(due_ms, handle)

    def end(self, rng: random.Random, broker: Broker) -> None:
        if not self.table:
            return
        sent = self.table[rng.choice(list(self.table))]
        if rng.random() < 0.5:
            outcome, wanted = broker.delaydelivery.recall(sent.handle, wait=True), Recall.CANCELLED
        else:
            outcome, wanted = (
                broker.delaydelivery.deliver_now(sent.handle, wait=True),
                Recall.DELIVERED,
            )
        assert outcome is (sent.end or wanted)
        self.ends += sent.end is None
        sent.end = outcome

    def delivered(self) -> None:
        for sent in self.table.values():
            if sent.end is None and sent.due_ms <= self.store.clock.wall_ms():
                sent.end = Recall.DELIVERED

    def again(self, rng: random.Random, broker: Broker) -> Broker:
        how = rng.choice(["close", "kill", "cut", "cut"])
        if how == "close":
            broker.close()
        elif how == "kill":
            self.store.disk = self.store.disk.crash_image(rng, CrashMode.EVERYTHING)
        else:
            sync(broker)
            self.store.disk = self.store.disk.crash_image(rng, rng.choice(list(CrashMode)))
        return self.store.open(queues=QUEUES)

    def check(self, broker: Broker) -> None:
        there = [one.body.decode() for one in found(broker)]
        assert sorted(there) == sorted(
            name for name, sent in self.table.items() if sent.end is Recall.DELIVERED
        )
        waiting = {name: sent for name, sent in self.table.items() if sent.end is None}
        assert len(broker.delays.waiting) == len(waiting)
        pages = listed(broker, messages_max=5)
        assert {one.message_id: one.due_ms for one in pages} == {
            name: sent.due_ms for name, sent in waiting.items()
        }
        assert [one.due_ms for one in pages] == sorted(one.due_ms for one in pages)
        histogram = broker.delaylist.status().histogram
        assert sum(count for _, count in histogram) == len(waiting)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_message_ends_once_whatever_happens(seed: int) -> None:
    print(f"seed {seed}")
    run = Run(seed)

    run.go()

    assert run.moves > 0, "no run was written"
    assert run.ends > 0, "nothing was recalled"


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(1_000, 1_000 + rounds(30)))
def test_every_message_ends_once_whatever_happens_for_many_seeds(seed: int) -> None:
    print(f"seed {seed}")

    Run(seed).go()
