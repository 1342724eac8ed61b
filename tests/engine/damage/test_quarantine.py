"""What of the log rots is put aside, and everything else goes on as if nothing had happened."""

import logging
import random

import pytest

from apps.engine.broker.core import Broker
from apps.engine.codec.properties import TIMER_DELIVER_MS, encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.errors import StoreDamaged
from apps.engine.log.quarantine import load_ranges
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PullRequest, PullStatus, ReceiveRequest
from apps.engine.verify.rebuild import accept_loss
from tests.engine.damage.stores import (
    DELAYED,
    GROUP,
    TOPICS,
    Everything,
    Place,
    filled,
    image,
    opened,
    read_all,
    send,
    take,
)


@pytest.fixture(scope="module")
def intact() -> SimulatedDisk:
    """Return a store nobody changes."""
    return filled()


@pytest.fixture(scope="module")
def whole(intact: SimulatedDisk) -> Everything:
    """Return what readers get of the intact store."""
    found = read_all(opened(image(intact)))
    assert len(found.records) >= 90
    assert not any(found.unreadable.values())
    return found


def log_place(broker: Broker, place: Place) -> tuple[int, int]:
    """Return log offset and size of a message."""
    topic, queue, offset = place
    entry = broker.queues.queue(topic, queue).read(offset, 1)[0]
    return int(entry["log_offset"]), int(entry["size_bytes"])


def flip(disk: SimulatedDisk, log_offset: int, mask: int = 1) -> None:
    """Let one bit of the log rot."""
    base = log_offset - log_offset % 65_536
    before = disk.content()[f"commitlog/{base:020d}"]
    disk.flip(f"commitlog/{base:020d}", log_offset - base, mask)
    assert disk.content()[f"commitlog/{base:020d}"] != before


def places_of(whole: Everything, count: int, seed: int) -> list[Place]:
    print("seed", seed)
    return random.Random(seed).sample(sorted(whole.records), count)


@pytest.mark.parametrize("seed", range(4))
def test_a_bad_body_takes_only_its_message_with_it(
    intact: SimulatedDisk, whole: Everything, seed: int
) -> None:
    disk = image(intact)
    (place,) = places_of(whole, 1, seed)
    log_offset, _ = log_place(opened(image(intact)), place)
    flip(disk, log_offset + 88)

    found = read_all(opened(disk))

    assert found.records == {key: data for key, data in whole.records.items() if key != place}
    assert found.unreadable[place[:2]] == 1
    (known,) = load_ranges(disk)
    assert known.log_offset == log_offset
    assert not known.is_gap


def test_a_bad_property_takes_its_frame_and_no_other(
    intact: SimulatedDisk, whole: Everything
) -> None:
    disk = image(intact)
    (place,) = places_of(whole, 1, 7)
    log_offset, size = log_place(opened(image(intact)), place)
    flip(disk, log_offset + size - 2)

    found = read_all(opened(disk))

    lost = whole.records.keys() - found.records.keys()
    assert place in lost
    assert 1 <= len(lost) <= 5
    assert {key[:2] for key in lost} == {place[:2]}
    assert found.unreadable[place[:2]] == len(lost)
    assert all(found.records[key] == whole.records[key] for key in found.records)


def test_the_bytes_are_kept_and_copied_aside(intact: SimulatedDisk, whole: Everything) -> None:
    disk = image(intact)
    (place,) = places_of(whole, 1, 3)
    log_offset, size = log_place(opened(image(intact)), place)
    flip(disk, log_offset + 90)
    logs = {path: data for path, data in disk.content().items() if path.startswith("commitlog")}

    read_all(opened(disk)).records  # noqa: B018  # Reading is what finds it.

    content = disk.content()
    segment = content[f"commitlog/{log_offset - log_offset % 65_536:020d}"]
    start = log_offset % 65_536
    assert content[f"quarantine/{log_offset:020d}-{size}"] == segment[start : start + size]
    assert {path: content[path] for path in logs} == logs


