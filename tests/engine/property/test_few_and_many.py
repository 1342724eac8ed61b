"""A handful of records takes a short way through the broker; it must leave the same bytes."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import zip_longest
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
from apps.engine.derived.index import incoming
from apps.engine.errors import EngineError
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
keys = st.none() | st.sampled_from(["one", "one two", "中😀 x"])
places = st.sampled_from(QUEUES)
batches = st.tuples(places, st.lists(st.tuples(bodies, tags, keys), min_size=1, max_size=20))
writes = st.lists(st.lists(batches, min_size=1, max_size=4), min_size=1, max_size=6)

damages = st.lists(st.none() | st.tuples(st.floats(0, 0.999), st.integers(0, 7)), max_size=6)

Messages = list[tuple[bytes, str | None, str | None]]
Damage = tuple[float, int] | None


class Outcome(NamedTuple):
    """What a run of writes left behind."""

    answers: list[list[Appended]]
    frame_ends: list[int]
    entries: dict[tuple[str, int], bytes]
    files: dict[str, bytes]
    counts: tuple[int, int]
    refusals: list[tuple[type[EngineError], str]]


def packed(topic: str, queue: int, messages: Messages) -> RecordBatch:
    records = [
        encode_record(
            topic=topic.encode(),
            queue=queue,
            body=body,
            properties=encode_properties(
                {"k": "v"}
                | ({} if tag is None else {"TAGS": tag})
                | ({} if key is None else {"KEYS": key, "UNIQ_KEY": f"id {key}"})
            ),
        )
        for body, tag, key in messages
    ]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


def opened(disk: SimulatedDisk) -> Broker:
    return open_broker(disk, config=CONFIG, clock=ManualClock(), failpoints=Failpoints())


def damaged(batch: RecordBatch, damage: Damage) -> None:
    """Flip one bit of a batch, at a share of its length."""
    if damage is not None:
        share, bit = damage
        batch.payload[int(share * len(batch.payload))] ^= 1 << bit


def outcome(
    disk: SimulatedDisk,
    wanted: list[list[tuple[tuple[str, int], Messages]]],
    spoiled: Sequence[Damage] = (),
) -> Outcome:
    """Write to a copy of the store and stop it; in a write that is `spoiled` a bit is flipped."""
    disk = disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    broker = opened(disk)
    answers, frame_ends, refusals = [], [], []
    for write, damage in zip_longest(wanted, spoiled[: len(wanted)]):
        sent = [packed(*place, messages) for place, messages in write]
        damaged(sent[0], damage)
        try:
            checked = broker.appender.check(sent)
        except EngineError as refusal:
            # Which rule a record breaks first may be told in other words, never which record.
            refusals.append((type(refusal), str(refusal).partition(":")[0]))
            continue
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
    return Outcome(answers, frame_ends, entries, disk.content(), counts, refusals)


def a_store() -> SimulatedDisk:
    disk = SimulatedDisk()
    broker = opened(disk)
    topics = {"a": TopicSpec(name="a", queue_count=2), "b": TopicSpec(name="b", queue_count=1)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    broker.close()
    return disk


def both_ways(
    wanted: list[list[tuple[tuple[str, int], Messages]]], spoiled: Sequence[Damage] = ()
) -> tuple[Outcome, Outcome, int]:
    """Return what the short way and the general one leave, and how many batches went the latter."""
    disk = a_store()
    short = outcome(disk, wanted, spoiled)
    with ExitStack() as patches:
        check_many = patches.enter_context(
            mock.patch.object(check, "check_many", wraps=check.check_many)
        )
        for module in (batch, check, incoming):
            patches.enter_context(mock.patch.object(module, "_FEW", -1))
        return short, outcome(disk, wanted, spoiled), check_many.call_count


@settings(deadline=None, max_examples=60)
@given(writes)
def test_few_records_leave_the_same_bytes_entries_keys_and_answers_as_arrays_would(
    wanted: list[list[tuple[tuple[str, int], Messages]]],
) -> None:
    short, general, many_count = both_ways(wanted)

    assert many_count == sum(map(len, wanted))
    assert short == general
    assert sum(map(len, short.entries.values())) == 20 * short.counts[0]


@settings(deadline=None, max_examples=60)
@given(writes, damages)
def test_a_damaged_record_among_few_is_refused_as_arrays_would_refuse_it(
    wanted: list[list[tuple[tuple[str, int], Messages]]], spoiled: list[Damage]
) -> None:
    short, general, _ = both_ways(wanted, spoiled)

    assert short == general
    assert len(short.answers) + len(short.refusals) == len(wanted)
