"""A handful of records takes a short way through the broker; it must leave the same bytes."""

import random
from contextlib import ExitStack
from typing import NamedTuple
from unittest import mock

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec import batch, check
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import Appended, CatalogSnapshot, RecordBatch, TopicSpec

CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=1_024,
    consume_queue_file_entries=16,
    reserve_bytes=0,
)
QUEUES = [("a", 0), ("a", 1), ("b", 0)]

bodies = st.binary(max_size=64)
tags = st.none() | st.sampled_from(["", "A", "shop.tasks.bill", "中😀", "t" * 70])
places = st.sampled_from(QUEUES)
batches = st.tuples(places, st.lists(st.tuples(bodies, tags), min_size=1, max_size=20))
writes = st.lists(st.lists(batches, min_size=1, max_size=4), min_size=1, max_size=6)

Messages = list[tuple[bytes, str | None]]


class Outcome(NamedTuple):
    """What a run of writes left behind."""

    answers: list[list[Appended]]
    frame_ends: list[int]
    entries: dict[tuple[str, int], bytes]
    files: dict[str, bytes]
    counts: tuple[int, int]


def packed(topic: str, queue: int, messages: Messages) -> RecordBatch:
    records = [
        encode_record(
            topic=topic.encode(),
            queue=queue,
            body=body,
            properties=encode_properties({"k": "v"} if tag is None else {"k": "v", "TAGS": tag}),
        )
        for body, tag in messages
    ]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


def opened(disk: SimulatedDisk) -> Broker:
    return open_broker(disk, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())


def outcome(disk: SimulatedDisk, wanted: list[list[tuple[tuple[str, int], Messages]]]) -> Outcome:
    """Write to a copy of the store and stop it."""
    disk = disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    broker = opened(disk)
    answers, frame_ends = [], []
    for write in wanted:
        checked = broker.appender.check([packed(*place, messages) for place, messages in write])
        appended, frame_end = broker.appender.write(checked)
        answers.append(appended)
        frame_ends.append(frame_end)
    entries = {}
    for place in QUEUES:
        queue = broker.queues.queue(*place)
        entries[place] = queue.read(0, queue.end).tobytes()
    for answer in (answer for write in answers for answer in write):
        # An answer is true where the entry it names leads to the batch.
        queue = broker.queues.queue(answer.topic, answer.queue)
        (entry,) = queue.read(answer.queue_offset, 1)
        assert entry["log_offset"] == answer.log_offset
    counts = (broker.appender.message_count, broker.appender.byte_count)
    broker.close()
    return Outcome(answers, frame_ends, entries, disk.content(), counts)


def a_store() -> SimulatedDisk:
    disk = SimulatedDisk()
    broker = opened(disk)
    topics = {"a": TopicSpec(name="a", queue_count=2), "b": TopicSpec(name="b", queue_count=1)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    broker.close()
    return disk


@settings(deadline=None, max_examples=60)
@given(writes)
def test_few_records_leave_the_same_bytes_entries_and_answers_as_arrays_would(
    wanted: list[list[tuple[tuple[str, int], Messages]]],
) -> None:
    disk = a_store()

    short = outcome(disk, wanted)
    with ExitStack() as patches:
        check_many = patches.enter_context(
            mock.patch.object(check, "check_many", wraps=check.check_many)
        )
        for module in (batch, check):
            patches.enter_context(mock.patch.object(module, "_FEW", -1))
        general = outcome(disk, wanted)

    assert check_many.call_count == sum(map(len, wanted))
    assert short == general
    assert sum(map(len, short.entries.values())) == 20 * short.counts[0]
