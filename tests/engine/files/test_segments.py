"""Segments in a row: one range of bytes, whole files only."""

import random
from pathlib import Path

import pytest

from apps.engine.errors import StoreDamaged, StoreFull, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.posix import PosixDisk
from apps.engine.files.segments import Segments
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk


def segments_of(disk: Disk, *, failpoints: str = "") -> Segments:
    plan = Failpoints(failpoints)
    return Segments(disk, "s", segment_bytes=1000, failpoints=plan)


@pytest.fixture(params=["posix", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    disk: Disk = PosixDisk(tmp_path) if request.param == "posix" else SimulatedDisk()
    disk.make_directory("s")
    return disk


def test_there_is_nothing_before_the_first_extension(disk: Disk) -> None:
    segments = segments_of(disk)

    assert (segments.start, segments.end) == (0, 0)
    with pytest.raises(StoreDamaged, match="missing"):
        segments.write(0, [b"a"])


def test_extending_makes_whole_segments_of_zeros(disk: Disk) -> None:
    segments = segments_of(disk)

    segments.extend(1001)
    segments.extend(500)

    target = bytearray(b"x" * 2000)
    segments.read_into(0, memoryview(target))
    assert (segments.end, bytes(target)) == (2000, bytes(2000))
    assert disk.names("s") == [f"{0:020d}", f"{1000:020d}"]
    segments.close()


def test_a_read_goes_over_as_many_segments_as_it_takes(disk: Disk) -> None:
    segments = segments_of(disk)
    segments.extend(3000)
    segments.write(990, [b"0123456789"])
    segments.write(1000, [b"a" * 600, b"b" * 400])
    segments.write(2000, [b"end"])
    segments.close()
    target = bytearray(1013)

    again = segments_of(disk)
    again.read_into(990, memoryview(target))

    assert target == b"0123456789" + b"a" * 600 + b"b" * 400 + b"end"
    assert len(again.files(990, 2001)) == 3
    assert len(again.files(1000, 2000)) == 1
    assert again.files(0, 0) == []
    again.close()


@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_power_cut_leaves_whole_segments_only(mode: CrashMode) -> None:
    print("seeds 0 to 9")
    for seed in range(10):
        disk = SimulatedDisk()
        disk.make_directory("s")
        segments = segments_of(disk)
        segments.extend(1000)
        disk.fail_sync_from = disk.sync_count + 1 + seed % 2
        with pytest.raises(Exception, match="simulated"):
            segments.extend(2000)
        assert disk.faults["sync"] == 1

        found = disk.crash_image(random.Random(seed), mode)

        again = segments_of(found)
        assert again.end in (1000, 2000)
        again.discard_unfinished()
        again.extend(3000)
        cut = found.crash_image(random.Random(seed), CrashMode.NOTHING)
        assert segments_of(cut).end == 3000


def test_a_segment_that_finds_no_room_leaves_no_trace() -> None:
    disk = SimulatedDisk(capacity_bytes=1500)
    disk.make_directory("s")
    segments = segments_of(disk)
    segments.extend(1000)

    with pytest.raises(StoreFull):
        segments.extend(2000)

    assert disk.faults["full"] == 1
    assert (segments.end, disk.names("s")) == (1000, [f"{0:020d}"])


def test_a_real_segment_that_finds_no_room_leaves_no_trace(tmp_path: Path) -> None:
    disk = PosixDisk(tmp_path)
    disk.make_directory("s")
    segments = Segments(disk, "s", segment_bytes=1 << 60, failpoints=Failpoints())

    with pytest.raises((StoreFull, WriteFailed)):
        segments.extend(1)

    assert (segments.end, disk.names("s")) == (0, [])


def test_a_failpoint_lies_before_the_allocation() -> None:
    disk = SimulatedDisk()
    disk.make_directory("s")
    segments = segments_of(disk, failpoints="files.allocate=full(2)")
    segments.extend(1000)

    with pytest.raises(StoreFull, match="allocate"):
        segments.extend(2000)

    assert segments.end == 1000


def test_names_that_are_no_segments_are_left_alone(disk: Disk) -> None:
    disk.open("s/README", create=True).close()

    segments = segments_of(disk)
    segments.extend(1000)
    segments.discard_unfinished()

    assert disk.names("s") == [f"{0:020d}", "README"]
    segments.close()


def test_a_first_segment_may_lie_anywhere_on_the_grid(disk: Disk) -> None:
    for base in (5000, 6000):
        file = disk.open(f"s/{base:020d}", create=True)
        file.allocate(1000)
        file.close()

    segments = segments_of(disk)

    assert (segments.start, segments.end) == (5000, 7000)
    segments.close()


@pytest.mark.parametrize("base", [1, 999, 1500])
def test_a_segment_off_the_grid_is_damage(disk: Disk, base: int) -> None:
    file = disk.open(f"s/{base:020d}", create=True)
    file.allocate(1000)
    file.close()

    with pytest.raises(StoreDamaged):
        segments_of(disk)
