"""A broker on a simulated disk with a small index, messages with keys, and searches, for tests."""

from collections.abc import Sequence

import numpy as np

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import Appended, CatalogSnapshot, RecordBatch, TopicSpec

QUEUES = 3
CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=32_768,
    body_bytes_max=16_384,
    consume_queue_file_entries=64,
    index_slots=7,
    index_entries=33,
    reserve_bytes=0,
)


def opened(disk: Disk, clock: ManualClock, config: EngineConfig = CONFIG) -> Broker:
    """Open a broker."""
    return open_broker(disk, config=config, clock=clock, failpoints=Failpoints())


def publish(broker: Broker, *topics: str, version: int = 1) -> None:
    """Let the topics be there, and no others."""
    specs = {name: TopicSpec(name=name, queue_count=QUEUES) for name in topics}
    broker.publish_catalog(CatalogSnapshot(version=version, topics=specs))


def send(
    broker: Broker,
    properties: Sequence[dict[str, str]],
    *,
    topic: str = "t",
    queue: int = 0,
    body: bytes = b"body",
) -> Appended:
    """Send a message for each of the properties, in one batch."""
    records = [
        encode_record(
            topic=topic.encode(), queue=queue, body=body, properties=encode_properties(one)
        )
        for one in properties
    ]
    batch = RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )
    (stored,), _ = broker.appender.write(broker.appender.check([batch]))
    return stored


def sync(broker: Broker) -> None:
    """Let readers see what was sent."""
    broker.log.sync()
    broker.show_synced()


def ask(broker: Broker, request: SearchRequest) -> SearchResult:
    """Search to the end."""
    search = broker.search(request)
    while not search.is_done:
        search.step(wait=True)
    return search.result()


def found(result: SearchResult) -> list[Record]:
    """Return the messages of a result."""
    return [decode_record(block.payload) for block in result.blocks]


def places(result: SearchResult) -> list[tuple[int, int]]:
    """Return queue and queue offset of the messages of a result."""
    return [(record.queue, record.queue_offset) for record in found(result)]
