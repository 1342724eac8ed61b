"""The engine alone, in one process, without HTTP: batches appended, then read back by pull.

Measured: checking every record, stamping, the frame, the write, the consume queue; and the gathered
read. Not measured: packing records, which is the producer's work; the sync of `async` mode runs
beside it, every 500 ms. Each round is appended from fresh copies, which are not timed, because the
engine writes its stamps into them. The peers have no such part, so nothing is compared.
"""

import asyncio
import gc
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec import layout
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    PullRequest,
    RecordBatch,
    TopicSpec,
)
from benchmarks import bodies, isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_SIZES_BYTES = (1024, 128)
_BATCHES = (250, 1000)
_TOPIC = "bench"
_ROUND = 100_000
_ROUNDS = 3
# A store is filled, read and deleted so often. On a machine that lends its memory (a virtual one)
# the first ones are bound by the host's page faults; later ones find pages that are there.
_LIVES = 7
_LIVES_COLD = 4
_PULL_MESSAGES = 4_096
_PULL_BYTES = 16 * 2**20
# Where a record has what is compared; decoding a million records whole would take longer than all
# measurements together.
_BODY_START = layout.RECORD_HEADER_BYTES
_OFFSET_START = layout.STAMP_OFFSETS.start
_OFFSET_END = _OFFSET_START + 8
_TERMS = Terms(text="appended `async`: in the page cache, fdatasync every 500 ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A batch as a producer would send it."""

    payload: bytes
    sizes: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What one store took."""

    count: int
    append_s: float
    pull_s: float


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings of each batch size and body size."""
    for number in range(settings.repetitions):
        for size in _SIZES_BYTES:
            for batch in _BATCHES:
                directory = settings.directory / f"engine-{number}-{size}-{batch}"
                try:
                    lives, fault = isolated.run(work, directory, size, batch)
                except isolated.WorkFailed as error:
                    lives, fault = [], str(error)
                yield from _readings(lives, fault, size=size, batch=batch)


def _readings(lives: Sequence[Life], fault: str, *, size: int, batch: int) -> Iterator[Reading]:
    rates = {
        "append": [life.count / life.append_s for life in lives],
        "read back": [life.count / life.pull_s for life in lives],
    }
    for verb, each in rates.items():
        figures = {"msg/s": median(each[_LIVES_COLD:]), "first store": each[0]} if each else {}
        yield Reading(
            work=Work(
                title=f"engine alone: {verb}, {size:,} B",
                headline="msg/s",
                note=f"Median of the last stores of {_LIVES}; the first one meets fresh pages.",
            ),
            side=f"batches of {batch:,}",
            is_ours=True,
            terms=_TERMS,
            count=sum(life.count for life in lives),
            figures=figures,
            fault=fault,
        )


def work(directory: Path, size_bytes: int, batch: int) -> tuple[list[Life], str]:
    """Fill, read and delete store after store; return their times and what went wrong."""
    directory.mkdir()
    templates = _templates(size_bytes, batch)
    lives: list[Life] = []
    for _ in range(_LIVES):
        store = directory / "store"
        store.mkdir()
        life, fault = asyncio.run(_life(store, templates, size_bytes))
        shutil.rmtree(store)
        if fault:
            return [], fault
        lives.append(life)
    return lives, ""


async def _life(store: Path, templates: list[Template], size_bytes: int) -> tuple[Life, str]:
    engine = await LocalEngine.open(store, EngineConfig(ack=AckMode.ASYNC))
    topic = TopicSpec(name=_TOPIC, queue_count=1)
    engine.publish_catalog(CatalogSnapshot(version=1, topics={_TOPIC: topic}))
    append_s = 0.0
    for _ in range(_ROUNDS):
        append_s += await _append(engine, templates)
    pull_s, fault = await _read_back(engine, size_bytes)
    await engine.close()
    return Life(count=_ROUNDS * _ROUND, append_s=append_s, pull_s=pull_s), fault


async def _append(engine: LocalEngine, templates: list[Template]) -> float:
    batches = [
        RecordBatch(
            topic=_TOPIC, queue=0, payload=bytearray(template.payload), sizes=template.sizes
        )
        for template in templates
    ]
    gc.collect()
    started = time.perf_counter()
    for batch in batches:
        await engine.append([batch], ack=AckMode.ASYNC)
    return time.perf_counter() - started


async def _read_back(engine: LocalEngine, size_bytes: int) -> tuple[float, str]:
    """Pull everything; every offset and body is compared while the clock is stopped."""
    took_s, offset = 0.0, 0
    found: list[bytes] = []
    # Readers see what is synced, and a pull that waits asks for the sync.
    wait_ms = 5_000
    while offset < _ROUNDS * _ROUND:
        request = PullRequest(
            topic=_TOPIC,
            queue=0,
            queue_offset=offset,
            messages_max=_PULL_MESSAGES,
            bytes_max=_PULL_BYTES,
            wait_ms=wait_ms,
        )
        started = time.perf_counter()
        result = await engine.pull(request)
        took_s += time.perf_counter() - started
        if not len(result.block):
            return took_s, f"no message at offset {offset} of {_ROUNDS * _ROUND}"
        payload, start = bytes(result.block.payload), 0
        for size in result.block.sizes.tolist():
            stamped_offset = int.from_bytes(payload[start + _OFFSET_START : start + _OFFSET_END])
            if stamped_offset != offset:
                return took_s, f"offset {stamped_offset} where {offset} was due"
            found.append(payload[start + _BODY_START : start + _BODY_START + size_bytes])
            offset += 1
            start += size
            if len(found) == _ROUND:
                if fault := bodies.fault(found, count=_ROUND, size_bytes=size_bytes):
                    return took_s, fault
                found = []
    return took_s, ""


def _templates(size_bytes: int, batch: int) -> list[Template]:
    records = [
        encode_record(topic=_TOPIC.encode(), queue=0, body=body, born_time_ms=1)
        for body in bodies.make(_ROUND, size_bytes)
    ]
    return [
        Template(
            payload=b"".join(records[start : start + batch]),
            sizes=np.array([len(item) for item in records[start : start + batch]], dtype=np.int32),
        )
        for start in range(0, _ROUND, batch)
    ]
