"""A start killed in its middle, five times in a row, leaves the bytes that one start leaves.

Row P11 of the fault table. The simulated disk ends a start at every write and every sync it makes.
Only how often a store was opened may differ: the epoch, and the checkpoint that names it.
"""

import random
from collections.abc import Callable

import pytest

from apps.engine.broker.core import open_broker
from apps.engine.errors import SyncFailed, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.crash.test_broker_power_cut import CONFIG, run, stored, syncs_of
from tests.rounds import report, rounds

CRASHES = 5
EPOCHS = ("epoch", "checkpoint/log")
Order = Callable[[SimulatedDisk, int], None]


def fail_sync(disk: SimulatedDisk, after: int) -> None:
    disk.fail_sync_from = disk.sync_count + after


def fail_write(disk: SimulatedDisk, after: int) -> None:
    disk.fail_write_from = disk.write_count + after


def start(disk: SimulatedDisk) -> dict[tuple[int, int], bytes]:
    """Open the store as a start does; return what it serves."""
    broker = open_broker(disk, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())
    return stored(broker)


def recovered(disk: SimulatedDisk) -> dict[str, bytes]:
    """Start, kill, and return every file's bytes but those that count starts."""
    start(disk)
    return {path: data for path, data in disk.content().items() if path not in EPOCHS}


def killed(disk: SimulatedDisk) -> SimulatedDisk:
    """Return the disk as a kill leaves it: everything that was written is there."""
    return disk.crash_image(random.Random(0), CrashMode.EVERYTHING)


def crashed(image: SimulatedDisk, order: Order, after: int) -> tuple[SimulatedDisk, int]:
    """Kill a start again and again at what is ordered; return the disk and how often that hit."""
    hits = 0
    for _ in range(CRASHES):
        order(image, after)
        try:
            start(image)
        except (SyncFailed, WriteFailed):
            hits += 1
        image = killed(image)
    return image, hits


def check_cut(seed: int, cut_at: int) -> int:
    """Crash the starts after one power cut everywhere; return how many crashes there were."""
    disk, _ = run(seed, cut_at=cut_at)
    assert disk.faults["sync"], "the fault did not fire"
    left = disk.crash_image(random.Random(seed), CrashMode.PREFIX)
    one = killed(left)
    once, served = recovered(one), start(killed(left))
    crashes = 0
    for order in (fail_sync, fail_write):
        after = 1
        while True:
            image, hits = crashed(killed(left), order, after)
            crashes += hits
            assert recovered(image) == once, f"seed {seed}, cut {cut_at}, {order.__name__} {after}"
            assert start(killed(image)) == served
            if not hits:
                break
            after += 1
    return crashes


def test_a_start_that_is_killed_five_times_leaves_what_one_start_leaves() -> None:
    assert check_cut(1, cut_at=syncs_of(1) // 2) > 20


@pytest.mark.crash
def test_a_start_that_is_killed_five_times_leaves_what_one_start_leaves_long() -> None:
    crashes = cuts = 0
    for seed in range(2, 2 + rounds(2)):
        for cut_at in range(1, syncs_of(seed) + 1, 5):
            crashes += check_cut(seed, cut_at)
            cuts += 1
    report("P11", power_cuts=cuts, crashes_in_recovery=crashes, different=0)
