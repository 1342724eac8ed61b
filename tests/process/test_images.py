"""Power cuts by a real kernel: copies of a mounted image under load, and a disk that is shut down.

Rows H6, S3 and S4 of the fault table. The kernel's own page cache and journal decide what is on the
disk; where no image may be mounted, the volatile disk of `test_kill.py` stands for them.
"""

import os
import random
import time
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from tests.process.boxes import LoopDisk, loop_disk, mounted
from tests.process.load import QUEUES, TOPIC, History, Load, judge, lost, stored
from tests.process.product import Broker
from tests.process.test_kill import drained
from tests.rounds import report, rounds, seed_of_run

pytestmark = [pytest.mark.process, pytest.mark.crash]
LYING = ("tests/process/lying_broker.py",)
COPIES = 3
# What a broker may say between the disk's end and its own.
_LAST_WORDS = ("sync_failed", "write_failed", "stopping", "engine_failed", "damaged")


def on_disk(disk: LoopDisk, *command: str) -> Broker:
    """Return a broker whose data lie on a disk, and whose log does not."""
    broker = Broker(disk.mounted / "data", *command)
    broker.log = disk.image.with_suffix(".log")
    return broker


def copied_under_load(
    directory: Path, seed: int, copies: int, *command: str
) -> list[tuple[LoopDisk, History]]:
    """Copy the disk under load so often; each with what clients knew when the copy began."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    found = []
    with loop_disk(directory) as disk:
        broker = on_disk(disk, *command)
        broker.prepare(**{TOPIC: QUEUES})
        # The store's own beginning is not what is cut here.
        os.sync()
        broker.start()
        load = Load(broker)
        load.start()
        try:
            for number in range(copies):
                load.wait_for_acks(rng.randrange(50, 600))
                time.sleep(rng.uniform(0, 0.02))
                copy = LoopDisk(directory / f"copy-{number}.img", directory / f"copy-{number}")
                known = load.history.so_far()
                disk.copy(copy.image, standing_still=broker.pid)
                known.attempted = load.history.so_far().attempted
                found.append((copy, known))
        finally:
            load.stop()
        assert broker.stop() == 0
    return found


def test_a_copy_of_the_disk_under_load_has_what_was_acknowledged(tmp_path: Path) -> None:
    seed, count = seed_of_run(), rounds(COPIES)
    acked = kept = unsynced = 0
    for copy, known in copied_under_load(tmp_path, seed, count):
        with mounted(copy):
            broker = on_disk(copy)
            broker.start()
            found = stored(broker)
            load = Load(broker, history=known)
            drained(broker, load)
            assert broker.stop() == 0
            acked, kept = acked + len(known.acked), kept + len(found)
            unsynced += broker.openings()[0]["cut_bytes"]
            judge(known, found)
        copy.image.unlink()

    report(
        "S3 H6 copies", copies=count, seed=seed, acked=acked, acked_lost=0,
        stored=kept, cut_bytes=unsynced,
    )  # fmt: skip


def test_a_copy_of_a_lying_disk_is_noticed(tmp_path: Path) -> None:
    """The negative control: without syncs the same copies must miss what was acknowledged."""
    seed = seed_of_run()
    ((copy, known),) = copied_under_load(tmp_path, seed, 1, *LYING)

    with mounted(copy):
        broker = on_disk(copy)
        broker.launch()
        code = broker.settled()
        if code is None:
            missing = len(lost(known, stored(broker)))
            assert missing > 0
            assert broker.stop() == 0
            report("H6 canary", seed=seed, acked=len(known.acked), acked_lost=missing)
        else:
            assert code == Exit.UNOPENABLE
            report("H6 canary", seed=seed, acked=len(known.acked), refused=1)


def test_a_disk_that_is_shut_down_ends_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    seed = seed_of_run()
    print(f"seed {seed}")
    with loop_disk(tmp_path) as disk:
        broker = on_disk(disk)
        broker.prepare(**{TOPIC: QUEUES})
        broker.start()
        load = Load(broker, refusals=_LAST_WORDS)
        load.start()
        load.wait_for_acks(random.Random(seed).randrange(50, 600))
        before = load.history.so_far()
        disk.shut_down()
        # A send that begins from here on meets a disk that is gone.
        attempted = load.history.so_far().attempted
        start = time.monotonic()
        code = broker.ended()
        took_s = time.monotonic() - start
        load.stop()
        history = load.history

        assert code == Exit.FATAL, broker.log.read_text()[-4_000:]
        assert history.acked.keys() <= attempted, "acknowledged after the disk was gone"
        (event,) = [line for line in broker.log.read_text().splitlines() if "engine_failed" in line]
        disk.unmount()
        disk.mount()
        broker.start()
        found = stored(broker)
        drained(broker, Load(broker, history=history))
        assert broker.stop() == 0
        # Of the one sync that is under way ext4 says now and then that it is done, and its bytes
        # are gone (docs/DURABILITY.md): of these nobody can promise anything, of all others we do.
        gone = set(lost(history, found))
        assert gone.isdisjoint(before.acked)
        for body in gone:
            del history.acked[body]
        judge(history, found)

    print(event)
    report(
        "S4", seed=seed, acked=len(history.acked), acked_lost=0, said_synced_by_ext4=len(gone),
        ended_after_ms=int(took_s * 1_000),
    )  # fmt: skip
