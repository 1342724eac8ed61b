"""A broker with delayed messages on a simulated disk, for the tests of delays."""

from dataclasses import dataclass, field

import numpy as np

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import TIMER_DELIVER_MS, UNIQ_KEY, encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.delaytypes import DelayedMessage
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.failpoints import Failpoints
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import Appended, CatalogSnapshot, PullRequest, RecordBatch, TopicSpec

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=8_192,
    consume_queue_file_entries=64,
    reserve_bytes=1,
)
# Everything moves with a handful of messages.
TINY = TimerTuning(
    flush_rows=4,
    near_ms=100,
    next_ms=20,
    rows_max=8,
    runs_max=2,
    merged_runs=2,
    rewritten_rows_min=4,
)


@dataclass(slots=True)
class Store:
    """One store that is opened again and again, and the clock that goes on meanwhile."""

    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    failpoints: Failpoints = field(default_factory=Failpoints)
    tuning: TimerTuning | None = None

    def open(self, *, queues: int = 2) -> Broker:
        """Open the store; topic `t` is there."""
        broker = open_broker(
            self.disk,
            config=CONFIG,
            clock=self.clock,
            failpoints=self.failpoints,
            tuning=self.tuning,
        )
        publish(broker, t=queues)
        return broker


def publish(broker: Broker, **topics: int) -> None:
    """Publish a catalog of topics and their numbers of queues."""
    specs = {name: TopicSpec(name=name, queue_count=count) for name, count in topics.items()}
    version = broker.catalog.snapshot.version + 1
    broker.publish_catalog(CatalogSnapshot(version=version, topics=specs))


def record(
    body: bytes, *, topic: str = "t", queue: int = 0, properties: dict[str, str] | None = None
) -> bytes:
    """Return a record as a client sends it."""
    section = encode_properties(properties or {})
    return encode_record(topic=topic.encode(), queue=queue, body=body, properties=section)


def batch(records: list[bytes], *, topic: str = "t", queue: int = 0) -> RecordBatch:
    """Return records as a batch from outside."""
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(one) for one in records], dtype=np.int32),
    )


def send(broker: Broker, records: list[bytes], *, topic: str = "t", queue: int = 0) -> Appended:
    """Send one batch, delayed or not."""
    checked = broker.appender.check([batch(records, topic=topic, queue=queue)])
    (way,) = broker.intake.route(checked)
    stored, _ = broker.appender.write(way.parts)
    return way.answer(stored)


def send_at(broker: Broker, dues: dict[str, int], *, topic: str = "t", queue: int = 0) -> Appended:
    """Send messages, by body, that are due at wall times; their ids are their bodies."""
    records = [
        record(
            body.encode(),
            topic=topic,
            queue=queue,
            properties={TIMER_DELIVER_MS: str(due_ms), UNIQ_KEY: body},
        )
        for body, due_ms in dues.items()
    ]
    return send(broker, records, topic=topic, queue=queue)


def deliver(broker: Broker) -> int:
    """Deliver all that is due; return how many messages went."""
    before = broker.delaydelivery.delivered
    while broker.delaydelivery.deliver(wait=True):
        pass
    return broker.delaydelivery.delivered - before


def sync(broker: Broker) -> None:
    """Bring everything to the disk, so that readers see it."""
    broker.log.sync()
    broker.show_synced()


def found(broker: Broker, topic: str = "t", queue: int | None = None) -> list[Record]:
    """Return the messages readers can see, of one queue or all, in order."""
    sync(broker)
    count = broker.catalog.topic(topic).queue_count
    records = []
    for number in range(count) if queue is None else [queue]:
        request = PullRequest(topic=topic, queue=number, queue_offset=0, messages_max=10_000)
        block = broker.pull(request).block
        records += [decode_record(block.payload, at) for at in starts_of(block.sizes).tolist()]
    return records


def bodies(broker: Broker, topic: str = "t", queue: int | None = None) -> list[str]:
    """Return the bodies of what readers can see."""
    return [one.body.decode() for one in found(broker, topic, queue)]


def move(broker: Broker) -> bool:
    """Write the run that should be written, and have it count; say whether there was one."""
    sync(broker)
    waiting, clock = broker.delays.waiting, broker.clock
    for _ in range(2):  # The first look only notes the time.
        job = waiting.plan(clock.wall_ms(), monotonic_ms=clock.monotonic_ms())
        if job is not None:
            break
    else:
        return False
    job.run()
    waiting.adopt(job)
    broker.checkpoint()
    waiting.settle()
    return True


def listed(
    broker: Broker,
    *,
    topic: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    cursor: str | None = None,
    messages_max: int = 100,
) -> list[DelayedMessage]:
    """Return what waits, page by page."""
    messages: list[DelayedMessage] = []
    while True:
        page = broker.delaylist.page(
            topic=topic,
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=cursor,
            messages_max=messages_max,
            wait=True,
        )
        assert len(page.messages) <= messages_max
        messages += page.messages
        if page.cursor is None:
            return messages
        assert page.cursor != cursor, "a page without progress"
        cursor = page.cursor
