"""A segment that is gone is an explicit gap: refused first, then accepted, counted and skipped."""

import random
from collections import Counter

import pytest

from apps.engine.errors import StoreDamaged
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.verify.rebuild import accept_loss
from tests.engine.damage.stores import filled, image, opened, read_all


@pytest.fixture(scope="module")
def intact() -> SimulatedDisk:
    return filled()


def segments(disk: SimulatedDisk) -> list[str]:
    return sorted(path for path in disk.content() if path.startswith("commitlog/"))


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("size_bytes", [None, 0, 1, 30_000])
def test_a_gap_is_refused_then_skipped_with_a_count(
    intact: SimulatedDisk, number: int, size_bytes: int | None
) -> None:
    whole = read_all(opened(image(intact)))
    disk = image(intact)
    path = segments(disk)[number]
    assert len(segments(disk)) >= 3
    if size_bytes is None:
        disk.remove(path)
    else:
        disk.open(path).truncate(size_bytes)

    with pytest.raises(StoreDamaged):
        opened(disk)
    accept_loss(disk)
    broker = opened(disk)
    found = read_all(broker)

    assert found.records.items() <= whole.records.items()
    missing = Counter(place[:2] for place in whole.records.keys() - found.records.keys())
    assert missing == Counter({key: count for key, count in found.unreadable.items() if count})
    assert broker.damage.message_count >= missing.total()
    broker.close()
    assert read_all(opened(disk)).records == found.records


def test_accepting_twice_changes_nothing(intact: SimulatedDisk) -> None:
    disk = image(intact)
    disk.remove(segments(disk)[1])
    assert accept_loss(disk) == 1
    before = disk.content()

    assert accept_loss(disk) == 0
    assert disk.content() == before


def test_a_crash_while_a_gap_is_accepted_leaves_a_store_to_accept_again(
    intact: SimulatedDisk,
) -> None:
    disk = image(intact)
    disk.remove(segments(disk)[1])
    syncs = disk.sync_count
    probe = image(disk)
    accept_loss(probe)
    for cut_at in range(syncs + 1, syncs + probe.sync_count + 1):
        crashed = image(disk)
        crashed.cut_at_sync = crashed.sync_count + cut_at - syncs
        accept_loss(crashed)
        assert crashed.faults["lie"] > 0
        again = crashed.crash_image(random.Random(cut_at), "nothing")

        accept_loss(again)

        assert read_all(opened(again)).records
