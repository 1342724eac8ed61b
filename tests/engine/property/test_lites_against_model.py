"""Many lite topics, clients of two groups, and lists that remember everything.

Random sends, receives, settlements, subscriptions, ends, restarts and kills. After each step: who
is handed a message is subscribed to its lite topic, nobody else of the group has anything of it,
and it is the first that the group has not settled. At the end nothing is left over.
"""

import random
from dataclasses import dataclass, field

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.litenames import lite_parts
from apps.engine.codec.record import decode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.limits import LITE_SILENT_MS
from apps.engine.litetypes import LiteAction, LiteModel, LiteSync
from apps.engine.testing.contracts.lite import lite_batch
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    GroupSpec,
    PullRequest,
    ReceiveRequest,
    TopicSpec,
    TopicType,
)
from tests.rounds import seed_of_run

CONFIG = EngineConfig(
    segment_bytes=262_144,
    batch_bytes_max=16_384,
    body_bytes_max=4_096,
    consume_queue_file_entries=16,
    reserve_bytes=0,
)
TTL_MS = 3_600_000
RETRY_MAX = 2
INVISIBLE_MS = 30_000
NAMES = [f"n{number}" for number in range(24)]
CLIENTS = ("a", "b", "c")
GROUPS = ("shared", "alone")
CATALOG = CatalogSnapshot(
    version=1,
    topics={
        "chats": TopicSpec(name="chats", queue_count=2, type=TopicType.LITE, lite_ttl_ms=TTL_MS)
    },
    groups={
        "shared": GroupSpec(name="shared", retry_max=RETRY_MAX),
        "alone": GroupSpec(name="alone", retry_max=RETRY_MAX, lite_model=LiteModel.EXCLUSIVE),
    },
)
STEPS = 400


@dataclass(slots=True)
class Held:
    """A message that a group has out or waits for: until when, and by which handle."""

    until_ms: int
    handle: str


@dataclass(slots=True)
class Side:
    """What one group has yet to settle of one lite topic, in order."""

    left: list[str] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)


