"""Writes gathered in memory: what is read, what is committed when, and what a kill takes."""

import random
from dataclasses import replace

import numpy as np
import pytest

from apps.engine.codec.record import decode_record
from apps.engine.errors import StoreFull, WriteFailed
from apps.engine.log.commitlog import AppendedFrame, CommitLog
from apps.engine.testing.contracts.log import SMALL, bodies_of, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk

POOL_BYTES = 16_384


def opened(disk: SimulatedDisk, pool_bytes: int = POOL_BYTES) -> CommitLog:
    config = replace(SMALL, flush_pool_bytes=pool_bytes)
    return CommitLog.open(disk, config=config, clock=ManualClock())


def killed(disk: SimulatedDisk) -> CommitLog:
    """Return the log after a kill: what the system was given is there, synced or not."""
    return opened(disk.crash_image(random.Random(0), "everything"))


def body_of(log: CommitLog, frame: AppendedFrame) -> bytes:
    """Read a frame's only record as readers do, from the disk and the pool."""
    (start,) = frame.run_log_offsets
    places, sizes = np.array([start], dtype=np.int64), np.array([frame.end - start], dtype=np.int32)
    return decode_record(log.read_records(places, sizes, wait=True)).body


def test_what_lies_in_the_pool_is_read_and_does_not_survive_a_kill() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    writes = disk.write_count
    frames = [log.append([run_of([b"one"])]), log.append([run_of([b"two"])])]

    assert disk.write_count == writes
    assert log.pooled_bytes == log.written_offset
    assert [body_of(log, frame) for frame in frames] == [b"one", b"two"]
    assert bodies_of(killed(disk)) == []

    log.commit_pool()

    assert (disk.write_count, log.pooled_bytes) == (writes + 1, 0)
    assert bodies_of(killed(disk)) == [b"one", b"two"]


def test_a_sync_commits_first() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    log.append([run_of([b"one"])])

    log.sync()

    after_a_power_cut = opened(disk.crash_image(random.Random(0), "nothing"))
    assert bodies_of(after_a_power_cut) == [b"one"]


def test_a_full_pool_commits_and_larger_frames_pass_it() -> None:
    disk = SimulatedDisk()
    log = opened(disk, pool_bytes=6_000)
    log.append([run_of([bytes(3_000)])])
    log.append([run_of([bytes(3_000)])])
    assert (log.pool_commits, log.pooled_bytes < 6_000) == (1, True)

    log.append([run_of([bytes(7_000)])])

    assert (log.pool_commits, log.pooled_bytes) == (3, 0)
    assert [len(body) for body in bodies_of(killed(disk))] == [3_000, 3_000, 7_000]


def test_a_commit_that_finds_no_room_has_lost_what_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    log.append([run_of([b"taken"])])
    fired: list[int] = []

    def full(*_: object) -> None:
        fired.append(1)
        raise StoreFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(log._segments, "write", full)
        with pytest.raises(WriteFailed):
            log.commit_pool()

    assert fired == [1]
    with pytest.raises(WriteFailed):
        log.append([run_of([b"more"])])


@pytest.mark.parametrize("seed", range(8))
def test_a_pooled_log_is_a_prefix_of_what_was_written_whenever_it_is_killed(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    disk = SimulatedDisk()
    log = opened(disk, pool_bytes=rng.choice([1, 2_000, POOL_BYTES, 200_000]))
    sent: list[bytes] = []
    places: list[AppendedFrame] = []
    committed = 0
    for number in range(120):
        body = b"%d:" % number + bytes(rng.choice([0, 50, 3_000, 8_000]))
        places.append(log.append([run_of([body])]))
        sent.append(body)
        at = rng.randrange(len(sent))
        assert body_of(log, places[at]) == sent[at]
        assert body_of(log, places[-1]) == body
        chance = rng.random()
        if chance < 0.1:
            log.commit_pool()
            committed = len(sent)
        elif chance < 0.15:
            log.sync()
            committed = len(sent)
        if chance > 0.9:
            found = bodies_of(killed(disk))
            assert found == sent[: len(found)]
            assert len(found) >= committed
    log.close(clean=True)
    assert bodies_of(killed(disk)) == sent
    assert len(disk.names("commitlog")) > 1
