"""Messages with a delay of their own, in one process, without HTTP: a million that wait.

Measured: how fast batches of 1,000 messages of 128 B with due times all over a month are taken in;
then, while all of them wait and what is far off moves to the disk, how late others come that are
due within some seconds: from the due time to the answer of a pull that waits, a fdatasync included;
and the most memory the process ever had, records of the client included. Never early is checked for
each message, and a message that is missing or comes twice is a fault.
"""

import asyncio
import resource
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import TIMER_DELIVER_MS, encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.codec.windows import window
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, PullRequest, RecordBatch, TopicSpec
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_PENDING = 1_000_000
_QUICK_PENDING = 100_000
_BATCH = 1_000
_BODY = b"x" * 120
_TOPIC = "later"
_FAR_MS = (600_000, 30 * 24 * 3_600_000)
_NEAR_RATE = 5_000
_LEAD_MS = 2_000
# Body, behind the fixed part of a record: the due time first.
_BODY_AT = 88
_STORE_TIME_AT = 56
_TERMS = Terms(text="appended `async`; a reader that waits has the log synced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one engine did."""

    insert_rate: float
    late_ms: NDArray[np.float64]
    memory_mb: float


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings: taking in, lateness, memory."""
    pending = _PENDING if settings.seconds > 1 else _QUICK_PENDING
    for number in range(settings.repetitions):
        directory = settings.directory / f"delays-{number}"
        found, fault = None, ""
        try:
            found = isolated.run(work, directory, pending, max(settings.seconds, 2.0))
        except isolated.WorkFailed as error:
            fault = str(error)
        yield from _readings(found, fault, pending=pending)


def _readings(found: Found | None, fault: str, *, pending: int) -> Iterator[Reading]:
    inserts, lates, memory = {}, {}, {}
    late_count = 0
    if found is not None:
        late_count = len(found.late_ms)
        inserts = {"messages/s": found.insert_rate}
        lates = {
            "p50 ms": float(np.percentile(found.late_ms, 50)),
            "p99 ms": float(np.percentile(found.late_ms, 99)),
            "longest ms": float(found.late_ms.max()),
        }
        memory = {"MB": found.memory_mb}
    for title, headline, figures, count, is_lower_better in (
        ("any delay: taking in, 128 B", "messages/s", inserts, pending, False),
        ("any delay: lateness at a waiting pull", "p99 ms", lates, late_count, True),
        ("any delay: most memory of the process", "MB", memory, pending, True),
    ):
        yield Reading(
            work=Work(title=title, headline=headline, is_lower_better=is_lower_better),
            side=f"{pending:,} waiting",
            is_ours=True,
            terms=_TERMS,
            count=count,
            figures=figures,
            fault=fault,
        )


def work(directory: Path, pending: int, seconds: float) -> Found:
    """Measure one engine; raise AssertionError where a message is early, missing or there twice."""
    directory.mkdir()
    try:
        return asyncio.run(_work(directory, pending, seconds))
    finally:
        shutil.rmtree(directory)


async def _work(store: Path, pending: int, seconds: float) -> Found:
    engine = await LocalEngine.open(store, EngineConfig(ack=AckMode.ASYNC))
    topics = {_TOPIC: TopicSpec(name=_TOPIC, queue_count=1)}
    engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    insert_s = await _insert_far(engine, pending)
    late_ms = await _near(engine, seconds)
    assert engine.delay_status().pending == pending, "a message was lost, or came too early"
    await engine.close()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Found(insert_rate=pending / insert_s, late_ms=late_ms, memory_mb=memory_mb)


async def _insert_far(engine: LocalEngine, pending: int) -> float:
    """Send what waits; return the seconds that took, without packing."""
    rng = np.random.default_rng(1)
    taken_s = 0.0
    for _ in range(0, pending, _BATCH):
        dues = _now_ms() + rng.integers(*_FAR_MS, size=_BATCH)
        batch = _batch(dues)
        started = time.perf_counter()
        await engine.append([batch], ack=AckMode.ASYNC)
        taken_s += time.perf_counter() - started
        # Tasks of the engine have their turn, as between two requests.
        await asyncio.sleep(0)
    return taken_s


async def _near(engine: LocalEngine, seconds: float) -> NDArray[np.float64]:
    """Send messages that are due soon, and return how late each of them came."""
    count = int(_NEAR_RATE * seconds) // _BATCH * _BATCH
    first_ms = _now_ms() + _LEAD_MS
    dues = first_ms + np.random.default_rng(2).permutation(count) * int(1000 * seconds) // count
    for start in range(0, count, _BATCH):
        await engine.append([_batch(dues[start : start + _BATCH])], ack=AckMode.ASYNC)
    assert _now_ms() < first_ms, "sending took longer than the lead"
    lates, offset = [], 0
    while offset < count:
        request = PullRequest(
            topic=_TOPIC, queue=0, queue_offset=offset, messages_max=4_096, wait_ms=10_000
        )
        answer = await engine.pull(request)
        now = time.time() * 1000
        assert len(answer.block), "nothing came for 10 s"
        starts = starts_of(answer.block.sizes)
        longs = window(answer.block.payload, ">i8")
        due = longs[starts + _BODY_AT].astype(np.int64)
        assert (longs[starts + _STORE_TIME_AT] >= due).all(), "delivered early"
        lates.append(now - due)
        offset = answer.next_offset
    assert offset == count, "a message came twice"
    return np.concatenate(lates)


def _batch(dues: NDArray[np.int64]) -> RecordBatch:
    topic = _TOPIC.encode()
    records = [
        encode_record(
            topic=topic,
            queue=0,
            body=due.to_bytes(8, "big") + _BODY,
            properties=encode_properties({TIMER_DELIVER_MS: str(due)}),
        )
        for due in dues.tolist()
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return RecordBatch(topic=_TOPIC, queue=0, payload=bytearray().join(records), sizes=sizes)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