class Lites:
    """A broker and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.sides = {(group, name): Side() for group in GROUPS for name in NAMES}
        self.last_ms: dict[str, int] = {}
        self.sets: dict[tuple[str, str], set[str]] = {}
        self.seen_ms: dict[tuple[str, str], int] = {}
        self.tries: dict[tuple[str, str], int] = {}
        self.number = 0
        self.handed = self.dead = self.ended = 0
        self.broker = self._open()
        self.broker.publish_catalog(CATALOG)

    def _open(self) -> Broker:
        return open_broker(self.disk, config=CONFIG, clock=self.clock, failpoints=Failpoints())

    # --- steps ---------------------------------------------------------------------------------

    def step(self) -> None:
        acts = [self.send] * 6 + [self.receive] * 8 + [self.settle] * 7 + [self.sync] * 4
        acts += [self.pass_time] * 3 + [self.show] * 4 + [self.end, self.checkpoint, self.bury]
        acts += [self.restart] if self.rng.random() < 0.3 else []
        self.rng.choice(acts)()

    def send(self) -> None:
        name = self.rng.choice(NAMES)
        bodies = []
        for _ in range(self.rng.randint(1, 4)):
            self.number += 1
            bodies.append(f"{name} {self.number}")
        batches = self.broker.appender.check([lite_batch(name, *bodies)])
        self.broker.appender.write(batches)
        self.last_ms[name] = self.clock.wall_ms()
        for group in GROUPS:
            self.sides[group, name].left += bodies

    def show(self) -> None:
        self.broker.log.sync()
        self.broker.show_synced()

    def sync(self) -> None:
        group, client = self.rng.choice(GROUPS), self.rng.choice(CLIENTS)
        action = self.rng.choice(list(LiteAction))
        names = [] if action is LiteAction.CLEAR else self.rng.sample(NAMES, self.rng.randint(1, 9))
        self.say(group, client, action, names)

    def say(self, group: str, client: str, action: LiteAction, names: list[str]) -> None:
        self._forget_silent()
        answer = self.broker.sync_lite(
            LiteSync(
                group=group, client_id=client, topic="chats", action=action, names=tuple(names)
            )
        )
        mine = self.sets.setdefault((group, client), set())
        match action:
            case LiteAction.ADD:
                mine |= set(names)
            case LiteAction.REMOVE:
                mine -= set(names)
            case LiteAction.REPLACE:
                self.sets[group, client] = mine = set(names)
            case LiteAction.CLEAR:
                mine.clear()
        for loser, name in answer.evicted:
            assert group == "alone"
            self.sets[group, loser].discard(name)
        assert answer.count == len(mine)
        if mine:
            self.seen_ms[group, client] = self.clock.monotonic_ms()
        if group == "alone":
            owned = [name for (g, _), names in self.sets.items() if g == group for name in names]
            assert len(owned) == len(set(owned)), "two clients have it alone"

    def _forget_silent(self) -> None:
        now_ms = self.clock.monotonic_ms()
        for key, seen_ms in self.seen_ms.items():
            if now_ms - seen_ms > LITE_SILENT_MS:
                self.sets.pop(key, None)

    def receive(self, group: str = "", client: str = "", most: int = 0) -> int:
        group = group or self.rng.choice(GROUPS)
        client = client or self.rng.choice(CLIENTS)
        self._forget_silent()
        result = self.broker.receive(
            ReceiveRequest(
                group=group,
                topics=("chats",),
                client_id=client,
                messages_max=most or self.rng.randint(1, 12),
                invisible_ms=INVISIBLE_MS,
                is_lite=True,
            )
        )
        mine = self.sets.get((group, client), set())
        if mine:
            self.seen_ms[group, client] = self.clock.monotonic_ms()
        now_ms = self.clock.monotonic_ms()
        for lease in result.leases:
            parts = lite_parts(lease.block.topic)
            assert parts is not None
            name = parts[1]
            side = self.sides[group, name]
            assert name in mine, f"{client} is not subscribed to {name}"
            assert all(held.until_ms <= now_ms for held in side.held.values()), "it is out"
            records = [
                decode_record(lease.block.payload, at)
                for at in starts_of(lease.block.sizes).tolist()
            ]
            bodies = [record.body.decode() for record in records]
            waiting = [body for body in side.left if self.tries.get((group, body), 0) <= RETRY_MAX]
            assert bodies == waiting[: len(bodies)], "not the first ones in order"
            for record, body in zip(records, bodies, strict=True):
                tries = self.tries[group, body] = self.tries.get((group, body), 0) + 1
                assert lease.attempt == tries
                handle = f"{lease.token}:{record.queue_offset}"
                side.held[body] = Held(now_ms + INVISIBLE_MS, handle)
            self.handed += len(bodies)
        return sum(len(lease.block) for lease in result.leases)

    def settle(self) -> None:
        now_ms = self.clock.monotonic_ms()
        out = [
            (group, side, body)
            for (group, _), side in self.sides.items()
            for body, held in side.held.items()
            if held.handle and held.until_ms > now_ms
        ]
        for group, side, body in self.rng.sample(out, min(len(out), self.rng.randint(1, 5))):
            held = side.held[body]
            if self.rng.random() < 0.75:
                self.broker.settler.ack(group, [held.handle])
                side.left.remove(body)
                del side.held[body]
            else:
                delay_ms = self.rng.choice((0, 1_000, 20_000))
                is_failure = self.rng.random() < 0.7
                self.broker.settler.nack(
                    group, [held.handle], delay_ms=delay_ms, is_failure=is_failure
                )
                self.tries[group, body] -= not is_failure
                side.held[body] = Held(now_ms + delay_ms, "")

    def bury(self) -> None:
        self.broker.expire()
        while (burial := self.broker.burying.next()) is not None:
            self.broker.burying.bury(burial, self.broker.burying.read(burial, wait=True))
        self.show()
        now_ms = self.clock.monotonic_ms()
        for (group, _), side in self.sides.items():
            over = [
                body
                for body in side.left
                if self.tries.get((group, body), 0) > RETRY_MAX
                and side.held[body].until_ms <= now_ms
            ]
            for body in over:
                side.left.remove(body)
                del side.held[body]
                self.dead += 1

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((500, 5_000, 30_000, 30_000, 100_000, 1_500_000)))

    def end(self) -> None:
        self.show()
        while self.broker.expire_lite():
            pass
        self._forget_silent()
        for name, last_ms in list(self.last_ms.items()):
            if last_ms <= self.clock.wall_ms() - TTL_MS:
                del self.last_ms[name]
                self.ended += 1
                for group in GROUPS:
                    self.sides[group, name] = Side()
        page = self.broker.literead.page("chats", after="", count=100)
        assert [topic.name for topic in page.topics] == sorted(self.last_ms)

    def checkpoint(self) -> None:
        self.broker.checkpoint()
        self.broker.queues.begin_cleaning()()

    def restart(self) -> None:
        if self.rng.random() < 0.5:
            self.broker.close()
        else:
            self.disk = self.disk.crash_image(self.rng, CrashMode.EVERYTHING)
        if self.rng.random() < 0.3 and self.disk.exists("checkpoint/consumequeue"):
            self.disk.remove("checkpoint/consumequeue")
        self.broker = self._open()
        self.sets.clear()
        self.seen_ms.clear()

    def finish(self) -> None:
        """Have everybody read all, and settle it."""
        for _ in range(RETRY_MAX + 3):
            self.clock.advance(INVISIBLE_MS)
            self.bury()
            for group in GROUPS:
                self.say(group, "a", LiteAction.ADD, NAMES)
                while self.receive(group, "a", 1_000):
                    for side in [s for (g, _), s in self.sides.items() if g == group]:
                        for body, held in list(side.held.items()):
                            if held.until_ms > self.clock.monotonic_ms() and held.handle:
                                self.broker.settler.ack(group, [held.handle])
                                side.left.remove(body)
                                del side.held[body]
        left = {key: side.left for key, side in self.sides.items() if side.left}
        assert left == {}, "lost"
        letters = 0
        for group in GROUPS:
            topic = f"%DLQ%{group}"
            if self.broker.queues.find(topic, 0) is not None:
                request = PullRequest(topic=topic, queue=0, queue_offset=0, messages_max=10_000)
                letters += len(self.broker.pull(request).block)
        assert letters == self.dead


@pytest.mark.parametrize("number", range(6))
def test_lite_topics_are_as_the_lists_say(number: int) -> None:
    seed = seed_of_run() + number
    print(f"MQWEB_TEST_SEED={seed}")
    lites = Lites(seed)
    for _ in range(STEPS):
        lites.step()
    lites.finish()

    assert lites.handed > STEPS // 4
    lites.broker.close()
