"""One consume queue: entries in memory and in files look the same."""

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.engine.codec.layout import QUEUE_ENTRY
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.names import queue_directory, safe_name
from apps.engine.errors import QueueDamaged, StoreFull
from apps.engine.testing.simdisk import SimulatedDisk


def entries(first: int, count: int) -> NDArray[np.void]:
    made = np.zeros(count, dtype=QUEUE_ENTRY)
    made["log_offset"] = np.arange(first, first + count) * 100
    made["size_bytes"] = 100
    return made


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def a_queue(disk: SimulatedDisk) -> ConsumeQueue:
    return ConsumeQueue("a|b", 3, files=FileCache(disk), file_entries=10)


def offsets(queue: ConsumeQueue, start: int, count: int) -> list[int]:
    return (queue.read(start, count)["log_offset"] // 100).tolist()


def test_entries_read_the_same_before_and_after_a_flush(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)
    queue.append(entries(0, 17).tobytes())
    in_memory = offsets(queue, 3, 12)

    queue.flush()
    queue.append(entries(17, 30).tobytes())

    assert in_memory == offsets(queue, 3, 12) == list(range(3, 15))
    assert offsets(queue, 8, 100) == list(range(8, 47))
    assert queue.end == 47


def test_a_file_holds_so_many_entries_and_is_named_by_its_first_byte(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)
    queue.append(entries(0, 25).tobytes())

    queue.flush()

    assert disk.names("consumequeue/a%7Cb/3") == [f"{start:020d}" for start in (0, 200, 400)]


def test_a_queue_goes_on_where_a_checkpoint_says(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)
    queue.append(entries(0, 12).tobytes())
    queue.flush()
    sums = queue.sums
    queue.append(entries(12, 13).tobytes())
    queue.flush()
    again = a_queue(disk)

    again.resume(min_offset=2, end=12, sums=sums)
    again.append(entries(12, 3).tobytes())
    again.flush()

    assert again.is_whole()
    assert offsets(again, 2, 100) == list(range(2, 15))


def test_files_that_are_missing_or_short_are_noticed(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)

    queue.resume(min_offset=0, end=12)

    assert not queue.is_whole()
    with pytest.raises(QueueDamaged):
        queue.read(0, 5)


def test_entries_stay_in_memory_while_the_disk_is_full(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)
    queue.append(entries(0, 5).tobytes())
    disk.capacity_bytes = 0

    with pytest.raises(StoreFull):
        queue.flush()

    assert offsets(queue, 0, 5) == [0, 1, 2, 3, 4]
    disk.capacity_bytes = 1 << 30
    queue.flush()
    assert (queue.unflushed, offsets(queue, 0, 5)) == (0, [0, 1, 2, 3, 4])


def test_a_read_that_may_not_wait_says_how_to_warm_it(disk: SimulatedDisk) -> None:
    queue = a_queue(disk)
    queue.append(entries(0, 5).tobytes())
    queue.flush()
    disk.make_cold()

    with pytest.raises(ColdRead) as cold:
        queue.read(0, 5, wait=False)
    cold.value.warm()

    assert queue.read(0, 5, wait=False)["log_offset"].tolist() == [0, 100, 200, 300, 400]


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("%RETRY%g|1", "%25RETRY%25g%7C1"),
        ("../x", "%2E%2E%2Fx"),
        ("é", "%C3%A9"),
    ],
)
def test_names_on_disk_are_safe_whatever_the_topic_is_called(topic: str, name: str) -> None:
    assert safe_name(topic) == name
    assert queue_directory(topic, 7) == f"consumequeue/{name}/7"
