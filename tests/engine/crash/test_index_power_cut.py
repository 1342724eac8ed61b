"""The power cut at every sync of a store with keys: the index is what the log says, and found."""

import random

import pytest

from apps.engine.broker.core import Broker
from apps.engine.errors import SyncFailed
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.indexing import check_index
from tests.engine.broker.searching import opened, publish, send, sync
from tests.rounds import rounds

STEPS = 8


def work(broker: Broker, clock: ManualClock, seed: int) -> None:
    """Send keys at random, sync and take checkpoints."""
    rng = random.Random(seed)
    for step in range(STEPS):
        act = ("send", "sync", "send", "checkpoint")[step % 4]
        if act == "send":
            count = rng.randrange(1, 40)
            properties = [
                {"KEYS": f"k{rng.randrange(9)} common", "UNIQ_KEY": f"{rng.random()}"}
                for _ in range(count)
            ]
            send(broker, properties, queue=rng.randrange(3))
        elif act == "sync":
            sync(broker)
        else:
            broker.checkpoint()
        clock.advance(rng.randrange(2000))


def run(seed: int, *, cut_at: int | None) -> tuple[SimulatedDisk, int]:
    """Run the workload up to its sync `cut_at`, which fails; return the disk and all syncs."""
    disk, clock = SimulatedDisk(), ManualClock()
    broker = opened(disk, clock)
    publish(broker, "t")
    broker.checkpoint()
    begin = disk.sync_count
    disk.fail_sync_from = None if cut_at is None else begin + cut_at
    try:
        work(broker, clock, seed)
    except SyncFailed:
        disk.fail_sync_from = None
    return disk, disk.sync_count - begin


def check(disk: SimulatedDisk) -> None:
    """Start on what is left, twice."""
    for _ in range(2):
        broker = opened(disk, ManualClock())
        assert broker.index.rebuilt_from is None, "thrown away"
        check_index(broker)
        broker.close()
        verdicts = dict(broker.index.verify())
        assert set(verdicts.values()) <= {None}, verdicts


def sweep(seeds: range) -> int:
    """Cut at every sync of every seed in every mode; return how many cases ran."""
    cases = 0
    for seed in seeds:
        for cut_at in range(1, run(seed, cut_at=None)[1] + 1):
            disk, _ = run(seed, cut_at=cut_at)
            assert disk.faults["sync"], "the fault did not fire"
            for modes, left in disk.crash_images(seed):
                cases += len(modes)
                print(f"seed {seed}, cut at sync {cut_at}, {modes}")
                check(left)
    return cases


def test_a_power_cut_at_any_sync_leaves_an_index_that_is_whole() -> None:
    assert sweep(range(1)) > 60


@pytest.mark.longest
@pytest.mark.crash
def test_a_power_cut_at_any_sync_leaves_an_index_that_is_whole_for_many_seeds() -> None:
    assert sweep(range(100, 100 + rounds(8))) > 400
