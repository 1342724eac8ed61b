"""The simulated disk forgets exactly what its fault model says."""

import random
from collections import Counter

import pytest

from apps.engine.errors import StoreFull, SyncFailed, WriteFailed
from apps.engine.files.backend import NotCached
from apps.engine.testing.contracts.disk import content
from apps.engine.testing.crashes import PAGE_BYTES, CrashMode
from apps.engine.testing.simdisk import SimulatedDisk

PAGES = 4


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return a disk with a durable file of four pages of `a`."""
    disk = SimulatedDisk()
    file = disk.open("f", create=True)
    file.write(0, [b"a" * PAGES * PAGE_BYTES])
    file.sync()
    disk.sync_directory("")
    return disk


def after(disk: SimulatedDisk, mode: CrashMode, seed: int = 0, keep: int | None = None) -> bytes:
    return content(disk.crash_image(random.Random(seed), mode, keep=keep).open("f"))


def test_what_is_synced_survives_everything(disk: SimulatedDisk) -> None:
    assert {after(disk, mode) for mode in CrashMode} == {b"a" * PAGES * PAGE_BYTES}


def test_what_is_not_synced_survives_a_kill_and_not_a_power_cut(disk: SimulatedDisk) -> None:
    disk.open("f").write(100, [b"b"])

    assert after(disk, CrashMode.EVERYTHING)[100:101] == b"b"
    assert after(disk, CrashMode.NOTHING)[100:101] == b"a"


def test_a_kill_does_not_make_anything_durable(disk: SimulatedDisk) -> None:
    disk.open("f").write(100, [b"b"])

    killed = disk.crash_image(random.Random(0), CrashMode.EVERYTHING)

    assert after(killed, CrashMode.NOTHING)[100:101] == b"a"
    killed.open("f").sync()
    assert after(killed, CrashMode.NOTHING)[100:101] == b"b"
    assert after(disk, CrashMode.NOTHING)[100:101] == b"a"


def test_a_write_is_kept_page_by_page(disk: SimulatedDisk) -> None:
    disk.open("f").write(0, [b"b" * PAGES * PAGE_BYTES])
    prefixes = [after(disk, CrashMode.PREFIX, keep=keep) for keep in range(PAGES + 1)]
    missing = [after(disk, CrashMode.ONE_MISSING, keep=keep) for keep in range(PAGES)]
    subsets = {after(disk, CrashMode.PAGES, seed=seed) for seed in range(200)}

    assert disk.pending_count == PAGES
    for number, found in enumerate(prefixes):
        edge = number * PAGE_BYTES
        assert found == b"b" * edge + b"a" * (PAGES * PAGE_BYTES - edge)
    assert [found.index(b"a") for found in missing] == [n * PAGE_BYTES for n in range(PAGES)]
    assert {found.count(b"a") for found in missing} == {PAGE_BYTES}
    assert len(subsets) == 2**PAGES


def test_a_torn_page_is_new_old_or_garbage_by_sectors() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(200):
        disk = SimulatedDisk()
        file = disk.open("f", create=True)
        file.allocate(PAGE_BYTES)
        file.sync()
        disk.sync_directory("")
        file.write(0, [b"b" * PAGE_BYTES])

        found = after(disk, CrashMode.TORN, seed=seed)

        sectors = [found[at : at + 512] for at in range(0, PAGE_BYTES, 512)]
        for sector in sectors:
            known = {b"b" * 512: "new", bytes(512): "old"}
            kinds[known.get(sector, "garbage")] += 1
            assert len(set(sector)) == 1 or len(set(sector)) > 100
    assert min(kinds["new"], kinds["old"], kinds["garbage"]) > 20


def test_synced_bytes_are_never_garbage(disk: SimulatedDisk) -> None:
    disk.open("f").write(300, [b"b" * 10_000])

    for seed in range(200):
        assert set(after(disk, CrashMode.TORN, seed=seed)) <= set(b"ab")


def test_a_name_is_durable_after_a_sync_of_its_directory(disk: SimulatedDisk) -> None:
    file = disk.open("new", create=True)
    file.write(0, [b"b"])
    file.sync()
    before = disk.crash_image(random.Random(0), CrashMode.NOTHING)

    disk.sync_directory("")

    assert before.names("") == ["f"]
    later = disk.crash_image(random.Random(0), CrashMode.NOTHING)
    assert content(later.open("new")) == b"b"


def test_a_renamed_file_may_be_found_empty_when_it_was_not_synced(disk: SimulatedDisk) -> None:
    file = disk.open("new", create=True)
    file.write(0, [b"b"])
    disk.rename("new", "f")
    disk.sync_directory("")

    assert after(disk, CrashMode.NOTHING) == b""


def test_a_rename_may_be_undone_until_its_directory_is_synced(disk: SimulatedDisk) -> None:
    file = disk.open("new", create=True)
    file.write(0, [b"b"])
    file.sync()
    disk.rename("new", "f")

    found = {after(disk, CrashMode.METADATA, seed=seed)[:1] for seed in range(20)}
    everything = after(disk, CrashMode.PREFIX, keep=disk.pending_count)

    assert found == {b"a"}
    assert everything == b"b"


def test_a_removed_file_may_come_back(disk: SimulatedDisk) -> None:
    disk.remove("f")

    assert disk.crash_image(random.Random(0), CrashMode.NOTHING).names("") == ["f"]
    disk.sync_directory("")
    assert disk.crash_image(random.Random(0), CrashMode.NOTHING).names("") == []


def test_a_made_directory_is_durable(disk: SimulatedDisk) -> None:
    disk.make_directory("d/e")

    found = disk.crash_image(random.Random(0), CrashMode.NOTHING)

    assert found.exists("d/e")


def test_a_failed_sync_is_not_made_good_by_a_later_one(disk: SimulatedDisk) -> None:
    file = disk.open("f")
    file.write(0, [b"b"])
    disk.fail_sync_from = disk.sync_count + 1
    with pytest.raises(SyncFailed):
        file.sync()
    disk.fail_sync_from = None

    file.sync()
    given_up = after(disk, CrashMode.NOTHING)[:1]
    visible = content(file)[:1]
    file.write(0, [b"b"])
    file.sync()

    assert disk.faults["sync"] == 1
    assert (visible, given_up) == (b"b", b"a")
    assert after(disk, CrashMode.NOTHING)[:1] == b"b"


def test_a_lying_sync_succeeds_and_keeps_nothing(disk: SimulatedDisk) -> None:
    disk.cut_at_sync = disk.sync_count + 2
    file = disk.open("f")
    file.write(0, [b"b"])
    file.sync()
    file.write(1, [b"c"])
    file.sync()

    assert disk.faults["lie"] == 1
    assert after(disk, CrashMode.NOTHING)[:2] == b"ba"


def test_writes_fail_from_the_one_ordered(disk: SimulatedDisk) -> None:
    disk.fail_write_from = disk.write_count + 2
    file = disk.open("f")
    file.write(0, [b"b"])

    with pytest.raises(WriteFailed):
        file.write(1, [b"cccc"])

    assert disk.faults["write"] == 1
    assert content(file)[:5] == b"bccaa"


def test_a_full_disk_takes_overwrites_and_nothing_longer(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = PAGES * PAGE_BYTES + 10
    file = disk.open("f")

    file.write(0, [b"b"])
    with pytest.raises(StoreFull):
        file.write(PAGES * PAGE_BYTES, [bytes(11)])
    with pytest.raises(StoreFull):
        file.allocate(PAGES * PAGE_BYTES + 11)

    assert (disk.free_bytes(), disk.faults["full"]) == (10, 2)


def test_a_cold_file_must_be_waited_for_once(disk: SimulatedDisk) -> None:
    file = disk.open("f")
    disk.make_cold()
    target = memoryview(bytearray(1))

    with pytest.raises(NotCached):
        file.read_into(0, target, wait=False)
    file.read_into(0, target, wait=True)
    file.read_into(0, target, wait=False)

    assert disk.faults["cold"] == 1


def test_a_crash_image_shares_nothing_with_its_disk(disk: SimulatedDisk) -> None:
    images = [disk.crash_image(random.Random(0), mode) for mode in CrashMode]

    for image in images:
        image.open("f").write(0, [b"z"])
        image.flip("f", 1)
        image.lock("lock", owner={})

    assert content(disk.open("f")) == b"a" * PAGES * PAGE_BYTES
    assert set(disk.content()) == {"f"}
