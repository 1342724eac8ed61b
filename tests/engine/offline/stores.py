"""A store for those who read its files: an engine that writes it, and what was written."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import numpy as np

from apps.engine.clock import Clock
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, PullRequest, RecordBatch, TopicSpec

BATCH_BYTES = 64 * 1024
CONFIG = EngineConfig(
    segment_bytes=2 * MIB,
    batch_bytes_max=BATCH_BYTES,
    body_bytes_max=BATCH_BYTES // 2,
    properties_bytes_max=8_192,
    consume_queue_file_entries=64,
    # Tests say when it is synced and when a checkpoint is taken.
    flush_interval_ms=3_600_000,
    checkpoint_interval_ms=3_600_000,
    retention_look_ms=3_600_000,
    reserve_bytes=0,
)
TOPICS = {"orders": 2, "payments": 2}

Work = Callable[[LocalEngine], Awaitable[None]]


def a_batch(topic: str, queue: int, bodies: list[bytes], **properties: str) -> RecordBatch:
    """Return a batch of messages that share their properties but for KEYS, the body's number."""
    records = [
        encode_record(
            topic=topic.encode(),
            queue=queue,
            body=body,
            born_time_ms=1_700_000_000_000 + number,
            properties=encode_properties({**properties, "KEYS": f"k{number}"}),
        )
        for number, body in enumerate(bodies)
    ]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray().join(records),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


async def send(
    engine: LocalEngine,
    topic: str,
    queue: int,
    *bodies: bytes,
    ack: AckMode = AckMode.SYNC,
    **properties: str,
) -> None:
    """Append one batch."""
    await engine.append([a_batch(topic, queue, list(bodies), **properties)], ack=ack)


def publish(engine: LocalEngine, topics: Mapping[str, int] = TOPICS) -> None:
    """Let the engine know the topics."""
    specs = {name: TopicSpec(name=name, queue_count=count) for name, count in topics.items()}
    engine.publish_catalog(CatalogSnapshot(version=1, topics=specs))


def written(
    path: Path, work: Work, *, config: EngineConfig = CONFIG, clock: Clock | None = None
) -> Path:
    """Have an engine of its own do something to a store, and stop."""

    async def run() -> None:
        engine = await LocalEngine.open(path, config, clock=clock)
        try:
            publish(engine)
            await work(engine)
        finally:
            await engine.close()

    asyncio.run(run())
    return path


def trimmed(path: Path, config: EngineConfig, topics: Mapping[str, int] = TOPICS) -> int:
    """Have retention take what it may, and return where the log starts then."""

    async def clean() -> int:
        engine = await LocalEngine.open(path, config)
        try:
            publish(engine, topics)
            while (cleaned := await engine.clean_now()).more:
                pass
            return cleaned.log_start
        finally:
            await engine.close()

    return asyncio.run(clean())


async def pulled(engine: LocalEngine, topic: str, queue: int) -> bytes:
    """Return the records of a queue as the engine itself reads them."""
    found = await engine.pull(
        PullRequest(topic=topic, queue=queue, queue_offset=0, messages_max=16_384)
    )
    return bytes(found.block.payload)