def test_it_is_known_after_every_restart_without_being_read(
    intact: SimulatedDisk, whole: Everything, caplog: pytest.LogCaptureFixture
) -> None:
    disk = image(intact)
    (place,) = places_of(whole, 1, 5)
    log_offset, _ = log_place(opened(image(intact)), place)
    flip(disk, log_offset + 88)
    broker = opened(disk)
    read_all(broker)
    broker.close()
    caplog.clear()

    with caplog.at_level(logging.ERROR):
        broker = opened(disk)

    assert [record.message for record in caplog.records] == ["log_quarantined"]
    assert broker.log.recovery.scanned_bytes == 0
    assert (broker.damage.range_count, broker.damage.message_count) == (1, 1)
    assert broker.queues.queue(*place[:2]).lost.tolist() == [place[2]]
    assert len(read_all(broker).records) == len(whole.records) - 1


def test_a_pull_says_what_it_skips_and_moves_on(intact: SimulatedDisk, whole: Everything) -> None:
    disk = image(intact)
    place = ("orders", 1, 4)
    assert place in whole.records
    log_offset, _ = log_place(opened(image(intact)), place)
    flip(disk, log_offset + 88)
    broker = opened(disk)
    request = PullRequest(topic="orders", queue=1, queue_offset=4, messages_max=2)

    first = broker.pull(request)
    alone = broker.pull(PullRequest(topic="orders", queue=1, queue_offset=4, filter="no tag of it"))

    assert (first.status, first.next_offset, first.unreadable) == (PullStatus.FOUND, 6, 1)
    assert alone.status is PullStatus.NO_MATCHED_MSG
    assert alone.unreadable == 1


def test_a_receive_never_hands_it_out(intact: SimulatedDisk, whole: Everything) -> None:
    disk = image(intact)
    bad = places_of(whole, 3, 11)
    for place in bad:
        flip(disk, log_place(opened(image(intact)), place)[0] + 88)
    broker = opened(disk)
    request = ReceiveRequest(group="fresh", topics=tuple(TOPICS), messages_max=1000)

    count = 0
    for _ in range(10):
        result = broker.receive(request)
        count += sum(len(lease.block) for lease in result.leases)

    assert count == len(whole.records) - len(bad)
    lost = {(row.topic, row.queue): row.unreadable for row in broker.offsets.progress("fresh")}
    assert sum(lost.values()) == len(bad)


def test_what_a_group_was_handed_before_it_rotted_ends_for_the_group(
    intact: SimulatedDisk,
) -> None:
    disk = image(intact)
    broker = opened(disk)
    taken = take(broker, 20, settle=False)
    broker.close()
    flip(disk, log_place(opened(image(disk)), taken[0])[0] + 88)
    broker = opened(disk)
    broker.clock.advance(2 * 3_600_000)

    again = take(broker, 1000, settle=True) + take(broker, 1000, settle=True)

    assert taken[0] not in again
    assert set(taken[1:]) <= set(again)
    assert not take(broker, 10, settle=False)


def test_rot_while_it_is_served_is_found_by_the_bodys_checksum() -> None:
    disk = filled(messages=20)
    broker = opened(disk)
    whole = read_all(broker)
    place = sorted(whole.records)[3]
    flip(disk, log_place(broker, place)[0] + 88)

    found = read_all(broker)

    assert found.records == {key: data for key, data in whole.records.items() if key != place}
    assert broker.damage.message_count == 1


def test_a_bad_frame_header_takes_its_frame_and_the_next_are_served(
    intact: SimulatedDisk, whole: Everything
) -> None:
    disk = image(intact)
    broker = opened(image(intact))
    frame = next(one for one in broker.log.frames(0) if len(one.header.sizes) == 3)
    flip(disk, frame.log_offset + 100)

    found = read_all(opened(disk))

    assert len(found.records) == len(whole.records) - 3
    assert sum(found.unreadable.values()) == 3
    (known,) = load_ranges(disk)
    assert (known.log_offset, known.end) == (frame.log_offset, frame.end)
    assert known.is_complete


