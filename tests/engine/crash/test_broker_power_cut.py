"""A whole broker whose power is cut at every sync: what was promised is there, and nothing else."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import SyncFailed
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import CatalogSnapshot, PullRequest, ReceiveRequest, RecordBatch, TopicSpec
from tests.rounds import report, rounds

CONFIG = EngineConfig(
    segment_bytes=16_384,
    batch_bytes_max=8_192,
    body_bytes_max=4_096,
    consume_queue_file_entries=16,
    reserve_bytes=0,
)
QUEUES = 2
STEPS = 30


@dataclass(slots=True)
class Promises:
    """What a client was told: places of messages, and messages settled for good."""

    stored: dict[tuple[int, int], bytes] = field(default_factory=dict)
    settled: set[tuple[int, int]] = field(default_factory=set)


class Client:
    """Sends, receives and acknowledges at random, and remembers what it was promised."""

    def __init__(self, broker: Broker, seed: int, *, early: bool) -> None:
        """Use a broker; an early client believes an answer before the sync."""
        self.attempted: set[bytes] = set()
        self.promises = Promises()
        self._pending = Promises()
        self._broker = broker
        self._rng = random.Random(seed)
        self._is_early = early
        self._number = 0
        self.syncs = 0

    def step(self) -> None:
        """Do one random thing."""
        act = self._rng.choice(
            [self._send, self._send, self._receive, self._sync, self._checkpoint]
        )
        act()
        if self._is_early:
            self.promise_all()

    def _send(self) -> None:
        queue = self._rng.randrange(QUEUES)
        bodies = []
        for _ in range(self._rng.randrange(1, 6)):
            self._number += 1
            bodies.append(b"%06d" % self._number + bytes(self._rng.randrange(900)))
        records = [encode_record(topic=b"t", queue=queue, body=body) for body in bodies]
        batch = RecordBatch(
            topic="t",
            queue=queue,
            payload=bytearray(b"".join(records)),
            sizes=np.array([len(record) for record in records], dtype=np.int32),
        )
        self.attempted.update(bodies)
        (stored,), _ = self._broker.appender.write(self._broker.appender.check([batch]))
        for index, body in enumerate(bodies):
            self._pending.stored[queue, stored.queue_offset + index] = body

    def _receive(self) -> None:
        for place, handle in received(self._broker, most=self._rng.randrange(1, 8)):
            if self._rng.random() < 0.7:
                self._broker.settler.ack("g", [handle])
                self._pending.settled.add(place)

    def _sync(self) -> None:
        self._broker.log.sync()
        self._broker.show_synced()
        self.promise_all()

    def _checkpoint(self) -> None:
        self._broker.checkpoint()
        self.promise_all()

    def promise_all(self) -> None:
        """Take everything so far for promised: it is synced."""
        self.promises.stored.update(self._pending.stored)
        self.promises.settled.update(self._pending.settled)
        self._pending = Promises()


def received(broker: Broker, *, most: int) -> list[tuple[tuple[int, int], str]]:
    """Receive for group g: (queue, offset) and handle of each message."""
    result = broker.receive(ReceiveRequest(group="g", topics=("t",), messages_max=most))
    found = []
    for lease in result.leases:
        for start in starts_of(lease.block.sizes).tolist():
            offset = decode_record(lease.block.payload, start).queue_offset
            found.append(((lease.block.queue, offset), f"{lease.token}:{offset}"))
    return found


def stored(broker: Broker) -> dict[tuple[int, int], bytes]:
    """Read everything there is."""
    found = {}
    for queue in range(QUEUES):
        result = broker.pull(
            PullRequest(topic="t", queue=queue, queue_offset=0, messages_max=10_000)
        )
        for start in starts_of(result.block.sizes).tolist():
            record = decode_record(result.block.payload, start)
            found[queue, record.queue_offset] = record.body
    return found


def opened(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    return open_broker(disk, config=CONFIG, clock=clock, failpoints=Failpoints())


def run(seed: int, *, cut_at: int | None, early: bool = False) -> tuple[SimulatedDisk, Client]:
    """Run the workload of `seed` up to its sync `cut_at`, which fails: there the power goes."""
    disk, clock = SimulatedDisk(), ManualClock()
    broker = opened(disk, clock)
    topics = {"t": TopicSpec(name="t", queue_count=QUEUES)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    broker.checkpoint()
    begin = disk.sync_count
    disk.fail_sync_from = None if cut_at is None else begin + cut_at
    client = Client(broker, seed, early=early)
    try:
        for _ in range(STEPS):
            client.step()
            clock.advance(7)
    except SyncFailed:
        disk.fail_sync_from = None
    client.syncs = disk.sync_count - begin
    return disk, client


def syncs_of(seed: int) -> int:
    """Count the syncs of the workload, which are the places to cut."""
    return run(seed, cut_at=None)[1].syncs


def check(disk: SimulatedDisk, client: Client) -> None:
    """Start on what is left and compare with what was promised."""
    clock = ManualClock()
    # Any lease handed out before is over.
    clock.advance(10_000_000)
    broker = opened(disk, clock)
    found = stored(broker)
    for place, body in client.promises.stored.items():
        assert found.get(place) == body, f"lost {place}"
    assert set(found.values()) <= client.attempted, "a message nobody sent"
    for queue in range(QUEUES):
        offsets = sorted(offset for number, offset in found if number == queue)
        assert offsets == list(range(len(offsets))), "a hole"
    again = {place for place, _ in received(broker, most=10_000)}
    assert not again & client.promises.settled, "handed out after it was settled"
    assert again | settled_in(broker) == set(found), "neither settled nor handed out"
    broker.close()
    once_more = opened(disk, clock)
    assert once_more.log.recovery.clean
    assert stored(once_more) == found


def settled_in(broker: Broker) -> set[tuple[int, int]]:
    """Return what the group has settled."""
    found = set()
    for (_, _, queue), progress in broker.state.progress.items():
        found |= {(queue, offset) for offset in range(progress.floor)}
        done = np.flatnonzero(progress.settled) + progress.floor
        found |= {(queue, int(offset)) for offset in done}
    return found


def sweep(
    seeds: range, modes: Sequence[CrashMode] = tuple(CrashMode), *, early: bool = False
) -> int:
    """Cut at every sync of every seed in every one of `modes`; return how many cases ran."""
    cases = 0
    for seed in seeds:
        for cut_at in range(1, syncs_of(seed) + 1):
            disk, client = run(seed, cut_at=cut_at, early=early)
            assert disk.faults["sync"], "the fault did not fire"
            for alike, left in disk.crash_images(seed, modes):
                cases += len(alike)
                print(f"seed {seed}, cut at sync {cut_at}, {alike}")
                check(left, client)
    return cases


def test_a_power_cut_at_any_sync_breaks_no_promise() -> None:
    cases = sweep(range(1))

    assert cases > 100


def test_a_client_that_is_answered_before_the_sync_loses_messages() -> None:
    with pytest.raises(AssertionError, match="lost"):
        sweep(range(1), [CrashMode.NOTHING], early=True)


@pytest.mark.crash
def test_a_power_cut_at_any_sync_breaks_no_promise_for_many_seeds() -> None:
    seeds = rounds(10)

    cases = sweep(range(100, 100 + seeds))

    assert cases > 150 * seeds
    report("S1 S2 broker", seeds=seeds, cuts=cases, acked_lost=0, after_acknowledgement=0)
