"""Consume queues are derived: whatever happens to their files, the log brings them back."""

import numpy as np
import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import CatalogSnapshot, PullRequest, RecordBatch, TopicSpec

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=8_192,
    consume_queue_file_entries=50,
    reserve_bytes=0,
)
PLACES = [("a", 0), ("a", 1), ("%b|", 0)]


def opened(disk: SimulatedDisk) -> Broker:
    return open_broker(disk, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return a store with 300 messages in three queues, stopped in order."""
    disk = SimulatedDisk()
    broker = opened(disk)
    topics = {"a": TopicSpec(name="a", queue_count=2), "%b|": TopicSpec(name="%b|", queue_count=1)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    for number in range(300):
        topic, queue = PLACES[number % 3]
        properties = encode_properties({"TAGS": "AB"[number % 2]})
        record = encode_record(
            topic=topic.encode(), queue=queue, body=b"%d" % number, properties=properties
        )
        sizes = np.array([len(record)], dtype=np.int32)
        batch = RecordBatch(topic=topic, queue=queue, payload=bytearray(record), sizes=sizes)
        broker.appender.write(broker.appender.check([batch]))
    broker.close()
    return disk


def entries(broker: Broker) -> dict[tuple[str, int], bytes]:
    return {
        (queue.topic, queue.queue): queue.read(0, 1000).tobytes()
        for queue in broker.queues
        if queue.end
    }


def test_a_rebuild_gives_the_same_entries_as_the_writes_did(disk: SimulatedDisk) -> None:
    before = entries(opened(disk))
    disk.remove("checkpoint/consumequeue")

    again = opened(disk)

    assert again.dispatched_records >= 300
    assert entries(again) == before


def test_a_start_after_a_clean_stop_dispatches_nothing(disk: SimulatedDisk) -> None:
    assert opened(disk).dispatched_records == 0


@pytest.mark.parametrize("harm", ["remove", "truncate", "checkpoint"])
def test_damaged_files_are_made_anew(disk: SimulatedDisk, harm: str) -> None:
    before = entries(opened(disk))
    path = f"consumequeue/a/0/{1000:020d}"
    assert disk.exists(path)
    if harm == "remove":
        disk.remove(path)
    elif harm == "truncate":
        disk.open(path).truncate(20)
    else:
        disk.flip("checkpoint/consumequeue", 40)

    again = opened(disk)

    assert again.dispatched_records >= 300
    assert entries(again) == before


def test_readers_find_everything_after_a_rebuild(disk: SimulatedDisk) -> None:
    disk.remove("checkpoint/consumequeue")
    broker = opened(disk)

    counts = [
        len(broker.pull(PullRequest(topic=t, queue=q, queue_offset=0, messages_max=500)).block)
        for t, q in PLACES
    ]
    tagged = broker.pull(
        PullRequest(topic="a", queue=0, queue_offset=0, messages_max=500, filter="A")
    )

    assert counts == [100, 100, 100]
    assert len(tagged.block) == 50
