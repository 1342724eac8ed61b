"""A small store for tests of retention: tiny segments, a clock by hand, a disk that can crash."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    PullRequest,
    PullResult,
    ReceiveRequest,
    RecordBatch,
    TopicSpec,
)

HOUR_MS = 3_600_000
SEGMENT_BYTES = 16_384
CONFIG = EngineConfig(
    segment_bytes=SEGMENT_BYTES,
    batch_bytes_max=8_192,
    body_bytes_max=4_096,
    consume_queue_file_entries=4,
    checkpoint_interval_ms=3_600_000,
    flush_interval_ms=60_000,
    retention_ms=72 * HOUR_MS,
    retention_disk_share=0.75,
    retention_force_share=0.85,
    # Tests say when it is to be looked.
    retention_look_ms=1_000 * HOUR_MS,
    reserve_bytes=0,
)
# Two of them fill half a segment, so five or so go into one.
BODY_BYTES = 3_000


@dataclass(slots=True)
class Keeping:
    """One store that is opened again and again."""

    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    config: EngineConfig = CONFIG
    topics: dict[str, TopicSpec] = field(
        default_factory=lambda: {"t": TopicSpec(name="t", queue_count=2)}
    )
    failpoints: str = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[LocalEngine]:
        """Open the store and close it again, unless the test has thrown it away."""
        engine = await LocalEngine.open(
            Path(),
            self.config,
            clock=self.clock,
            disk=self.disk,
            failpoints=Failpoints(self.failpoints),
        )
        self.publish(engine)
        try:
            yield engine
        finally:
            await engine.close()

    def publish(self, engine: LocalEngine, **topics: TopicSpec) -> None:
        """Publish the topics as they are now."""
        self.topics.update(topics)
        version = engine.catalog.version + 1
        engine.publish_catalog(CatalogSnapshot(version=version, topics=dict(self.topics)))

    def with_config(self, **changes: object) -> "Keeping":
        """Return a twin with other settings."""
        return replace(self, config=replace(self.config, **changes))  # type: ignore[arg-type]


def batch(
    *bodies: bytes, topic: str = "t", queue: int = 0, properties: dict[str, str] | None = None
) -> RecordBatch:
    """Return messages as a batch."""
    section = encode_properties(properties or {})
    records = [
        encode_record(topic=topic.encode(), queue=queue, body=body, properties=section)
        for body in bodies
    ]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


async def send(engine: LocalEngine, count: int, *, topic: str = "t", queue: int = 0) -> None:
    """Send `count` messages, a frame each, each with its queue offset as body."""
    first = engine._host.broker.queues.queue(topic, queue).end
    for number in range(first, first + count):
        body = f"{topic}/{queue}/{number}".encode().ljust(BODY_BYTES, b".")
        await engine.append([batch(body, topic=topic, queue=queue)], ack=AckMode.SYNC)


async def pull(engine: LocalEngine, offset: int, *, topic: str = "t", queue: int = 0) -> PullResult:
    """Pull all from an offset on."""
    return await engine.pull(
        PullRequest(topic=topic, queue=queue, queue_offset=offset, messages_max=1000)
    )


async def kept(engine: LocalEngine, *, topic: str = "t", queue: int = 0) -> list[int]:
    """Return the offsets of all messages of a queue, having proved that each is the right one."""
    low = engine.queue_ranges(topic)[queue].min_offset
    result = await pull(engine, low, topic=topic, queue=queue)
    found = []
    for start in starts_of(result.block.sizes).tolist():
        record = decode_record(result.block.payload, start)
        assert record.body.rstrip(b".") == f"{topic}/{queue}/{record.queue_offset}".encode()
        found.append(record.queue_offset)
    high = engine.queue_ranges(topic)[queue].max_offset
    assert found == list(range(low, high)), "a hole"
    return found


async def receive(engine: LocalEngine, *, most: int = 1000, group: str = "g") -> list[str]:
    """Receive once; return a handle for each message."""
    result = await engine.receive(
        ReceiveRequest(group=group, topics=("t",), messages_max=most, invisible_ms=HOUR_MS)
    )
    return [
        f"{lease.token}:{decode_record(lease.block.payload, start).queue_offset}"
        for lease in result.leases
        for start in starts_of(lease.block.sizes).tolist()
    ]


def segments_on(disk: SimulatedDisk) -> list[int]:
    """Return where the segments on a disk begin."""
    return [int(name) for name in disk.names("commitlog") if name.isdigit()]
