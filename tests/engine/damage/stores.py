"""Small stores on a simulated disk to be damaged, and everything a reader gets of them."""

import random
from dataclasses import dataclass, field

import numpy as np

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import TIMER_DELIVER_MS, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.failpoints import Failpoints
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    Appended,
    CatalogSnapshot,
    PullRequest,
    ReceiveRequest,
    RecordBatch,
    TopicSpec,
)

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=8_192,
    consume_queue_file_entries=64,
    reserve_bytes=0,
)
TUNING = TimerTuning(
    flush_rows=4,
    near_ms=100,
    next_ms=20,
    rows_max=8,
    runs_max=2,
    merged_runs=2,
    rewritten_rows_min=4,
)
TOPICS = {"orders": 2, "a.b|c": 1}
GROUP = "billing"
DELAYED = 8
HOUR_MS = 3_600_000

Place = tuple[str, int, int]


def opened(disk: SimulatedDisk) -> Broker:
    """Open the store; the clock always begins at the same moment."""
    return open_broker(
        disk, config=CONFIG, clock=ManualClock(), failpoints=Failpoints(), tuning=TUNING
    )


def send(broker: Broker, records: list[bytes], *, topic: str, queue: int) -> Appended:
    """Send one batch, delayed or not, as one frame."""
    batch = RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(one) for one in records], dtype=np.int32),
    )
    (way,) = broker.intake.route(broker.appender.check([batch]))
    stored, _ = broker.appender.write(way.parts)
    return way.answer(stored)


def filled(*, messages: int = 90, seed: int = 1, checkpoints: bool = True) -> SimulatedDisk:
    """Return a store over several segments, stopped in order.

    It has batches of one to five messages, delayed ones in a run, and a group that got some.
    """
    rng = random.Random(seed)
    disk = SimulatedDisk()
    broker = opened(disk)
    topics = {name: TopicSpec(name=name, queue_count=count) for name, count in TOPICS.items()}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    due_ms = broker.clock.wall_ms() + HOUR_MS
    later = [
        encode_record(
            topic=b"orders",
            queue=0,
            body=b"later %d" % number,
            properties=encode_properties({TIMER_DELIVER_MS: str(due_ms + number)}),
        )
        for number in range(DELAYED)
    ]
    send(broker, later, topic="orders", queue=0)
    places = [(name, queue) for name, count in TOPICS.items() for queue in range(count)]
    number = 0
    while number < messages:
        topic, queue = rng.choice(places)
        records = []
        for _ in range(rng.randint(1, 5)):
            properties = encode_properties({"TAGS": "AB"[number % 2], "KEYS": f"k{number}"})
            body = b"%d " % number + rng.randbytes(rng.randrange(3_000))
            records.append(
                encode_record(topic=topic.encode(), queue=queue, body=body, properties=properties)
            )
            number += 1
        send(broker, records, topic=topic, queue=queue)
        if checkpoints and rng.random() < 0.1:
            broker.checkpoint()
    broker.log.sync()
    broker.show_synced()
    take(broker, 10, settle=True)
    take(broker, 5, settle=False)
    waiting, clock = broker.delays.waiting, broker.clock
    waiting.plan(clock.wall_ms(), monotonic_ms=clock.monotonic_ms())
    job = waiting.plan(clock.wall_ms(), monotonic_ms=clock.monotonic_ms())
    assert job is not None
    job.run()
    waiting.adopt(job)
    broker.checkpoint()
    waiting.settle()
    broker.close()
    return disk


def take(broker: Broker, count: int, *, settle: bool) -> list[Place]:
    """Receive for the group, and acknowledge; return what came."""
    request = ReceiveRequest(
        group=GROUP, topics=tuple(TOPICS), messages_max=count, client_id="c", invisible_ms=HOUR_MS
    )
    found = []
    for lease in broker.receive(request).leases:
        for start in starts_of(lease.block.sizes).tolist():
            offset = decode_record(lease.block.payload, start).queue_offset
            found.append((lease.block.topic, lease.block.queue, offset))
            if settle:
                broker.settler.ack(GROUP, [f"{lease.token}:{offset}"])
    return found


@dataclass(slots=True)
class Everything:
    """What readers got: records by place, and how many messages they were told are unreadable."""

    records: dict[Place, bytes] = field(default_factory=dict)
    unreadable: dict[tuple[str, int], int] = field(default_factory=dict)


def read_all(broker: Broker) -> Everything:
    """Pull every queue of every topic from its first message to its end, a few at a time."""
    found = Everything()
    for topic, count in TOPICS.items():
        for queue in range(count):
            at, is_over = 0, False
            while not is_over:
                result = broker.pull(
                    PullRequest(topic=topic, queue=queue, queue_offset=at, messages_max=7)
                )
                for start, size in zip(
                    starts_of(result.block.sizes).tolist(),
                    result.block.sizes.tolist(),
                    strict=True,
                ):
                    data = bytes(result.block.payload[start : start + size])
                    offset = decode_record(data, 0).queue_offset
                    found.records[topic, queue, offset] = data
                key = (topic, queue)
                found.unreadable[key] = found.unreadable.get(key, 0) + result.unreadable
                is_over = result.next_offset >= result.max_offset
                assert is_over or result.next_offset > at, "a pull did not move on"
                at = result.next_offset
    return found


def image(disk: SimulatedDisk) -> SimulatedDisk:
    """Return a copy that may be damaged."""
    return disk.crash_image(random.Random(0), "everything")
