"""Pulls that wait, in one process, without HTTP: how soon one wakes, and what the others cost.

Measured: the processor time of an engine in which nothing happens while so many pulls are parked,
for longer than the 5 s after which all of them are looked at; then, with the same pulls parked,
the time from a send to the answer of one more pull that waits for it. Readers see what is synced,
so a fdatasync lies between the two. Not measured: connections, which cost a door more than this.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    PullRequest,
    PullStatus,
    RecordBatch,
    TopicSpec,
)
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_PARKED = (0, 1_000, 5_000)
_QUEUES = 1_000
_TOPIC = "wake"
_WAIT_MS = 30_000
# Over 5 s, so that every parked pull is looked at at least once.
_IDLE_S = 11.0
_WAKES = 500
_GAP_S = 0.002
_TERMS = Terms(text="appended `async`; a reader that waits has the log synced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one engine took: a share of a processor, and how long each wake lasted."""

    idle_share: float
    wakes_ms: list[float]


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings for each number of parked pulls."""
    for number in range(settings.repetitions):
        for parked in _PARKED:
            directory = settings.directory / f"holds-{number}-{parked}"
            found, fault = None, ""
            try:
                found = isolated.run(work, directory, parked)
            except isolated.WorkFailed as error:
                fault = str(error)
            yield from _readings(found, fault, parked=parked)


def _readings(found: Found | None, fault: str, *, parked: int) -> Iterator[Reading]:
    wakes, idle = {}, {}
    if found is not None:
        hundredths = quantiles(found.wakes_ms, n=100)
        wakes = {
            "p50 ms": median(found.wakes_ms),
            "p99 ms": hundredths[98],
            "longest ms": max(found.wakes_ms),
        }
        idle = {"% of a processor": 100 * found.idle_share}
    for title, headline, figures in (
        ("parked pulls: from a send to the answer of a waiting pull", "p99 ms", wakes),
        ("parked pulls: processor time while nothing happens", "% of a processor", idle),
    ):
        yield Reading(
            work=Work(title=title, headline=headline, is_lower_better=True),
            side=f"{parked:,} parked",
            is_ours=True,
            terms=_TERMS,
            count=_WAKES if figures is wakes else 0,
            figures=figures,
            fault=fault,
        )


def work(directory: Path, parked: int) -> Found:
    """Measure one engine with so many parked pulls; raise AssertionError where it misbehaves."""
    directory.mkdir()
    try:
        return asyncio.run(_work(directory, parked))
    finally:
        shutil.rmtree(directory)


async def _work(store: Path, parked: int) -> Found:
    engine = await LocalEngine.open(store, EngineConfig(ack=AckMode.ASYNC))
    names = [f"quiet{number}" for number in range(-(-parked // _QUEUES))]
    topics = {name: TopicSpec(name=name, queue_count=_QUEUES) for name in names}
    topics[_TOPIC] = TopicSpec(name=_TOPIC, queue_count=1)
    engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    waiting = [asyncio.create_task(engine.pull(_quiet(names, number))) for number in range(parked)]
    while engine.status().parked < parked:  # noqa: ASYNC110  The engine tells nobody.
        await asyncio.sleep(0.01)
    idle_share = await _idle_share()
    wakes_ms = await _wakes(engine)
    assert engine.status().parked == parked, "a pull was answered without a message"
    await engine.close()
    answers = await asyncio.gather(*waiting)
    assert all(answer.status is PullStatus.NO_NEW_MSG for answer in answers)
    return Found(idle_share=idle_share, wakes_ms=wakes_ms)


def _quiet(names: Sequence[str], number: int) -> PullRequest:
    return PullRequest(
        topic=names[number // _QUEUES],
        queue=number % _QUEUES,
        queue_offset=0,
        wait_ms=_WAIT_MS,
    )


async def _idle_share() -> float:
    started, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(_IDLE_S)
    return (time.process_time() - used) / (time.perf_counter() - started)


async def _wakes(engine: LocalEngine) -> list[float]:
    """Send one message after the other to a pull that waits; return each one's milliseconds."""
    record = encode_record(topic=_TOPIC.encode(), queue=0, body=b"x" * 128)
    wakes_ms = []
    for offset in range(_WAKES):
        request = PullRequest(topic=_TOPIC, queue=0, queue_offset=offset, wait_ms=_WAIT_MS)
        pull = asyncio.create_task(engine.pull(request))
        await asyncio.sleep(_GAP_S)
        batch = RecordBatch(
            topic=_TOPIC,
            queue=0,
            payload=bytearray(record),
            sizes=np.array([len(record)], dtype=np.int32),
        )
        started = time.perf_counter()
        await engine.append([batch], ack=AckMode.ASYNC)
        answer = await pull
        wakes_ms.append(1000 * (time.perf_counter() - started))
        assert (len(answer.block), answer.next_offset) == (1, offset + 1), "a message is missing"
    return wakes_ms
