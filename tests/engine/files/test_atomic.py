"""Small files are the old ones or the new ones, whenever the power is cut."""

import json
import random
import struct
import zlib

import pytest

from apps.engine.errors import StoreDamaged, StoreFull, SyncFailed, UnknownFormat, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.testing.contracts.disk import content
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk

PATH = "checkpoint/log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_an_absent_file_is_none(disk: SimulatedDisk) -> None:
    assert atomic.load(disk, PATH) is None


def test_content_comes_back(disk: SimulatedDisk) -> None:
    first: dict[str, object] = {"a": [1, 2.5, None, True], "text": "中文" * 1000}

    atomic.replace(disk, PATH, first)
    read_first = atomic.load(disk, PATH)
    atomic.replace(disk, PATH, {"b": 1})

    assert read_first == first
    assert atomic.load(disk, PATH) == {"b": 1}


def test_the_bytes_are_those_of_the_format(disk: SimulatedDisk) -> None:
    atomic.replace(disk, PATH, {"a": 1})

    data = b'{"a":1}'
    assert (
        content(disk.open(PATH))
        == b"MQWS"
        + struct.pack(">HHII", 1, 0, len(data), zlib.crc32(data))
        + json.dumps({"a": 1}, separators=(",", ":")).encode()
    )


@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_power_cut_at_any_sync_leaves_the_old_or_the_new(mode: CrashMode) -> None:
    print("seeds 0 to 9")
    for seed in range(10):
        for cut in range(1, 3):
            disk = SimulatedDisk()
            atomic.replace(disk, PATH, {"old": "x" * 9000})
            disk.fail_sync_from = disk.sync_count + cut
            with pytest.raises(SyncFailed):
                atomic.replace(disk, PATH, {"new": "y" * 5000})
            assert disk.faults["sync"] == 1

            found = disk.crash_image(random.Random(seed), mode)

            assert atomic.load(found, PATH) in ({"old": "x" * 9000}, {"new": "y" * 5000})
            atomic.replace(found, PATH, {"next": 1})
            assert atomic.load(found, PATH) == {"next": 1}


def test_what_was_replaced_survives_a_power_cut(disk: SimulatedDisk) -> None:
    atomic.replace(disk, PATH, {"a": 1})

    found = disk.crash_image(random.Random(0), CrashMode.NOTHING)

    assert atomic.load(found, PATH) == {"a": 1}


def test_canary_a_disk_that_lies_about_syncs_loses_the_file(disk: SimulatedDisk) -> None:
    disk.cut_at_sync = 1

    atomic.replace(disk, PATH, {"a": 1})

    assert disk.faults["lie"]
    assert atomic.load(disk.crash_image(random.Random(0), CrashMode.NOTHING), PATH) is None


def test_every_damaged_byte_is_found(disk: SimulatedDisk) -> None:
    atomic.replace(disk, PATH, {"a": 1})

    for position in range(disk.open(PATH).size()):
        disk.flip(PATH, position, 0x40)
        with pytest.raises((StoreDamaged, UnknownFormat)):
            atomic.load(disk, PATH)
        disk.flip(PATH, position, 0x40)

    assert atomic.load(disk, PATH) == {"a": 1}


@pytest.mark.parametrize("size_bytes", [0, 1, 15, 16, 22])
def test_a_shortened_file_is_damaged(disk: SimulatedDisk, size_bytes: int) -> None:
    atomic.replace(disk, PATH, {"a": 1})
    disk.open(PATH).truncate(size_bytes)

    with pytest.raises(StoreDamaged):
        atomic.load(disk, PATH)


def test_a_later_version_is_not_taken_for_damage(disk: SimulatedDisk) -> None:
    atomic.replace(disk, PATH, {"a": 1})
    disk.open(PATH).write(4, [b"\x00\x02"])

    with pytest.raises(UnknownFormat, match="version 2"):
        atomic.load(disk, PATH)


def test_something_else_than_an_object_is_damage(disk: SimulatedDisk) -> None:
    data = b"[1]"
    file = disk.open("f", create=True)
    file.write(0, [b"MQWS" + struct.pack(">HHII", 1, 0, 3, zlib.crc32(data)), data])

    with pytest.raises(StoreDamaged):
        atomic.load(disk, "f")


def test_a_full_disk_leaves_the_old_content_and_no_litter() -> None:
    disk = SimulatedDisk(capacity_bytes=200)
    atomic.replace(disk, PATH, {"old": 1})

    with pytest.raises(StoreFull):
        atomic.replace(disk, PATH, {"new": "x" * 200})

    assert disk.faults["full"]
    assert atomic.load(disk, PATH) == {"old": 1}
    assert disk.names("checkpoint") == ["log"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("checkpoint.before_replace", {"old": 1}), ("checkpoint.after_replace", {"new": 1})],
)
def test_failpoints_lie_on_both_sides_of_the_rename(
    disk: SimulatedDisk, name: str, expected: dict[str, object]
) -> None:
    failpoints = Failpoints(f"{name}=error(1)")
    atomic.replace(disk, PATH, {"old": 1})

    with pytest.raises(WriteFailed):
        atomic.replace(disk, PATH, {"new": 1}, failpoints=failpoints)

    assert failpoints.fired[name] == 1
    assert atomic.load(disk, PATH) == expected
