"""Files of consume queues that are damaged while a broker uses them are made again, meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.engine.broker.core import Broker
from apps.engine.codec.layout import QUEUE_ENTRY_BYTES
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.derived.names import queue_directory
from apps.engine.derived.remaking import QueueRemaking
from apps.engine.errors import QueueDamaged, SyncFailed, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.local import mender
from apps.engine.local.engine import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PullRequest, PullStatus, ReceiveRequest
from tests.engine.damage.stores import (
    CONFIG,
    Everything,
    filled,
    image,
    opened,
    read_all,
    send,
)

_PATIENCE_S = 60.0
_FILE = 64
ORDERS = PullRequest(topic="orders", queue=0, queue_offset=0, messages_max=1000)


@pytest.fixture(scope="module")
def intact() -> SimulatedDisk:
    """Return a store whose queues have more than one file each."""
    return filled(messages=300)


@pytest.fixture(scope="module")
def whole(intact: SimulatedDisk) -> Everything:
    found = read_all(opened(image(intact)))
    assert len(found.records) >= 300
    return found


@pytest.fixture(autouse=True)
def looked_after_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mender, "_LOOK_S", 0.001)
    monkeypatch.setattr(mender, "_AGAIN_S", 0.001)


def path_of(topic: str, queue: int, number: int) -> str:
    return f"{queue_directory(topic, queue)}/{number * _FILE * QUEUE_ENTRY_BYTES:020d}"


def flip_place(disk: SimulatedDisk, path: str) -> None:
    disk.flip(path, 5 * QUEUE_ENTRY_BYTES + 6)


def flip_size(disk: SimulatedDisk, path: str) -> None:
    disk.flip(path, 5 * QUEUE_ENTRY_BYTES + 11)


def flip_tag(disk: SimulatedDisk, path: str) -> None:
    """Nothing in a record says what its entry's hash is: a filter would pass it over."""
    disk.flip(path, 5 * QUEUE_ENTRY_BYTES + 15)