def test_queues_made_again_from_the_log_keep_every_number(
    intact: SimulatedDisk, whole: Everything
) -> None:
    disk = image(intact)
    broker = opened(image(intact))
    frames = [one for one in broker.log.frames(0) if len(one.header.sizes) > 1][3:6]
    for frame in frames:
        flip(disk, frame.log_offset + 100)
    disk.remove("checkpoint/consumequeue")

    found = read_all(opened(disk))

    assert all(found.records[key] == whole.records[key] for key in found.records)
    assert sum(found.unreadable.values()) == len(whole.records) - len(found.records)
    ends = {key[:2]: key[2] for key in sorted(whole.records)}
    assert ends == {key[:2]: key[2] for key in sorted(found.records)}


def test_bytes_that_may_have_been_consumer_state_are_refused_too() -> None:
    disk = filled(messages=20)
    broker = opened(disk)
    take(broker, 3, settle=True)
    broker.log.sync()
    broker.show_synced()
    journal = broker.queues.queue("rmq_sys_consumer_state", 0)
    first = int(journal.read(journal.end - 1, 1)[0]["log_offset"]) - 172
    stop = broker.log.written_offset
    body = encode_record(topic=b"orders", queue=0, body=b"proves it")
    send(broker, [body], topic="orders", queue=0)
    crashed = image(disk)
    path = f"commitlog/{first - first % 65_536:020d}"
    crashed.open(path).write(first % 65_536, [b"\xa5" * (stop - first)])

    with pytest.raises(StoreDamaged, match="an unknown number"):
        opened(crashed)
    assert accept_loss(crashed) == 1

    assert opened(crashed).damage.range_count == 1


def test_a_damaged_parcel_keeps_neither_the_store_nor_other_delays_from_going_on() -> None:
    disk = filled(messages=20)
    broker = opened(disk)
    due_ms = str(broker.clock.wall_ms() + 60_000)
    later = encode_properties({TIMER_DELIVER_MS: due_ms})
    for body in (b"bad", b"good"):
        record = encode_record(topic=b"orders", queue=0, body=body, properties=later)
        send(broker, [record], topic="orders", queue=0)
    parcel = broker.queues.queue("rmq_sys_wheel_timer", 0).read(1, 1)[0]
    broker.close()
    flip(disk, int(parcel["log_offset"]) + 100)

    broker = opened(disk)

    assert broker.damage.message_count == 1
    assert broker.queues.queue("rmq_sys_wheel_timer", 0).lost.tolist() == [1]
    assert len(broker.delays.waiting) == DELAYED + 1


def test_places_the_log_no_longer_has_are_forgotten(
    intact: SimulatedDisk, whole: Everything
) -> None:
    disk = image(intact)
    for place in places_of(whole, 4, 2):
        flip(disk, log_place(opened(image(intact)), place)[0] + 88)
    broker = opened(disk)
    read_all(broker)
    places = [one.log_offset for one in broker.log.quarantine.ranges]

    broker.log.quarantine.forget_below(places[2])

    assert [one.log_offset for one in load_ranges(disk)] == places[2:]


def test_a_damaged_journal_is_refused_until_somebody_accepts_the_loss() -> None:
    disk = filled(messages=20)
    broker = opened(disk)
    taken = take(broker, 3, settle=True)
    broker.log.sync()
    broker.show_synced()
    journal = broker.queues.queue("rmq_sys_consumer_state", 0)
    entry = journal.read(journal.end - 1, 1)[0]
    take(broker, 1, settle=True)  # Its frame proves that the one before was on the disk.
    crashed = image(disk)
    flip(crashed, int(entry["log_offset"]) + 90)

    with pytest.raises(StoreDamaged, match="of consumer state"):
        opened(crashed)
    with pytest.raises(StoreDamaged, match="--accept-loss"):
        opened(crashed)
    assert accept_loss(crashed) == 1
    broker = opened(crashed)

    assert taken
    assert GROUP in {row.group for row in broker.offsets.progress(None)}
