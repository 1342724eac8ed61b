"""Full disks, failing writes and cold reads: what the log refuses, and how it goes on."""

import random
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import BatchTooLarge, StoreFull, SyncFailed, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import NotCached
from apps.engine.files.posix import PosixDisk
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.tail import FRAME_RECORDS_MAX
from apps.engine.testing.contracts.log import SMALL, bodies_of, records_of, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk

RESERVED = EngineConfig(
    segment_bytes=65_536, batch_bytes_max=16_384, body_bytes_max=8_192, reserve_bytes=100_000
)


def opened(
    disk: SimulatedDisk | PosixDisk, *, config: EngineConfig = SMALL, failpoints: str = ""
) -> tuple[CommitLog, Failpoints, ManualClock]:
    plan, clock = Failpoints(failpoints), ManualClock()
    return CommitLog.open(disk, config=config, clock=clock, failpoints=plan), plan, clock


def fill(log: CommitLog) -> int:
    """Append until the log refuses for want of room; return how many were taken."""
    count = 0
    while True:
        try:
            log.append([run_of([b"%d" % count + bytes(4_000)])])
        except StoreFull:
            return count
        count += 1


def test_a_full_disk_refuses_sends_and_takes_them_again_when_there_is_room() -> None:
    disk = SimulatedDisk(capacity_bytes=3 * SMALL.segment_bytes)
    log, _, clock = opened(disk)
    count = fill(log)
    end, files = log.written_offset, disk.content()

    with pytest.raises(StoreFull):
        log.append([run_of([bytes(8_000)])])

    assert (log.written_offset, disk.content()) == (end, files)
    log.sync()
    assert len(bodies_of(log)) == count
    disk.capacity_bytes *= 2
    clock.advance(100)
    log.append([run_of([b"room again"])])
    assert bodies_of(log)[-1] == b"room again"


def test_the_reserve_is_kept_for_the_engines_own_frames() -> None:
    disk = SimulatedDisk(capacity_bytes=2 * SMALL.segment_bytes + 100_000)
    log, _, _ = opened(disk, config=RESERVED)
    fill(log)
    end = log.written_offset

    frames = [log.append([run_of([bytes(4_000)])], is_internal=True) for _ in range(10)]

    assert disk.free_bytes() < RESERVED.reserve_bytes
    assert frames[0].log_offset >= end
    assert log.recovery.log_end < frames[-1].end


def test_free_space_is_read_at_most_every_100_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    log, _, clock = opened(disk, config=RESERVED)
    log.append([run_of([b"a"])])
    monkeypatch.setattr(disk, "free_bytes", lambda: 99_999)

    clock.advance(99)
    log.append([run_of([b"b"])])
    clock.advance(1)

    with pytest.raises(StoreFull, match="99999 bytes are free"):
        log.append([run_of([b"c"])])


def test_a_segment_is_not_made_ahead_out_of_the_reserve() -> None:
    disk = SimulatedDisk(capacity_bytes=2 * SMALL.segment_bytes + 100_000)
    log, _, _ = opened(disk, config=RESERVED)
    disk.capacity_bytes -= 1_000

    log.create_ahead()

    assert len(disk.names("commitlog")) == 1


def test_a_segment_that_cannot_be_allocated_leaves_no_trace() -> None:
    disk = SimulatedDisk()
    log, plan, _ = opened(disk, failpoints="files.allocate=full(2)")

    count = fill(log)

    assert plan.fired["files.allocate"]
    assert len(disk.names("commitlog")) == 1
    assert len(bodies_of(log)) == count


def test_a_failed_write_stops_all_appends_and_loses_nothing_before_it() -> None:
    disk = SimulatedDisk()
    log, _, _ = opened(disk)
    log.append([run_of([b"before"])])
    disk.fail_write_from = disk.write_count + 1

    for _ in range(2):
        with pytest.raises(WriteFailed):
            log.append([run_of([b"failed"])])
        disk.fail_write_from = None

    assert disk.faults["write"] == 1
    log.sync()
    log, _, _ = opened(disk.crash_image(random.Random(0), "nothing"))
    assert bodies_of(log) == [b"before"]


