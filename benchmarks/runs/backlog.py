"""What a message costs when millions wait, against an empty queue, in one process without HTTP.

Measured: sends of batches, and hand-outs with their acknowledgements, each as processor and wall
time a message: on a queue in which nothing else is, and on one in which so many messages wait for
a group that has not begun. What waits was written and synced before hand-outs are timed, and lies
in the page cache as far as that is large enough. Offsets of what is handed out are checked.
"""

import asyncio
import gc
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from apps.engine.codec import layout
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    Lease,
    ReceiveRequest,
    RecordBatch,
    TopicSpec,
)
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_WAITING = 10_000_000
_QUICK_WAITING = 500_000
_MEASURED = 200_000
_BODY_BYTES = 128
_BATCH = 1_000
_FILL_BATCH = 10_000
_TOPIC, _GROUP = "deep", "readers"
_TERMS = Terms(text="appended `async`, synced every 500 ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds a message."""

    send_us: float
    receive_us: float


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings of an empty queue and of a deep one, in turn."""
    deep = _WAITING if settings.seconds > 1 else _QUICK_WAITING
    for number in range(settings.repetitions):
        for waiting in (0, deep):
            directory = settings.directory / f"backlog-{number}-{waiting}"
            figures: dict[str, float] = {}
            fault = ""
            try:
                cost = isolated.run(work, directory, waiting)
                figures = {"send us": cost.send_us, "receive and ack us": cost.receive_us}
            except isolated.WorkFailed as error:
                fault = str(error)
            yield Reading(
                work=Work(
                    title=f"a backlog: time a message of {_BODY_BYTES} B",
                    headline="receive and ack us",
                    is_lower_better=True,
                ),
                side=f"{waiting:,} wait",
                is_ours=True,
                terms=_TERMS,
                count=_MEASURED,
                figures=figures,
                fault=fault,
            )


def work(directory: Path, waiting: int) -> Cost:
    """Measure one store; raise AssertionError where a message is not the one that was due."""
    directory.mkdir()
    try:
        return asyncio.run(_work(directory, waiting))
    finally:
        shutil.rmtree(directory)


async def _work(store: Path, waiting: int) -> Cost:
    engine = await LocalEngine.open(store, EngineConfig(ack=AckMode.ASYNC))
    engine.publish_catalog(
        CatalogSnapshot(version=1, topics={_TOPIC: TopicSpec(name=_TOPIC, queue_count=1)})
    )
    for _ in range(0, waiting, _FILL_BATCH):
        await engine.append([_batch(_FILL_BATCH)], ack=AckMode.ASYNC)
    batches = [_batch(_BATCH) for _ in range(_MEASURED // _BATCH)]
    gc.collect()
    started = time.perf_counter()
    for batch in batches:
        await engine.append([batch], ack=AckMode.ASYNC)
    send_s = time.perf_counter() - started
    await _until_synced(engine)
    receive_s = await _receive(engine)
    await engine.close()
    return Cost(send_us=1e6 * send_s / _MEASURED, receive_us=1e6 * receive_s / _MEASURED)


async def _until_synced(engine: LocalEngine) -> None:
    # Gigabytes that were written at once are not what a hand-out waits for.
    while (status := engine.status()).synced_offset < status.written_offset:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _receive(engine: LocalEngine) -> float:
    """Hand out and acknowledge from the queue's head; return the seconds."""
    request = ReceiveRequest(
        group=_GROUP, topics=(_TOPIC,), messages_max=_BATCH, wait_ms=5_000, invisible_ms=60_000
    )
    expected, took_s = 0, 0.0
    while expected < _MEASURED:
        started = time.perf_counter()
        answer = await engine.receive(request)
        await engine.ack(_GROUP, [_handle(lease) for lease in answer.leases])
        took_s += time.perf_counter() - started
        for lease in answer.leases:
            first = _first(lease)
            assert first == expected, f"message {first} where {expected} was due"
            expected += len(lease.block)
    return took_s


def _first(lease: Lease) -> int:
    start = layout.STAMP_OFFSETS.start
    return int.from_bytes(lease.block.payload[start : start + 8])


def _handle(lease: Lease) -> str:
    """Return the receipt handle of all messages of a lease."""
    first = _first(lease)
    return f"{lease.token}:{first}-{first + len(lease.block) - 1}"


def _batch(count: int) -> RecordBatch:
    record = encode_record(topic=_TOPIC.encode(), queue=0, body=b"x" * _BODY_BYTES)
    sizes = np.full(count, len(record), dtype=np.int32)
    return RecordBatch(topic=_TOPIC, queue=0, payload=bytearray(record * count), sizes=sizes)
