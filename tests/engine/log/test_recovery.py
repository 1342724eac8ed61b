"""What opening a log finds, cuts and refuses, case by case. The power-cut sweep is next door."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from apps.engine.config import EngineConfig
from apps.engine.errors import (
    EngineError,
    ForeignSegment,
    StoreDamaged,
    SyncFailed,
    UnknownFormat,
    WriteFailed,
)
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.log.commitlog import AppendedFrame, CommitLog
from apps.engine.testing.contracts.log import SMALL, bodies_of, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk

FIRST, SECOND, THIRD = (f"commitlog/{number * SMALL.segment_bytes:020d}" for number in range(3))


def opened(disk: SimulatedDisk, config: EngineConfig = SMALL, *, failpoints: str = "") -> CommitLog:
    plan = Failpoints(failpoints)
    return CommitLog.open(disk, config=config, clock=ManualClock(), failpoints=plan)


def send(log: CommitLog, *bodies: bytes) -> AppendedFrame:
    return log.append([run_of(bodies)])


@contextmanager
def refusal(
    disk: SimulatedDisk, error: type[EngineError], match: str | None = None
) -> Iterator[None]:
    """Expect `error`, and not a byte changed on the disk."""
    before = disk.content()
    with pytest.raises(error, match=match):
        yield
    assert disk.content() == before


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def three_segments(disk: SimulatedDisk) -> SimulatedDisk:
    """Return a disk with a log over three segments, synced, without a checkpoint of it."""
    log = opened(disk)
    while log.written_offset < 2 * SMALL.segment_bytes + 20_000:
        send(log, bytes(4_000))
    log.sync()
    log.close(clean=False)
    return disk


# --- torn tails are cut --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["header", "payload"])
def test_a_torn_last_frame_is_cut_and_reported(disk: SimulatedDisk, place: str) -> None:
    log = opened(disk)
    kept = send(log, b"kept")
    torn = send(log, b"torn" * 100)
    disk.flip(FIRST, torn.log_offset + 100 if place == "header" else torn.end - 2)

    log = opened(disk)

    assert bodies_of(log) == [b"kept"]
    assert (log.recovery.log_end, log.written_offset) == (kept.end, kept.end)
    # The last two bytes of a record without properties are zeros; the flip filled one of them.
    assert torn.end - kept.end - 2 <= log.recovery.cut_bytes <= torn.end - kept.end
    assert log.recovery.cut_reason
    assert not any(disk.content()[FIRST][kept.end :])


def test_what_was_cut_is_reported_once(disk: SimulatedDisk) -> None:
    log = opened(disk)
    torn = send(log, b"torn")
    disk.flip(FIRST, torn.end - 10)
    opened(disk)

    log = opened(disk)

    assert (log.recovery.cut_bytes, log.recovery.cut_reason) == (0, "")


def test_whole_frames_behind_a_torn_one_go_with_it(disk: SimulatedDisk) -> None:
    log = opened(disk)
    torn = send(log, b"torn")
    send(log, b"whole", b"and never synced")
    disk.flip(FIRST, torn.end - 10)

    log = opened(disk)

    assert bodies_of(log) == []
    assert log.recovery.cut_bytes > torn.end


def test_a_torn_tail_may_reach_into_the_next_segment(disk: SimulatedDisk) -> None:
    log = opened(disk)
    torn = send(log, b"torn")
    while log.written_offset < SMALL.segment_bytes:
        send(log, bytes(8_000))
    disk.flip(FIRST, torn.end - 10)

    log = opened(disk)

    assert log.recovery.cut_bytes > SMALL.segment_bytes
    assert not any(disk.content()[SECOND])
    bodies = [bytes(8_000)] * 10
    for body in bodies:
        send(log, body)
    assert bodies_of(log) == bodies


def test_appends_go_on_behind_a_filler_that_was_the_last_thing_written(
    disk: SimulatedDisk,
) -> None:
    log = opened(disk, failpoints="log.after_roll=error(1)")
    count = 0
    while log.written_offset + 8_500 < SMALL.segment_bytes:
        send(log, bytes(8_000))
        count += 1
    with pytest.raises(WriteFailed):
        send(log, bytes(8_000))

    log = opened(disk)

    assert log.written_offset == SMALL.segment_bytes
    assert log.recovery.cut_bytes == 0
    send(log, b"behind")
    assert bodies_of(log) == [bytes(8_000)] * count + [b"behind"]


def test_a_frame_of_an_earlier_epoch_behind_a_cut_tail_is_never_taken(
    disk: SimulatedDisk,
) -> None:
    log = opened(disk)
    torn = send(log, b"torn")
    stale = send(log, b"stale")
    stale_bytes = disk.content()[FIRST][torn.end : stale.end]
    disk.flip(FIRST, torn.end - 10)
    log = opened(disk)
    again = send(log, b"nrot")
    assert again.end == torn.end
    # As if the zeros of the recovery had not reached the disk.
    disk.open(FIRST).write(torn.end, [stale_bytes])

    log = opened(disk)

    assert bodies_of(log) == [b"nrot"]
    assert "earlier epoch" in log.recovery.cut_reason


def test_a_segment_in_the_making_is_removed(disk: SimulatedDisk) -> None:
    opened(disk).close(clean=False)
    disk.open(f"{SECOND}.new", create=True).allocate(100)

    opened(disk)

    assert disk.names("commitlog") == [FIRST.rpartition("/")[2]]


def test_without_a_checkpoint_the_whole_log_is_verified(three_segments: SimulatedDisk) -> None:
    disk = three_segments
    count = len(bodies_of(opened(disk)))
    disk.remove("checkpoint/log")

    log = opened(disk)

    assert (log.recovery.scanned_records, log.recovery.cut_bytes) == (count, 0)


def test_a_clean_mark_is_not_believed_when_something_lies_behind(disk: SimulatedDisk) -> None:
    log = opened(disk)
    send(log, b"one")
    log.close(clean=True)
    clean = atomic.load(disk, "checkpoint/log")
    assert clean is not None
    log = opened(disk)
    send(log, b"two")
    log.close(clean=False)
    # As if a backup of the checkpoint alone had been brought back.
    atomic.replace(disk, "checkpoint/log", clean)

    log = opened(disk)

    assert not log.recovery.clean
    assert bodies_of(log) == [b"one", b"two"]


def test_an_open_log_is_not_marked_as_cleanly_stopped(disk: SimulatedDisk) -> None:
    opened(disk).close(clean=True)

    opened(disk)

    content = atomic.load(disk, "checkpoint/log")
    assert content is not None
    assert content["clean"] is False


# --- rot is quarantined, and what is missing or foreign is refused with nothing changed ----------


def test_every_damaged_byte_below_the_synced_offset_is_found(disk: SimulatedDisk) -> None:
    log = opened(disk)
    first = send(log, b"a", b"bc")
    log.sync()
    send(log, b"proves that the first was synced")
    log.close(clean=False)

    for position in range(first.end):
        image = disk.crash_image(random.Random(position), "everything")
        image.flip(FIRST, position, 1 << position % 8)
        rotten = image.content()[FIRST]

        log = opened(image)

        (found,) = log.quarantine.ranges
        assert found.log_offset <= position < found.end
        assert log.recovery.cut_bytes == 0
        assert image.content()[FIRST] == rotten
        assert not found.is_gap or bodies_of(log) == [b"proves that the first was synced"]

    assert len(bodies_of(opened(disk))) == 3


def test_rot_below_the_checkpoint_is_found_when_it_is_read(disk: SimulatedDisk) -> None:
    log = opened(disk)
    frame = send(log, b"rotten")
    kept = send(log, b"kept")
    log.close(clean=True)
    disk.flip(FIRST, frame.end - 10)

    log = opened(disk)

    assert not log.quarantine.ranges
    assert [one.log_offset for one in log.frames(0)] == [frame.log_offset, kept.log_offset]
    (found,) = log.quarantine.ranges
    assert (found.end, found.is_gap) == (frame.end, False)


def test_a_log_shorter_than_its_checkpoint_is_damaged(three_segments: SimulatedDisk) -> None:
    disk = three_segments
    opened(disk).close(clean=True)
    disk.remove(THIRD)

    with refusal(disk, StoreDamaged, "synced up to"):
        opened(disk)


def test_a_missing_segment_in_the_middle_is_damage(three_segments: SimulatedDisk) -> None:
    three_segments.remove(SECOND)

    with refusal(three_segments, StoreDamaged, f"{SECOND} is missing"):
        opened(three_segments)


def test_a_missing_first_segment_is_damage(three_segments: SimulatedDisk) -> None:
    three_segments.remove(FIRST)

    with refusal(three_segments, StoreDamaged, "began at 0"):
        opened(three_segments)


def test_a_missing_last_segment_is_damage(three_segments: SimulatedDisk) -> None:
    three_segments.remove(THIRD)

    with refusal(three_segments, StoreDamaged, f"{THIRD} is missing"):
        opened(three_segments)


def test_a_log_without_any_segment_is_damage(three_segments: SimulatedDisk) -> None:
    for path in (FIRST, SECOND, THIRD):
        three_segments.remove(path)

    with refusal(three_segments, StoreDamaged, "no segment"):
        opened(three_segments)


@pytest.mark.parametrize("size_bytes", [0, SMALL.segment_bytes - 1, SMALL.segment_bytes + 1])
def test_a_segment_of_another_length_is_damage(
    three_segments: SimulatedDisk, size_bytes: int
) -> None:
    three_segments.open(SECOND).truncate(size_bytes)

    with refusal(three_segments, StoreDamaged, f"{size_bytes} bytes long"):
        opened(three_segments)


@pytest.mark.parametrize("clean", [True, False])
def test_swapped_segments_are_foreign(three_segments: SimulatedDisk, clean: bool) -> None:
    disk = three_segments
    opened(disk).close(clean=clean)
    one, other = disk.content()[FIRST], disk.content()[SECOND]
    disk.open(FIRST).write(0, [other])
    disk.open(SECOND).write(0, [one])

    with refusal(disk, ForeignSegment, "wrote at 65536"):
        opened(disk)


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_another_store_is_foreign(three_segments: SimulatedDisk, clean: bool) -> None:
    disk = three_segments
    opened(disk).close(clean=clean)
    elsewhere = SimulatedDisk()
    log = opened(elsewhere)
    while log.written_offset < SMALL.segment_bytes:
        send(log, bytes(4_000))
    disk.open(SECOND).write(0, [elsewhere.content()[SECOND]])

    with refusal(disk, ForeignSegment, log.store_id):
        opened(disk)


# --- the small files -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["store", "epoch"])
def test_a_log_without_its_identity_is_refused(disk: SimulatedDisk, path: str) -> None:
    send(opened(disk), b"a")
    disk.remove(path)

    with refusal(disk, StoreDamaged):
        opened(disk)


@pytest.mark.parametrize("path", ["store", "epoch", "checkpoint/log"])
def test_a_damaged_small_file_is_refused(disk: SimulatedDisk, path: str) -> None:
    send(opened(disk), b"a")
    disk.flip(path, 20)

    with refusal(disk, StoreDamaged, path):
        opened(disk)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("store", {"format": 1, "store_id": "12", "segment_bytes": 65536}),
        ("store", {"format": 1, "store_id": "zz" * 16, "segment_bytes": 65536}),
        ("store", {"format": 1}),
        ("epoch", {"epoch": "1"}),
        ("epoch", {}),
        ("checkpoint/log", {"epoch": 1}),
        ("checkpoint/log", {"epoch": 1, "synced_offset": None, "clean": True}),
        ("checkpoint/log", {"epoch": 9, "synced_offset": 0, "clean": True}),
        ("checkpoint/log", {"epoch": 1, "synced_offset": 1 << 40, "clean": True}),
    ],
)
def test_a_small_file_that_holds_nonsense_is_refused(
    disk: SimulatedDisk, path: str, content: dict[str, object]
) -> None:
    send(opened(disk), b"a")
    atomic.replace(disk, path, content)

    with refusal(disk, StoreDamaged):
        opened(disk)


def test_an_epoch_older_than_the_logs_is_refused(disk: SimulatedDisk) -> None:
    for _ in range(3):
        log = opened(disk)
        send(log, b"a")
    disk.remove("checkpoint/log")
    atomic.replace(disk, "epoch", {"epoch": 1})

    with refusal(disk, StoreDamaged, "epoch 2 is in the log"):
        opened(disk)


def test_a_store_of_a_later_format_is_not_touched(disk: SimulatedDisk) -> None:
    opened(disk).close(clean=True)
    atomic.replace(disk, "store", {"format": 2})

    with refusal(disk, UnknownFormat, "format 2"):
        opened(disk)


def test_each_opening_has_a_higher_epoch(disk: SimulatedDisk) -> None:
    epochs = []
    for clean in (True, False, True):
        log = opened(disk)
        send(log, b"a")
        epochs.append(log.epoch)
        log.close(clean=clean)

    assert epochs == [1, 2, 3]
    assert [frame.header.epoch for frame in opened(disk).frames(0)] == [1, 2, 3]


def test_a_log_that_failed_is_never_marked_as_cleanly_stopped(disk: SimulatedDisk) -> None:
    log = opened(disk)
    send(log, b"a")
    disk.fail_sync_from = disk.sync_count + 1
    with pytest.raises(SyncFailed):
        log.sync()
    disk.fail_sync_from = None
    log.close(clean=True)

    log = opened(disk)

    assert not log.recovery.clean
    assert log.recovery.scanned_records == 1


@pytest.mark.parametrize("kind", ["sync", "write"])
def test_recovery_that_fails_can_be_tried_again(disk: SimulatedDisk, kind: str) -> None:
    log = opened(disk)
    send(log, b"kept")
    torn = send(log, b"torn")
    disk.flip(FIRST, torn.end - 10)
    failing: dict[str, Callable[[], None]] = {
        "sync": lambda: setattr(disk, "fail_sync_from", disk.sync_count + 5),
        "write": lambda: setattr(disk, "fail_write_from", disk.write_count + 2),
    }
    failing[kind]()
    with pytest.raises((SyncFailed, WriteFailed)):
        opened(disk)
    disk.fail_sync_from = disk.fail_write_from = None

    log = opened(disk)

    assert disk.faults[kind]
    assert bodies_of(log) == [b"kept"]


def test_a_tail_that_is_written_again_beside_is_read_meanwhile(disk: SimulatedDisk) -> None:
    log = opened(disk)
    send(log, b"kept")
    torn = send(log, b"torn")
    disk.flip(FIRST, torn.end - 10)

    log = CommitLog.open(
        disk, config=SMALL, clock=ManualClock(), beside=lambda work: work
    )  # The work is done when it is waited for.

    before = disk.sync_count
    assert bodies_of(log) == [b"kept"]
    log.settle()
    assert disk.sync_count > before
    assert bodies_of(log) == [b"kept"]
    send(log, b"next")
    log.close(clean=True)
    assert bodies_of(opened(disk)) == [b"kept", b"next"]


def test_a_tail_that_cannot_be_written_again_is_told_when_it_is_waited_for(
    disk: SimulatedDisk,
) -> None:
    send(opened(disk), b"kept")
    log = CommitLog.open(disk, config=SMALL, clock=ManualClock(), beside=lambda work: work)
    disk.fail_sync_from = disk.sync_count + 1

    with pytest.raises(SyncFailed):
        log.settle()

    assert disk.faults["sync"]
    disk.fail_sync_from = None
    assert bodies_of(opened(disk)) == [b"kept"]


def test_frames_that_were_read_together_come_together(disk: SimulatedDisk) -> None:
    log = opened(disk)
    ends = [send(log, bytes([number])).end for number in range(5)]

    stretches = [[frame.end for frame in frames] for frames in log.stretches(0)]

    assert stretches == [ends]
