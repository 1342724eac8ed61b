"""A broker on a simulated disk, and numbered messages for it."""

import random
from collections.abc import Sequence

import numpy as np

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import PRODUCER_ID, PRODUCER_SEQ, encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    Appended,
    CatalogSnapshot,
    PullRequest,
    RecordBatch,
    Special,
    TopicSpec,
)

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=4_096,
    consume_queue_file_entries=16,
    reserve_bytes=0,
)
TOPICS = {"t": 2, "u": 1}


def record(
    topic: str = "t",
    queue: int = 0,
    body: bytes = b"x",
    *,
    producer: str | None = "p",
    number: int | str | None = None,
    **properties: str,
) -> bytes:
    """Return a record as a producer sends it, numbered where a number is given."""
    named = dict(properties)
    if number is not None:
        named[PRODUCER_SEQ] = str(number)
        if producer is not None:
            named[PRODUCER_ID] = producer
    return encode_record(
        topic=topic.encode(), queue=queue, body=body, properties=encode_properties(named)
    )


def batch_of(
    records: Sequence[bytes], topic: str = "t", queue: int = 0, *, by_message: bool = False
) -> RecordBatch:
    """Return records as a batch of bytes, or as a door builds one, by message."""
    sizes = np.array([len(one) for one in records], dtype=np.int32)
    batch = RecordBatch(topic=topic, queue=queue, payload=bytearray(b"".join(records)), sizes=sizes)
    if by_message:
        batch.tag_hashes = np.zeros(len(records), dtype=np.int64)
        batch.special = Special.SEQUENCE
    return batch


class SendBench:
    """One store, opened again and again."""

    def __init__(self, config: EngineConfig = CONFIG) -> None:
        """Open an empty store with two topics."""
        self.config = config
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.broker = self._opened()
        self.publish()

    def publish(self, topics: dict[str, int] = TOPICS) -> None:
        """Have the broker obey a catalog of topics with so many queues."""
        specs = {name: TopicSpec(name=name, queue_count=count) for name, count in topics.items()}
        version = self.broker.catalog.snapshot.version + 1
        self.broker.publish_catalog(CatalogSnapshot(version=version, topics=specs))

    def _opened(self) -> Broker:
        return open_broker(self.disk, config=self.config, clock=self.clock, failpoints=Failpoints())

    def kill_and_open(self) -> None:
        """End the process as it is, and start on what it wrote."""
        self.disk = self.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
        self.reopen()

    def cut_and_open(self) -> None:
        """Cut the power; what was not synced is lost."""
        self.disk = self.disk.crash_image(random.Random(0), CrashMode.NOTHING)
        self.reopen()

    def stop_and_open(self) -> None:
        """Stop cleanly and start again."""
        self.broker.close()
        self.reopen()

    def reopen(self) -> None:
        """Start on what is on the disk."""
        self.broker = self._opened()

    def append(self, *batches: RecordBatch) -> list[Appended]:
        """Store batches as the engine does that are numbered."""
        answers, _ = self.broker.repeats.append(self.broker.appender.check(batches))
        return answers

    def send(self, *numbers: int, queue: int = 0, topic: str = "t", **kinds: str) -> Appended:
        """Send one batch of bytes with messages of these numbers; bodies say them."""
        records = [
            record(topic, queue, b"%d" % number, number=number, **kinds) for number in numbers
        ]
        (answer,) = self.append(batch_of(records, topic, queue))
        return answer

    def sync(self) -> None:
        """Make what is written durable and visible."""
        self.broker.log.sync()
        self.broker.show_synced()

    def read(self, topic: str = "t", queue: int = 0) -> list[Record]:
        """Return the messages of a queue."""
        self.sync()
        block = self.broker.pull(
            PullRequest(topic=topic, queue=queue, queue_offset=0, messages_max=10_000)
        ).block
        return [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]

    def bodies(self, topic: str = "t", queue: int = 0) -> list[bytes]:
        """Return the bodies of a queue."""
        return [one.body for one in self.read(topic, queue)]
