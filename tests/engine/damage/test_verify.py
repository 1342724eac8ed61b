"""Verifying, dumping and rebuilding: they see everything, change nothing, and can be killed."""

import random

import pytest

from apps.engine.codec.record import encode_record
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import CatalogSnapshot, TopicSpec
from apps.engine.verify.dump import dump
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.rebuild import Part, rebuild
from apps.engine.verify.store import open_store
from apps.engine.verify.walks import WALKS, verify
from tests.engine.damage.stores import CONFIG, filled, image, opened, read_all, send, take


@pytest.fixture(scope="module")
def intact() -> SimulatedDisk:
    return filled(messages=60)


def findings(disk: SimulatedDisk, *, is_running: bool = False) -> list[Finding]:
    """Verify all, and prove that nothing was changed."""
    before = disk.content()
    store = open_store(disk, is_running=is_running)
    names: list[str] = []
    found = list(verify(store, started=names.append))
    store.close()
    assert names == [walk.name for walk in WALKS]
    assert disk.content() == before
    return found


def used_path(disk: SimulatedDisk, prefix: str) -> str:
    return next(path for path in sorted(disk.content()) if path.startswith(prefix))


def test_an_intact_store_has_no_findings(intact: SimulatedDisk) -> None:
    assert findings(image(intact)) == []


def test_an_unclean_stop_is_no_damage(intact: SimulatedDisk) -> None:
    disk = image(intact)
    broker = opened(disk)
    send(broker, [encode_record(topic=b"orders", queue=0, body=b"new")], topic="orders", queue=0)

    assert findings(image(disk)) == []
    assert findings(disk, is_running=True) == []


def test_checkpoints_taken_between_two_walks_are_no_damage(intact: SimulatedDisk) -> None:
    disk = image(intact)
    broker = opened(disk)
    store = open_store(disk, is_running=True)
    first_end = store.end
    walks = []

    def go_on(name: str) -> None:
        walks.append(name)
        # More than a segment, so that the walks meet one that was not there before.
        for number in range(12):
            record = encode_record(topic=b"orders", queue=0, body=b"%02d" % number * 3_000)
            send(broker, [record], topic="orders", queue=0)
        take(broker, 5, settle=True)
        broker.checkpoint()

    found = list(verify(store, started=go_on))

    assert found == []
    assert len(walks) == len(WALKS)
    assert store.end > first_end + CONFIG.segment_bytes
    store.close()


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("epoch", Kind.FILES),
        ("checkpoint/log", Kind.FILES),
        ("commitlog/", Kind.LOG),
        ("consumequeue/", Kind.QUEUES),
        ("checkpoint/consumequeue", Kind.QUEUES),
        ("timer/0", Kind.TIMERS),
        ("timer/manifest", Kind.TIMERS),
        ("checkpoint/consumers", Kind.STATE),
        ("config/catalog", Kind.CATALOG),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_is_found_and_its_kind_told(
    intact: SimulatedDisk, prefix: str, kind: Kind, seed: int
) -> None:
    disk = image(intact)
    path = used_path(disk, prefix)
    rng = random.Random(f"{prefix}/{seed}")
    used = len(disk.content()[path].rstrip(b"\0"))
    position = rng.randrange(min(used, 60_000))
    print("seed", prefix, seed, "at", position)
    disk.flip(path, position, 1 << rng.randrange(8))
    assert disk.content()[path] != intact.content()[path]

    found = findings(disk)

    assert kind in {one.kind for one in found}


def test_an_entry_that_names_another_record_is_found(intact: SimulatedDisk) -> None:
    disk = image(intact)
    path = used_path(disk, "consumequeue/orders/0")
    other = disk.content()[path][20:40]
    disk.open(path).write(0, [other])

    details = [one.detail for one in findings(disk)]

    assert "entry 0 is not that of its record" in details