def test_a_failed_sync_stops_the_log_for_good() -> None:
    disk = SimulatedDisk()
    log, plan, _ = opened(disk, failpoints="log.before_sync=error(1)")
    log.append([run_of([b"a"])])

    for _ in range(2):
        with pytest.raises(SyncFailed):
            log.sync()

    assert plan.fired["log.before_sync"] == 1
    assert log.synced_offset == 0
    with pytest.raises(SyncFailed):
        log.append([run_of([b"b"])])


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ("log.before_write=error(2)", WriteFailed),
        ("log.after_write=error(2)", WriteFailed),
        ("log.after_write=full(2)", WriteFailed),
        ("log.before_write=full(2)", StoreFull),
        ("log.before_roll=error(1)", WriteFailed),
        ("log.before_roll=full(1)", StoreFull),
        ("log.after_roll=error(1)", WriteFailed),
        ("log.after_roll=full(1)", StoreFull),
        ("files.allocate=error(2)", WriteFailed),
        ("files.allocate=full(2)", StoreFull),
    ],
)
def test_every_place_an_append_can_fail_leaves_a_log_that_recovers(
    plan: str, error: type[Exception]
) -> None:
    disk = SimulatedDisk()
    log, failpoints, _ = opened(disk, failpoints=plan)
    name = plan.partition("=")[0]
    taken = 0
    while not failpoints.fired[name]:
        body = b"%d" % taken + bytes(6_000)
        try:
            log.append([run_of([body])])
        except (StoreFull, WriteFailed) as refusal:
            assert type(refusal) is error  # noqa: PT017 - which append fails is not known before.
        else:
            taken += 1
    if error is StoreFull:
        failpoints._actions.clear()
        log.append([run_of([b"small"])])
    count = taken + (error is StoreFull)

    log, _, _ = opened(disk.crash_image(random.Random(0), "everything"))

    # A frame that was written and then failed is there; the client was told neither yes nor no.
    assert len(bodies_of(log)) - count == (name == "log.after_write")


@pytest.mark.parametrize(
    "name", ["checkpoint.before_replace", "checkpoint.after_replace", "log.after_sync"]
)
def test_a_checkpoint_or_sync_that_fails_loses_nothing(name: str) -> None:
    disk = SimulatedDisk()
    first, _, _ = opened(disk)
    first.append([run_of([b"a"])])
    log, failpoints, _ = opened(disk, failpoints=f"{name}=error(3)")
    for number in range(6):
        log.append([run_of([b"%d" % number])])
        try:
            log.sync()
            log.checkpoint()
        except (SyncFailed, WriteFailed):
            break

    again, _, _ = opened(disk.crash_image(random.Random(0), "nothing"))

    assert failpoints.fired[name] == 1
    assert len(bodies_of(again)) == 2 + number


def test_a_frame_of_too_many_records_is_refused() -> None:
    log, _, _ = opened(SimulatedDisk())
    run = run_of([b""])
    many = type(run)(
        payload=run.payload,
        sizes=np.full(FRAME_RECORDS_MAX + 1, 97, dtype=np.int32),
        starts=run.starts,
        queue_offset=0,
    )

    with pytest.raises(BatchTooLarge):
        log.append([many])


def test_a_cold_read_that_may_not_wait_says_so_and_succeeds_after_one_that_may() -> None:
    disk = SimulatedDisk()
    log, _, _ = opened(disk)
    frame = log.append([run_of([b"cold"])])
    place = np.array(frame.run_log_offsets, dtype=np.int64)
    sizes = np.array([frame.end - frame.run_log_offsets[0]], dtype=np.int32)
    disk.make_cold()

    with pytest.raises(NotCached):
        log.read_records(place, sizes, wait=False)
    waited = log.read_records(place, sizes, wait=True)

    assert disk.faults["cold"] == 1
    assert waited == log.read_records(place, sizes, wait=False)
    assert decode_record(waited).body == b"cold"


@pytest.mark.parametrize("seed", range(6))
def test_any_choice_of_records_is_read_as_if_one_by_one(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    print("seed", seed)
    disk = PosixDisk(tmp_path / "store")
    log, _, _ = opened(disk)
    for number in range(120):
        sizes = [rng.choice([0, 10, 500, 3_000]) for _ in range(rng.randint(1, 4))]
        log.append([run_of([bytes((number,)) * size]) for size in sizes])
    records = records_of(log)

    for share in (0.02, 0.3, 0.9, 1.0):
        chosen = [record for record in records if rng.random() < share]
        if rng.random() < 0.3:
            rng.shuffle(chosen)
        payload = log.read_records(
            np.array([record.log_offset for record in chosen], dtype=np.int64),
            np.array([record.size_bytes for record in chosen], dtype=np.int32),
            wait=rng.random() < 0.5,
        )

        starts = starts_of(np.array([r.size_bytes for r in chosen], dtype=np.int32)).tolist()
        assert [decode_record(payload, start) for start in starts[: len(chosen)]] == chosen
    log.close(clean=True)
