"""Records that were appended lately are proven many at a time, and never more than is right."""

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.log import marks as module
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.marks import MARK_RECORDS, Marks
from apps.engine.testing.contracts.log import SMALL, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk

_COUNT = 5 * MARK_RECORDS + 7
FIRST = f"commitlog/{0:020d}"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> CommitLog:
    return CommitLog.open(disk, config=SMALL, clock=ManualClock())


def appended(log: CommitLog, count: int = _COUNT) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Append a frame of bodies of different lengths; return where the records are."""
    run = run_of([bytes([number % 251]) * (number % 40) for number in range(count)])
    frame = log.append([run])
    return starts_of(run.sizes) + frame.run_log_offsets[0], run.sizes


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many records were proven each by itself, call by call."""
    counts: list[int] = []
    real = module.has_bodies

    def counted(
        payload: memoryview, starts: NDArray[np.int64], sizes: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        counts.append(len(starts))
        return real(payload, starts, sizes)

    monkeypatch.setattr(module, "has_bodies", counted)
    return counts


def test_a_whole_frame_is_proven_at_once(log: CommitLog, one_by_one: list[int]) -> None:
    places, sizes = appended(log)

    payload = log.read_records(places, sizes, wait=True)

    assert log.marks.has_bodies(payload, places, sizes).all()
    assert one_by_one == []


def test_a_part_of_a_frame_is_proven_between_its_marks(
    log: CommitLog, one_by_one: list[int]
) -> None:
    places, sizes = appended(log)
    part = slice(10, 10 + 3 * MARK_RECORDS)

    payload = log.read_records(places[part], sizes[part], wait=True)

    assert log.marks.has_bodies(payload, places[part], sizes[part]).all()
    assert one_by_one == [MARK_RECORDS]


def test_records_of_several_frames_are_proven_together(
    log: CommitLog, one_by_one: list[int]
) -> None:
    found = [appended(log) for _ in range(3)]
    places = np.concatenate([one[0] for one in found])
    sizes = np.concatenate([one[1] for one in found])

    payload = log.read_records(places, sizes, wait=True)

    assert log.marks.has_bodies(payload, places, sizes).all()
    assert one_by_one == []


@pytest.mark.parametrize("row", [0, 1, 40, _COUNT - 1])
def test_the_one_record_with_another_body_is_told(
    log: CommitLog, disk: SimulatedDisk, row: int
) -> None:
    places, sizes = appended(log)
    body_at = int(places[row]) + 88
    disk.flip(FIRST, body_at if row % 40 else int(places[row]) + 8)

    payload = log.read_records(places, sizes, wait=True)
    is_right = log.marks.has_bodies(payload, places, sizes)

    assert np.flatnonzero(~is_right).tolist() == [row]


def test_what_nobody_marked_is_proven_record_by_record(
    log: CommitLog, disk: SimulatedDisk, one_by_one: list[int]
) -> None:
    places, sizes = appended(log)
    log.close(clean=True)
    again = CommitLog.open(disk, config=SMALL, clock=ManualClock())

    payload = again.read_records(places, sizes, wait=True)

    assert again.marks.has_bodies(payload, places, sizes).all()
    assert one_by_one == [_COUNT]


def test_marks_of_a_frame_that_was_not_written_give_way_to_those_of_the_next() -> None:
    marks = Marks()
    marks.add([100, 150, 200], [0, 7, 8])

    marks.add([120, 130], [0, 0])

    places, sums = marks._marks
    assert (places.tolist(), sums.tolist()) == ([100, 120, 130], [0, 0, 0])


def test_the_oldest_marks_are_forgotten(
    log: CommitLog, one_by_one: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MARKS_MAX", 12)
    found = [appended(log, 64) for _ in range(8)]

    for places, sizes in (found[0], found[-1]):
        payload = log.read_records(places, sizes, wait=True)
        assert log.marks.has_bodies(payload, places, sizes).all()

    assert one_by_one == [64]
