"""The sums of what lite topics hold and groups have left in them, and a count of each by hand.

Random sends, receives, settlements, subscriptions, commits, resets, trims, ends, decisions,
restarts and kills, with groups that begin at the first message, at the end and at a time. After
each step the sums are what the count says; they are unknown only where the broker was not asked
often enough yet.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.caretypes import QueueReset, ResetRequest
from apps.engine.codec.litenames import is_lite, lite_parts, lite_topic
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.failpoints import Failpoints
from apps.engine.litetypes import LiteAction, LiteBacklog, LiteSync, LiteTotal
from apps.engine.testing.contracts.lite import handles_of, lite_batch
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    ConsumeFrom,
    GroupSpec,
    OffsetCommit,
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
INVISIBLE_MS = 30_000
NAMES = [f"n{number}" for number in range(16)]
CLIENTS = ("a", "b")
GROUPS = ("first", "last", "since", "other")
STEPS = 300


def catalog(version: int, rng: random.Random, now_ms: int) -> CatalogSnapshot:
    """Return decisions about the groups; that of one changes."""
    begin = rng.choice(list(ConsumeFrom))
    begin_ms = now_ms - 60_000 if begin is ConsumeFrom.TIMESTAMP else None
    return CatalogSnapshot(
        version=version,
        topics={
            "chats": TopicSpec(name="chats", queue_count=1, type=TopicType.LITE, lite_ttl_ms=TTL_MS)
        },
        groups={
            "last": GroupSpec(name="last", consume_from=ConsumeFrom.LAST),
            "since": GroupSpec(
                name="since", consume_from=ConsumeFrom.TIMESTAMP, consume_from_ms=now_ms
            ),
            "other": GroupSpec(name="other", consume_from=begin, consume_from_ms=begin_ms),
        },
    )


@dataclass(slots=True, kw_only=True)
class Counted:
    """What a group has left to do, counted by hand."""

    lag: int = 0
    topics_behind: int = 0
    in_flight: int = 0
    ready: int = 0
    oldest_ms: int | None = None


class Lags:
    """A broker, and when its messages were stored."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.stored_ms: dict[tuple[str, int], int] = {}
        self.handles: list[tuple[str, str]] = []
        self.compared = self.unknown = self.behind = 0
        self.broker = self._open()
        self._publish()

    def _open(self) -> Broker:
        broker = open_broker(self.disk, config=CONFIG, clock=self.clock, failpoints=Failpoints())
        show = broker.show_synced
        self.came = 0

        def counted() -> dict[tuple[str, int], int]:
            grown = show()
            for (topic, _), before in grown.items():
                if is_lite(topic):
                    self.came += broker.queues.queue(topic, 0).visible - before
            return grown

        # A checkpoint shows what it synced as well.
        broker.show_synced = counted  # type: ignore[method-assign]
        return broker

    def _publish(self) -> None:
        version = self.broker.catalog.snapshot.version + 1
        self.broker.publish_catalog(catalog(version, self.rng, self.clock.wall_ms()))

    # --- steps ---------------------------------------------------------------------------------

    def step(self) -> None:
        acts = [self.send] * 6 + [self.show] * 5 + [self.receive] * 8 + [self.settle] * 7
        acts += [self.sync] * 4 + [self.pass_time] * 3 + [self.commit, self.reset, self.trim]
        acts += [self.end, self.broker.checkpoint]
        acts += [self.restart, self._publish] if self.rng.random() < 0.3 else []
        self.rng.choice(acts)()

    def send(self) -> None:
        name = self.rng.choice(NAMES)
        bodies = ["x"] * self.rng.randint(1, 4)
        self.broker.appender.write(self.broker.appender.check([lite_batch(name, *bodies)]))
        end = self._queue(name).end
        for offset in range(end - len(bodies), end):
            self.stored_ms[name, offset] = self.clock.wall_ms()

    def show(self) -> None:
        self.broker.log.sync()
        self.broker.show_synced()

    def receive(self) -> None:
        group = self.rng.choice(GROUPS)
        result = self.broker.receive(
            ReceiveRequest(
                group=group,
                topics=("chats",),
                client_id=self.rng.choice(CLIENTS),
                messages_max=self.rng.randint(1, 9),
                invisible_ms=INVISIBLE_MS,
                is_lite=True,
            )
        )
        self.handles += [(group, handle) for handle in handles_of(result.leases)]

    def settle(self) -> None:
        self.rng.shuffle(self.handles)
        some, self.handles = self.handles[:4], self.handles[4:]
        for group, handle in some:
            match self.rng.randrange(6):
                case 0:
                    self.broker.settler.nack(group, [handle], delay_ms=self.rng.choice((0, 9_000)))
                case 1:
                    self.broker.settler.extend(group, [handle], invisible_ms=INVISIBLE_MS)
                case 2:
                    self.broker.settler.nack(group, [handle], delay_ms=9_000, is_failure=False)
                case _:
                    self.broker.settler.ack(group, [handle])

    def sync(self) -> None:
        action = self.rng.choice(list(LiteAction))
        names = [] if action is LiteAction.CLEAR else self.rng.sample(NAMES, self.rng.randint(1, 6))
        self.broker.sync_lite(
            LiteSync(
                group=self.rng.choice(GROUPS),
                client_id=self.rng.choice(CLIENTS),
                topic="chats",
                action=action,
                names=tuple(names),
            )
        )

    def commit(self) -> None:
        for queue in self._some():
            offset = self.rng.randint(queue.min_offset, max(queue.min_offset, queue.visible))
            committed = OffsetCommit(topic=queue.topic, queue=0, queue_offset=offset)
            self.broker.offsets.commit(self.rng.choice(GROUPS), [committed])

    def reset(self) -> None:
        for queue in self._some():
            target = self.rng.randint(queue.min_offset, max(queue.min_offset, queue.visible))
            self.broker.resets.reset(
                ResetRequest(
                    group=self.rng.choice(GROUPS),
                    reset_id=f"r{self.rng.random()}",
                    queues=(
                        QueueReset(
                            topic=queue.topic,
                            queue=0,
                            target=target,
                            expected_min=0,
                            expected_max=1 << 40,
                        ),
                    ),
                )
            )

    def trim(self) -> None:
        for queue in self._some():
            begin = self.rng.randint(queue.min_offset, max(queue.min_offset, queue.visible))
            self.broker.retention.hide({(queue.topic, 0): begin})

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((500, 5_000, 30_000, 100_000, 1_500_000)))
        self.broker.expire()

    def end(self) -> None:
        while self.broker.expire_lite():
            pass

    def restart(self) -> None:
        if self.rng.random() < 0.5:
            self.broker.close()
        else:
            self.disk = self.disk.crash_image(self.rng, CrashMode.EVERYTHING)
        self.broker = self._open()

    # --- what must be true ---------------------------------------------------------------------

    def compare(self) -> None:
        self.broker.expire()
        self.broker.literead.sets.forget_silent()
        held = sum(max(0, queue.visible - queue.min_offset) for queue in self._queues())
        assert self.broker.lite_totals() == {"chats": LiteTotal(came=self.came, held=held)}
        counted = {group: self._counted(group) for group in GROUPS}
        rows = {row.group: row for row in self.broker.litelags.rows()}
        for group, found in counted.items():
            row = rows.get(group)
            assert (row is None) == (found is None), group
            if row is not None and found is not None:
                assert row.topic == "chats"
                self._same(row, found)

    def _same(self, row: LiteBacklog, found: Counted) -> None:
        if row.lag is None:
            assert row.topics_behind is row.oldest_age_ms is row.passed is None
            self.unknown += 1
            return
        age_ms = None if found.oldest_ms is None else self.clock.wall_ms() - found.oldest_ms
        assert row.lag == found.lag
        assert row.topics_behind == found.topics_behind
        assert row.in_flight == found.in_flight
        assert row.ready == found.ready
        assert row.oldest_age_ms == age_ms
        assert row.passed is not None
        assert row.passed >= 0
        self.compared += 1
        self.behind += found.lag > 0

    def _counted(self, group: str) -> Counted | None:
        """Count what a group has left to do; None for one that reads no lite topic."""
        state, sets = self.broker.state, self.broker.literead.sets
        is_read = any(p.group == group and is_lite(p.topic) for p in state.progress.values())
        if not is_read and not sets.of_group(group):
            return None
        found = Counted()
        for queue in self._queues():
            progress = state.progress.get((group, queue.topic, 0))
            first = self._begin(group, queue) if progress is None else progress.floor
            lag = queue.visible - max(first, queue.min_offset)
            if lag <= 0:
                continue
            found.lag += lag
            found.topics_behind += 1
            # Somebody has read it: what is cold has no age yet.
            stored_ms = self.broker.times.of(queue, max(first, queue.min_offset), wait=True)
            assert stored_ms == self.stored_ms[_name(queue), max(first, queue.min_offset)]
            found.oldest_ms = min(stored_ms, found.oldest_ms or stored_ms)
            if progress is None:
                found.ready += lag
                continue
            found.ready += queue.visible - progress.cursor
            for entry in filter(None, map(state.leases.get, progress.leases)):
                if entry.is_out:
                    found.in_flight += len(entry.offsets)
                else:
                    found.ready += len(entry.offsets)
        return found

    def _begin(self, group: str, queue: ConsumeQueue) -> int:
        spec = self.broker.catalog.group(group)
        if self.broker.literead.sets.has(group, queue.topic):
            return queue.min_offset
        if spec.consume_from is ConsumeFrom.LAST:
            return queue.visible
        if spec.consume_from is ConsumeFrom.TIMESTAMP:
            assert spec.consume_from_ms is not None
            for offset in range(queue.min_offset, queue.visible):
                if self.stored_ms[_name(queue), offset] >= spec.consume_from_ms:
                    return offset
            return queue.visible
        return queue.min_offset

    def _queue(self, name: str) -> ConsumeQueue:
        return self.broker.queues.queue(lite_topic("chats", name), 0)

    def _queues(self) -> Iterator[ConsumeQueue]:
        return (queue for queue in self.broker.queues if is_lite(queue.topic))

    def _some(self) -> list[ConsumeQueue]:
        found = list(self._queues())
        return self.rng.sample(found, min(len(found), 2))


def _name(queue: ConsumeQueue) -> str:
    parts = lite_parts(queue.topic)
    assert parts is not None
    return parts[1]


@pytest.mark.parametrize("number", range(6))
def test_sums_are_what_a_count_says(number: int) -> None:
    seed = seed_of_run() + number
    print(f"MQWEB_TEST_SEED={seed}")
    lags = Lags(seed)
    for _ in range(STEPS):
        lags.step()
        lags.compare()

    assert lags.compared > STEPS
    assert lags.behind > STEPS // 2
    assert lags.unknown < STEPS // 10
    lags.broker.close()
