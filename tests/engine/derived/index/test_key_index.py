"""Index files byte for byte, and what becomes of them: full, damaged, dropped, made again."""

import struct
from types import SimpleNamespace

import pytest

from apps.engine.broker.core import Broker
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.derived.index import layout
from apps.engine.derived.index.keyindex import CHECKPOINT
from apps.engine.derived.stretch import Stretch
from apps.engine.errors import StoreFull
from apps.engine.searchtypes import SearchRequest
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.indexing import check_index, content_of, offsets_of, rebuilt
from tests.engine.broker.searching import CONFIG, ask, opened, places, publish, send, sync

SLOTS, CAPACITY = CONFIG.index_slots, CONFIG.index_entries


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def broker(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    broker = opened(disk, clock)
    publish(broker, "t")
    return broker


def filled(broker: Broker, clock: ManualClock, count: int = 100) -> None:
    """Send messages with a key of their own and a common one, some at a time."""
    for number in range(0, count, 10):
        send(broker, [{"KEYS": f"k{number + n} common"} for n in range(10)], queue=number % 3)
        clock.advance(1500)


def files_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.content().items() if path.startswith("index/")}


def test_a_file_is_rocketmqs_byte_for_byte(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    begin_ms = clock.wall_ms()
    first = send(broker, [{"UNIQ_KEY": "id", "KEYS": "Aa x"}])
    clock.advance(2999)
    second = send(broker, [{"KEYS": "BB"}])
    broker.close()

    ((path, data),) = files_of(disk).items()
    assert path == f"index/{layout.file_name(begin_ms)}"
    header = struct.unpack(">qqqqii", data[:40])
    keys = [("id", first, 0), ("Aa", first, 0), ("x", first, 0), ("BB", second, 2)]
    hashes = [layout.key_hash("t", key) for key, _, _ in keys]
    used = len({value % SLOTS for value in hashes})
    assert header == (
        begin_ms, begin_ms + 2999, first.log_offset, second.log_offset, used, 5,
    )  # fmt: skip
    slots = [0] * SLOTS
    expected = b""
    for number, (value, (_, stored, seconds)) in enumerate(zip(hashes, keys, strict=True), 1):
        expected += struct.pack(">iqii", value, stored.log_offset, seconds, slots[value % SLOTS])
        slots[value % SLOTS] = number
    assert struct.unpack(f">{SLOTS}i", data[40 : 40 + 4 * SLOTS]) == tuple(slots)
    assert data[40 + 4 * SLOTS :] == bytes(20) + expected
    assert hashes[1] == hashes[3], "Aa and BB share a chain"


def test_a_full_file_makes_room_for_another(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.close()

    sizes = [len(data) for data in files_of(disk).values()]
    full = layout.entry_position(SLOTS, CAPACITY)
    assert sizes == [full] * 6 + [layout.entry_position(SLOTS, 1 + 200 - 6 * (CAPACITY - 1))]


def test_files_that_begin_in_one_millisecond_have_names_of_their_own(broker: Broker) -> None:
    send(broker, [{"KEYS": f"a{n} b{n}"} for n in range(100)])

    broker.index.settle()

    names = [file.name for file in broker.index.files]
    assert len(names) == 7
    assert names == sorted(set(names))


def test_the_keys_of_one_record_may_be_spread_over_files(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, [{"KEYS": " ".join(f"k{n}" for n in range(3 * CAPACITY))}])
    sync(broker)
    assert len(broker.index.newest_first()) == 4
    # The checkpoint ends in the middle of it when dispatch begins with it again.
    broker.index.begin_checkpoint()()

    again = opened(disk, clock)

    check_index(again)
    for key in ("k0", f"k{CAPACITY}", f"k{3 * CAPACITY - 1}"):
        assert places(ask(again, SearchRequest(topic="t", key=key))) == [(0, 0)]


def test_what_was_dispatched_is_not_dispatched_twice(broker: Broker, clock: ManualClock) -> None:
    filled(broker, clock)
    before = content_of(broker.index)

    broker.index.dispatched_offset = 0
    for frames in broker.log.stretches(0):
        broker.index.dispatch(Stretch(frames))

    assert content_of(broker.index) == before


def test_a_rebuild_makes_what_the_writes_made(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.close()
    before = files_of(disk)
    disk.remove(CHECKPOINT)

    again = opened(disk, clock)
    again.close()

    assert files_of(disk) == before
    assert content_of(again.index) == content_of(rebuilt(again))


@pytest.mark.parametrize("number", [0, 3, 6])
@pytest.mark.parametrize("damage", ["header", "missing", "short"])
def test_a_file_that_does_not_verify_is_made_again_with_those_behind_it(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, number: int, damage: str
) -> None:
    filled(broker, clock)
    broker.close()
    before = files_of(disk)
    path = sorted(before)[number]
    if damage == "missing":
        disk.remove(path)
    elif damage == "short":
        disk.open(path).truncate(len(before[path]) - 1)
    elif number == 6:
        # Of a file that grows the entries count, and not the header.
        disk.flip(path, len(before[path]) - 13)
    else:
        disk.flip(path, 17)

    again = opened(disk, clock)

    assert again.index.rebuilt_from is not None
    assert path in again.index.rebuilt_from
    check_index(again)
    again.close()
    assert files_of(disk) == before


def test_the_header_and_slots_of_a_file_that_grows_are_made_of_its_entries(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock, 10)
    broker.close()
    before = files_of(disk)
    (path,) = before
    for position in (3, 45, 60):
        disk.flip(path, position)

    again = opened(disk, clock)
    assert again.index.rebuilt_from is None
    send(again, [{"KEYS": "more"}])
    check_index(again)


def test_files_no_checkpoint_names_are_removed(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock, 10)
    broker.close()
    disk.open("index/29990101000000000", create=True)

    opened(disk, clock)

    assert "index/29990101000000000" not in files_of(disk)


@pytest.mark.parametrize("place", ["slot", "hash", "previous"])
def test_rot_in_a_chain_is_said_and_healed_by_the_next_start(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, place: str
) -> None:
    filled(broker, clock)
    broker.close()
    broker = opened(disk, clock)
    path = sorted(files_of(disk))[2]
    slot = layout.key_hash("t", "common") % SLOTS
    newest = broker.index.files[2].newest(slot, wait=True)
    entry = layout.entry_position(SLOTS, newest)
    position = {"slot": layout.slot_position(slot) + 1, "hash": entry + 3, "previous": entry + 17}
    disk.flip(path, position[place])
    request = SearchRequest(topic="t", key="common", messages_max=256)

    result = ask(broker, request)

    assert result.scan_incomplete
    assert 0 < len(result.blocks) < 100
    verdicts = dict(broker.index.verify())
    assert [name for name, wrong in verdicts.items() if wrong] == [path]
    broker.close()

    healed = opened(disk, clock)
    result = ask(healed, request)
    assert (len(result.blocks), result.scan_incomplete) == (100, False)
    check_index(healed)


@pytest.mark.parametrize("number", [2, -1], ids=["a full file", "the file that grows"])
@pytest.mark.parametrize("is_missing", [False, True], ids=["rotten", "missing"])
def test_a_damaged_file_is_made_again_while_the_store_is_open(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, number: int, is_missing: bool
) -> None:
    filled(broker, clock)
    broker.close()
    broker = opened(disk, clock)
    file = broker.index.files[number]
    if is_missing:
        disk.remove(file.path)
        broker.index._cache.close()
    else:
        newest = file.newest(layout.key_hash("t", "common") % SLOTS, wait=True)
        disk.flip(file.path, layout.entry_position(SLOTS, newest) + 3)
    request = SearchRequest(topic="t", key="common", messages_max=256)
    assert ask(broker, request).scan_incomplete

    made = broker.index.remaking()
    assert made is not None
    for _ in made.steps(broker.log):
        assert ask(broker, request).scan_incomplete
    assert made.is_proven
    made.write()
    assert broker.index.remade(made)

    result = ask(broker, request)
    assert (len(result.blocks), result.scan_incomplete) == (100, False)
    assert broker.index.remaking() is None
    broker.checkpoint()
    assert [wrong for _, wrong in broker.index.verify() if wrong] == []
    check_index(broker)
    filled(broker, clock)
    broker.close()
    again = opened(disk, clock)
    assert again.index.rebuilt_from is None
    assert len(ask(again, request).blocks) == 200
    check_index(again)


def test_what_the_log_does_not_have_is_not_made_again(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.checkpoint()
    file = broker.index.files[1]
    broker.index.condemn(file, "the test says so")
    made = broker.index.remaking()
    assert made is not None

    begins_too_late = SimpleNamespace(log_start=file.dispatch_from + 1)
    assert not list(made.steps(begins_too_late))

    assert not made.is_proven
    broker.index.give_up(made)
    assert broker.index.remaking() is None


def test_files_wholly_below_the_start_of_the_log_are_dropped(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.checkpoint()
    files = list(broker.index.files)
    start = files[2].end_offset

    broker.index.follow(start)

    assert broker.index.files == files[2:]
    assert sorted(files_of(disk)) == [file.path for file in files[2:]]
    offsets = offsets_of(broker.index, "t", "common")
    assert offsets[-1] == files[2].begin_offset
    broker.index.follow(start)
    assert broker.index.files == files[2:]


def test_an_index_that_was_dropped_to_the_end_begins_again(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.index.settle()

    broker.index.follow(broker.log.written_offset)
    assert broker.index.files == []
    stored = send(broker, [{"KEYS": "new"}])

    assert offsets_of(broker.index, "t", "new") == [stored.log_offset]
    broker.checkpoint()
    assert len(files_of(disk)) == 1


def test_on_a_full_disk_the_index_waits_in_memory(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock, 20)
    sync(broker)
    broker.checkpoint()
    capacity, disk.capacity_bytes = disk.capacity_bytes, disk.capacity_bytes - disk.free_bytes()
    filled(broker, clock, 20)
    broker.index.settle()

    broker.index.begin_checkpoint()()

    assert any(file.flushed < file.count for file in broker.index.files)
    with pytest.raises(StoreFull):
        disk.open("x", create=True).write(0, [b"x"])
    disk.capacity_bytes = capacity
    broker.checkpoint()
    assert all(file.flushed == file.count for file in broker.index.files)
    check_index(opened(disk, clock))


def test_sends_without_keys_make_no_file(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    for count in (1, 40):
        send(broker, [{"TAGS": "a"}] * count)
    broker.close()

    assert files_of(disk) == {}
    assert opened(disk, clock).index.files == []


def test_a_search_reads_on_where_a_cold_read_ended_it(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    filled(broker, clock)
    broker.close()
    broker = opened(disk, clock)
    disk.make_cold()
    search = broker.search(SearchRequest(topic="t", key="common", messages_max=256))
    cold = 0
    while not search.is_done:
        try:
            search.step(wait=False)
        except ColdRead as error:
            cold += 1
            error.warm()

    assert cold > 3
    assert len(search.result().blocks) == 100