def never_written(disk: SimulatedDisk, path: str) -> None:
    disk.open(path).write(0, [bytes(len(disk.content()[path]) // 2)])


def of_another_queue(disk: SimulatedDisk, path: str) -> None:
    other = disk.content()[path.replace("orders/0", "orders/1")]
    disk.open(path).write(0, [other[: len(disk.content()[path])]])


def swapped_entries(disk: SimulatedDisk, path: str) -> None:
    entries = disk.content()[path]
    disk.open(path).write(0, [entries[20:40], entries[:20]])


def cut(disk: SimulatedDisk, path: str) -> None:
    disk.open(path).truncate(3 * QUEUE_ENTRY_BYTES + 1)


def empty(disk: SimulatedDisk, path: str) -> None:
    disk.open(path).truncate(0)


def gone(disk: SimulatedDisk, path: str) -> None:
    disk.remove(path)


def gone_with_its_directory(disk: SimulatedDisk, path: str) -> None:
    directory = path.rpartition("/")[0]
    for name in disk.names(directory):
        disk.remove(f"{directory}/{name}")
    disk.remove_directory(directory)


HARMS = (
    flip_place,
    flip_size,
    flip_tag,
    never_written,
    of_another_queue,
    swapped_entries,
    cut,
    empty,
    gone,
    gone_with_its_directory,
)


def harmed(broker: Broker, disk: SimulatedDisk, how: Callable[..., None], path: str) -> None:
    """Damage a file of an open store, which must open it once more."""
    before = disk.content()[path]
    how(disk, path)
    broker.queues._files.close()
    assert disk.content().get(path) != before, "the fault did not fire"


@asynccontextmanager
async def serving(disk: SimulatedDisk) -> AsyncIterator[LocalEngine]:
    engine = await LocalEngine.open(
        "unused",  # type: ignore[arg-type]
        CONFIG,
        clock=ManualClock(),
        disk=disk,
    )
    try:
        yield engine
    finally:
        await engine.close()


async def mended(engine: LocalEngine) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while engine.status().damaged_queue_files:
            await asyncio.sleep(0.001)


async def all_read(engine: LocalEngine) -> Everything:
    """Read everything, again and again where that comes to files nobody had come to."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            await mended(engine)
            try:
                return read_all(engine._host.broker)
            except QueueDamaged:
                continue


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "queue" in record.message]


def send_more(broker: Broker, count: int = 1) -> None:
    """Send messages to orders/0, which readers see at once."""
    record = encode_record(
        topic=b"orders", queue=0, body=b"more", properties=encode_properties({"TAGS": "A"})
    )
    send(broker, [record] * count, topic="orders", queue=0)
    broker.log.sync()
    broker.show_synced()


@pytest.mark.parametrize("number", [0, 1], ids=["a full file", "the file that grows"])
@pytest.mark.parametrize("how", HARMS, ids=lambda how: how.__name__)
async def test_a_damaged_file_is_made_again_while_others_are_read(
    intact: SimulatedDisk,
    whole: Everything,
    caplog: pytest.LogCaptureFixture,
    how: Callable[..., None],
    number: int,
) -> None:
    disk, path = image(intact), path_of("orders", 0, number)
    request = replace(ORDERS, queue_offset=number * _FILE + 4, messages_max=3)
    receive = ReceiveRequest(group="fresh", topics=("orders",), messages_max=5)
    async with serving(disk) as engine:
        broker = engine._host.broker
        harmed(broker, disk, how, path)

        async with engine._host._checkpointing:  # Until then nothing is written.
            with pytest.raises(QueueDamaged, match=path) as refusal:
                await engine.pull(replace(request, filter="A"))
            assert refusal.value.retriable
            with pytest.raises(QueueDamaged):
                await engine.pull(request)
            assert (await engine.pull(replace(request, queue=1))).status is PullStatus.FOUND
            for _ in range(2):
                (lease,) = (await engine.receive(receive)).leases
                assert len(lease.block) == 5
            await asyncio.sleep(0.01)
            # A receive begins with the first file.
            count = 2 if how is gone_with_its_directory and number else 1
            assert messages(caplog) == ["consume_queue_damaged"] * count, "told of once"
            assert engine.status().damaged_queue_files == count

        assert await all_read(engine) == whole
        assert disk.content()[path] == intact.content()[path]
        assert messages(caplog)[-1] == "consume_queue_remade"
        send_more(broker)
        end = broker.queues.queue("orders", 0).end
        assert len((await engine.pull(replace(ORDERS, queue_offset=end - 1))).block) == 1
    caplog.clear()

    again = opened(disk)

    assert again.dispatched_records == 0
    assert messages(caplog) == []
    assert len(read_all(again).records) == len(whole.records) + 1


async def test_a_file_that_lost_its_name_is_noticed_by_the_next_checkpoint(
    intact: SimulatedDisk, whole: Everything, caplog: pytest.LogCaptureFixture
) -> None:
    disk, path = image(intact), path_of("orders", 0, 1)
    async with serving(disk) as engine:
        broker = engine._host.broker
        assert read_all(broker) == whole, "all files are open"
        send_more(broker)
        disk.remove(path)
        assert read_all(broker).records.items() > whole.records.items()

        await engine._host.checkpoint()

        assert messages(caplog) == ["consume_queue_damaged"]
        await mended(engine)
        assert disk.content()[path].startswith(intact.content()[path])
        assert len(read_all(broker).records) == len(whole.records) + 1
        send_more(broker)
        await engine._host.checkpoint()
        assert messages(caplog) == ["consume_queue_damaged", "consume_queue_remade"]
    assert opened(disk).dispatched_records == 0


async def test_what_the_log_has_lost_as_well_is_counted_as_at_a_start(
    intact: SimulatedDisk, whole: Everything, caplog: pytest.LogCaptureFixture
) -> None:
    disk, path = image(intact), path_of("orders", 0, 0)
    async with serving(disk) as engine:
        broker = engine._host.broker
        entries = broker.queues.queue("orders", 0).read(8, 1)
        at = int(entries["log_offset"][0])
        segment = f"commitlog/{at - at % CONFIG.segment_bytes:020d}"
        before = disk.content()[segment]
        disk.flip(segment, at % CONFIG.segment_bytes)  # Its size: the frame cannot be read.
        assert disk.content()[segment] != before
        harmed(broker, disk, gone, path)
        harmed_alike = image(disk)

        with pytest.raises(QueueDamaged):
            await engine.pull(ORDERS)
        found = await all_read(engine)

        assert found == read_all(opened(harmed_alike))
        assert found.unreadable["orders", 0] >= 1
        assert ("orders", 0, 8) not in found.records
        assert found.records.items() < whole.records.items()
        assert messages(caplog)[:2] == ["consume_queue_damaged", "consume_queue_remade"]
        assert "log_quarantined" in [one.message for one in caplog.records]
    assert read_all(opened(disk)) == found


# --- step by step ------------------------------------------------------------------------------


def met(disk: SimulatedDisk, how: Callable[..., None], number: int) -> tuple[Broker, QueueRemaking]:
    """Return a broker that has come to a damaged file and begins to make it again."""
    broker = opened(disk)
    harmed(broker, disk, how, path_of("orders", 0, number))
    with pytest.raises(QueueDamaged):
        broker.pull(replace(ORDERS, queue_offset=number * _FILE))
    made = broker.queues.remaking()
    assert made is not None
    made.look()
    return broker, made


def test_what_is_written_meanwhile_stays(intact: SimulatedDisk, whole: Everything) -> None:
    disk = image(intact)
    broker, made = met(disk, gone, 1)
    assert len(list(made.steps(broker.log))) > 0
    send_more(broker, 10)
    broker.checkpoint()
    made.write()
    send_more(broker, 10)
    broker.checkpoint()

    assert broker.queues.remade(made)

    assert len(read_all(broker).records) == len(whole.records) + 20
    broker.close()
    assert opened(disk).dispatched_records == 0


def test_entries_that_change_are_made_once_more_where_the_file_grew(
    intact: SimulatedDisk, whole: Everything
) -> None:
    disk = image(intact)
    broker = opened(disk)
    last = int(broker.queues.queue("orders", 0).read(_FILE + 3, 1)["log_offset"][0])
    disk.flip(f"commitlog/{last - last % CONFIG.segment_bytes:020d}", last % CONFIG.segment_bytes)
    broker, made = met(disk, gone, 1)
    list(made.steps(broker.log))
    broker.damage.mark()
    send_more(broker, 3)
    broker.checkpoint()
    made.write()
    assert not broker.queues.remade(made)

    again = broker.queues.remaking()
    assert again is not None
    again.look()
    list(again.steps(broker.log))
    again.write()
    assert broker.queues.remade(again)
    broker.damage.mark()

    found = read_all(broker)
    assert 1 <= found.unreadable["orders", 0] <= 5
    assert len(found.records) == len(whole.records) + 3 - found.unreadable["orders", 0]
    broker.close()
    assert opened(disk).dispatched_records == 0
    assert read_all(opened(disk)) == found


def test_what_the_log_does_not_have_is_left_to_the_next_start(
    intact: SimulatedDisk, whole: Everything, caplog: pytest.LogCaptureFixture
) -> None:
    disk = image(intact)
    broker, made = met(disk, empty, 0)
    log = broker.log
    ends_before = SimpleNamespace(
        log_start=log.log_start, stretches=lambda _start: iter(()), quarantine=log.quarantine
    )

    list(made.steps(ends_before))  # type: ignore[arg-type]

    assert not made.is_proven
    broker.queues.give_up(made)
    assert broker.queues.remaking() is None
    assert broker.queues.damaged_files == 1
    assert messages(caplog)[-1] == "consume_queue_not_remade"
    with pytest.raises(QueueDamaged):
        broker.pull(ORDERS)
    broker.close()
    assert read_all(opened(disk)) == whole


@pytest.mark.parametrize(
    "how",
    [
        cut,
        pytest.param(flip_place, marks=pytest.mark.crash),
        pytest.param(gone, marks=pytest.mark.crash),
    ],
    ids=lambda how: how.__name__,
)
def test_a_power_cut_at_any_sync_of_it_leaves_what_a_start_makes_whole(
    how: Callable[..., None],
) -> None:
    small = filled(messages=12)
    whole = read_all(opened(image(small)))
    cases, cut_at = 0, 1
    while True:
        disk = image(small)
        broker, made = met(disk, how, 0)
        list(made.steps(broker.log))
        disk.fail_sync_from = disk.sync_count + cut_at
        try:
            made.write()
            assert broker.queues.remade(made)
            broker.checkpoint()
        except SyncFailed:
            disk.fail_sync_from = None
        for modes, left in disk.crash_images(cut_at):
            print(f"cut at sync {cut_at}, {modes}")
            again = opened(left)
            assert read_all(again) == whole
            again.close()
            assert opened(left).dispatched_records == 0
            cases += 1
        if not disk.faults["sync"]:
            break
        cut_at += 1
    assert cut_at > 3, "the fault did not fire"
    assert cases > 6


@pytest.mark.parametrize("name", ["derived.before_remake", "derived.after_remake"])
def test_a_crash_on_the_way_leaves_what_a_start_makes_whole(
    intact: SimulatedDisk, whole: Everything, name: str
) -> None:
    disk = image(intact)
    broker, made = met(disk, cut, 0)
    list(made.steps(broker.log))
    failpoints = Failpoints(f"{name}=error(1)")
    made._failpoints = failpoints

    with pytest.raises(WriteFailed):
        made.write()

    assert failpoints.fired[name] == 1
    for _, left in disk.crash_images(1):
        assert read_all(opened(left)) == whole
