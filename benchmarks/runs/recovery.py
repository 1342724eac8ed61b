"""How soon a store serves again: after kill -9 with a gibibyte to look at, and after a stop.

Measured: opening the engine in a fresh process, from the call to the first pull that is answered;
after a process that was killed with checkpoints put off, so that a gibibyte of log must be scanned
and indexed once more, and after one that stopped in order. Not measured: starting Python and
importing, which the product adds. The page cache is warm, as after a kill; a machine that was
switched off reads the disk too. Every message is counted by its queue's end.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import GIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, PullRequest, RecordBatch, TopicSpec
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_TAIL_BYTES = GIB
_QUICK_TAIL_BYTES = GIB // 8
_BODY_BYTES = 1024
_BATCH = 1_000
_TOPIC = "tail"
_CONFIG = EngineConfig(
    ack=AckMode.ASYNC, checkpoint_interval_ms=24 * 3_600_000, dispatch_behind_bytes_max=1 << 40
)
_TERMS = Terms(text="appended `async`, synced every 500 ms; no checkpoint since the start")


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings of both ways to end."""
    tail_bytes = _TAIL_BYTES if settings.seconds > 1 else _QUICK_TAIL_BYTES
    for number in range(settings.repetitions):
        store = settings.directory / f"recovery-{number}"
        opened: dict[str, float] = {}
        fault, count = "", 0
        try:
            # The process is killed by itself, so that nothing is closed or told on the way.
            killed = isolated.Running(fill_and_die, store, tail_bytes)
            try:
                killed.result()
            except isolated.WorkFailed:
                count = int(_count_of(store).read_text())
            opened["after kill -9"] = isolated.run(open_and_stop, store, count)
            opened["after a stop"] = isolated.run(open_and_stop, store, count)
        except (isolated.WorkFailed, OSError) as error:
            fault = str(error)
        finally:
            shutil.rmtree(store, ignore_errors=True)
        yield Reading(
            work=Work(
                title=f"opening a store, {tail_bytes // 2**20:,} MiB of log behind the checkpoint",
                headline="after kill -9, s",
                is_lower_better=True,
            ),
            side="mqweb",
            is_ours=True,
            terms=_TERMS,
            count=count,
            figures={f"{name}, s": seconds for name, seconds in opened.items()},
            fault=fault,
        )


def fill_and_die(store: Path, tail_bytes: int) -> None:
    """Append so many bytes, write down how many messages were stored, and kill this process."""
    store.mkdir()
    count = asyncio.run(_fill(store, tail_bytes))
    _count_of(store).write_text(str(count))
    os.kill(os.getpid(), signal.SIGKILL)


def _count_of(store: Path) -> Path:
    return store.with_name(f"{store.name}.count")


async def _fill(store: Path, tail_bytes: int) -> int:
    engine = await LocalEngine.open(store, _CONFIG)
    engine.publish_catalog(
        CatalogSnapshot(version=1, topics={_TOPIC: TopicSpec(name=_TOPIC, queue_count=1)})
    )
    record = encode_record(topic=_TOPIC.encode(), queue=0, body=b"x" * _BODY_BYTES)
    sizes = np.full(_BATCH, len(record), dtype=np.int32)
    count = 0
    while count * len(record) < tail_bytes:
        batch = RecordBatch(topic=_TOPIC, queue=0, payload=bytearray(record * _BATCH), sizes=sizes)
        await engine.append([batch], ack=AckMode.ASYNC)
        count += _BATCH
    return count


def open_and_stop(store: Path, count: int) -> float:
    """Open the store, read its last message and stop; return the seconds until that was read."""
    return asyncio.run(_open(store, count))


async def _open(store: Path, count: int) -> float:
    started = time.perf_counter()
    engine = await LocalEngine.open(store, _CONFIG)
    request = PullRequest(topic=_TOPIC, queue=0, queue_offset=count - 1)
    answer = await engine.pull(request)
    took_s = time.perf_counter() - started
    assert answer.next_offset == count, f"{answer.next_offset} of {count} messages are there"
    await engine.close()
    return took_s
