"""Runs on the disk: what is written is read, and damage is met and not passed on."""

import numpy as np
import pytest

from apps.engine.codec.record import encode_record
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.timer.jobs import Chosen, flushed
from apps.engine.derived.timer.reading import records_of
from apps.engine.derived.timer.rows import FROM_LOG, ROW, Places, Rows
from apps.engine.derived.timer.runfile import BLOCK_ROWS_MAX, Run, RunPlace, write_run
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.testing.simdisk import SimulatedDisk

STORE = bytes(range(16))
COUNT = 2 * BLOCK_ROWS_MAX + 10


def records(count: int) -> list[bytes]:
    return [
        encode_record(topic=b"t", queue=0, body=b"%d" % number, properties=b"")
        for number in range(count)
    ]


def written(disk: SimulatedDisk, count: int = COUNT) -> tuple[RunPlace, Rows, list[bytes]]:
    """Write a run of messages whose due times go round; return it, its rows and the records."""
    packed = records(count)
    rows = np.zeros(count, dtype=ROW)
    rows["due_ms"] = rows["at_ms"] = np.arange(count) * 7919 % 1000
    rows["number"] = np.arange(count)
    rows["size_bytes"] = [len(one) for one in packed]
    rows["tag_hash"] = -np.arange(count)
    places = Places()
    rows["place"] = [places.number("t", number % 3) for number in range(count)]

    def read(some: Rows) -> bytes:
        return b"".join(packed[number] for number in some["number"].tolist())

    rows["source"] = FROM_LOG
    chosen = Chosen(parts=[rows], below=count, is_done=lambda numbers, _: numbers < 0)
    place = write_run(
        disk, 4, flushed(chosen, read), store_id=STORE, places=places, failpoints=Failpoints()
    )
    assert place is not None
    return place, rows, packed


def opened(disk: SimulatedDisk, place: RunPlace) -> tuple[Run, Places]:
    # Numbers of places are another process's.
    places = Places()
    places.number("other", 1)
    return Run(disk, place, store_id=STORE, places=places), places


def test_a_run_gives_back_what_was_written_by_due_time() -> None:
    disk = SimulatedDisk()
    place, rows, packed = written(disk)
    run, places = opened(disk, place)

    found = np.concatenate([run.block(block, wait=True) for block in range(run.block_count)])
    order = np.lexsort((rows["number"], rows["due_ms"]))
    bytes_found = records_of(found, None, {4: run}, wait=True)  # type: ignore[arg-type]

    for name in ("due_ms", "number", "tag_hash", "size_bytes"):
        assert found[name].tolist() == rows[name][order].tolist()
    assert bytes_found == b"".join(packed[number] for number in found["number"].tolist())
    queues = [places.place(number) for number in found["place"].tolist()]
    assert queues == [("t", number % 3) for number in found["number"].tolist()]
    assert (run.unread, run.next_ms) == (COUNT, 0)


def test_every_changed_byte_of_a_run_is_met_by_who_reads_it() -> None:
    size = len(_whole(20))
    for position in range(0, size, 3):
        disk = SimulatedDisk()
        place, _, _ = written(disk, 20)
        disk.flip(place.path, position, 0x10)

        with pytest.raises(StoreDamaged):
            _read_all(disk, place)


def _read_all(disk: SimulatedDisk, place: RunPlace) -> None:
    run, _ = opened(disk, place)
    records_of(run.block(0, wait=True), None, {4: run}, wait=True)  # type: ignore[arg-type]


def _whole(count: int) -> bytes:
    disk = SimulatedDisk()
    place, _, _ = written(disk, count)
    return disk.content()[place.path]


def test_a_run_of_another_store_or_one_that_is_missing_is_damage() -> None:
    disk = SimulatedDisk()
    place, _, _ = written(disk, 20)

    with pytest.raises(StoreDamaged):
        Run(disk, place, store_id=bytes(16), places=Places())
    disk.remove(place.path)
    with pytest.raises(StoreDamaged):
        opened(disk, place)


def test_a_cold_run_is_waited_for_in_a_thread() -> None:
    disk = SimulatedDisk()
    place, _, _ = written(disk, 20)
    run, _ = opened(disk, place)
    disk.make_cold()

    with pytest.raises(ColdRead) as cold:
        run.block(0, wait=False)
    cold.value.warm()

    assert len(run.block(0, wait=False)) == 20
    assert disk.faults["cold"] == 1


def test_a_run_of_nothing_leaves_no_file() -> None:
    disk = SimulatedDisk()

    place = write_run(disk, 1, iter(()), store_id=STORE, places=Places(), failpoints=Failpoints())

    assert place is None
    assert disk.names("timer") == []