def test_quarantined_places_stay_findings(intact: SimulatedDisk) -> None:
    disk = image(intact)
    broker = opened(disk)
    frame = next(one for one in broker.log.frames(0) if len(one.header.sizes) > 2)
    broker.close()
    disk.flip("commitlog/" + "0" * 20, frame.payload_log_offset + 90)
    read_all(opened(disk))

    found = [one for one in findings(disk) if one.kind is Kind.LOG]

    assert [one.is_known for one in found] == [True]


def test_a_dump_shows_every_record_with_its_place(intact: SimulatedDisk) -> None:
    disk = image(intact)
    whole = read_all(opened(image(disk)))
    store = open_store(disk, is_running=False)

    shown = list(dump(store))
    orders = list(dump(store, topic="orders", queue=1, body_bytes_max=5))

    records = [one for one in shown if one["kind"] == "record"]
    places = {(one["topic"], one["queue"], one["queue_offset"]) for one in records}
    assert whole.records.keys() <= places
    assert {(one["topic"], one["queue"]) for one in orders} == {("orders", 1)}
    assert len(orders) == sum(key[:2] == ("orders", 1) for key in whole.records)


def test_a_dump_begins_with_the_frame_that_has_an_offset(intact: SimulatedDisk) -> None:
    store = open_store(image(intact), is_running=False)
    frames = [one for one in dump(store) if one["kind"] == "frame"]
    middle = frames[len(frames) // 2]
    offset = int(str(middle["log_offset"])) + 3

    first = next(iter(dump(store, start=offset)))

    assert first == middle
    assert not list(dump(store, start=store.end))


def test_a_dump_of_hostile_bytes_is_text_without_commands() -> None:
    disk = SimulatedDisk()
    hostile = bytes(range(256)) + "\u202e\x1b[2J\r\n".encode()
    broker = opened(disk)
    topics = {"orders": TopicSpec(name="orders", queue_count=1)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    record = encode_record(topic=b"orders", queue=0, body=hostile, properties=b"a\x1b[0m\x01\n\x02")
    send(broker, [record], topic="orders", queue=0)
    broker.close()

    shown = str(list(dump(open_store(disk, is_running=False), body_bytes_max=1000)))

    assert shown.isprintable()
    assert "\u202e" not in shown


@pytest.mark.parametrize("part", list(Part))
def test_a_rebuild_gives_back_what_there_was(intact: SimulatedDisk, part: Part) -> None:
    disk = image(intact)
    whole = read_all(opened(image(disk)))
    progress = opened(image(disk)).offsets.progress(None)

    rebuild(disk, {part}, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())

    broker = opened(disk)
    assert read_all(broker).records == whole.records
    assert broker.offsets.progress(None) == progress
    assert len(broker.delays.waiting) == len(opened(image(intact)).delays.waiting)
    broker.close()
    assert findings(disk) == []
    assert not [path for path in disk.content() if path.endswith(".old")]


def test_a_rebuild_that_is_killed_anywhere_leaves_a_store_that_opens(
    intact: SimulatedDisk,
) -> None:
    whole = read_all(opened(image(intact)))
    waiting = len(opened(image(intact)).delays.waiting)
    probe = image(intact)
    rebuild(probe, set(Part), config=CONFIG, clock=ManualClock(), failpoints=Failpoints())
    assert probe.sync_count > 10
    for cut_at in range(1, probe.sync_count + 1):
        disk = image(intact)
        disk.cut_at_sync = cut_at
        rebuild(disk, set(Part), config=CONFIG, clock=ManualClock(), failpoints=Failpoints())
        assert disk.faults["lie"] > 0
        for mode in ("nothing", "prefix"):
            broker = opened(disk.crash_image(random.Random(cut_at), mode))
            assert read_all(broker).records == whole.records
            assert len(broker.delays.waiting) == waiting


def test_what_the_log_no_longer_has_is_not_rebuilt(intact: SimulatedDisk) -> None:
    disk = image(intact)
    disk.remove("commitlog/" + "0" * 20)
    before = disk.content()

    with pytest.raises(StoreDamaged, match="the log began at 0"):
        rebuild(disk, {Part.STATE}, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())

    assert disk.content() == before
