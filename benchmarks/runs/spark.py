"""Rows a second that Spark reads from a store's files, beside the same rows in Parquet.

Measured: an action on `local[2]` in a warm session, the best of three, with a heap of 1 GiB: all
columns without headers to a sink that drops them, and two columns grouped. Not measured: starting
Spark, and the first read of a session, which starts Python workers. The files are in the page
cache. Parquet is the same frame written by Spark, snappy: it has its columns apart and compressed,
so this is what an archive gains. Every count is compared with what was written.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, RecordBatch, TopicSpec
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_ROOT = Path(__file__).parents[2]
_ROWS = 2_000_000
_QUICK_ROWS = 200_000
_TOPICS = ("orders", "payments")
_QUEUES = 4
_BATCH = 250
_BODY_BYTES = 64
_TRIES = 3
_NARROW = "topic string, partition int, offset bigint"
_TERMS = Terms(text="read from the page cache")
_TITLES = {
    "all columns": "Spark local[2]: all columns to noop",
    "narrow": "Spark local[2]: two of three columns grouped",
}


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings of the source and of Parquet, all columns and few."""
    rows = _ROWS if settings.seconds > 1 else _QUICK_ROWS
    for number in range(settings.repetitions):
        directory = settings.directory / f"spark-{number}"
        found: dict[tuple[str, str], float] = {}
        fault = ""
        try:
            if find_spec("pyspark") is None or shutil.which("java") is None:
                fault = "not measured: Spark needs Java and PySpark"
            else:
                found = isolated.run(work, directory, rows)
        except isolated.WorkFailed as error:
            fault = str(error)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        for part, title in _TITLES.items():
            for side in ("mqweb", "parquet"):
                seconds = found.get((side, part))
                yield Reading(
                    work=Work(title=title, headline="rows/s"),
                    side=side,
                    is_ours=side == "mqweb",
                    terms=_TERMS,
                    count=rows,
                    figures={} if seconds is None else {"rows/s": rows / seconds},
                    fault=fault,
                )


def work(directory: Path, rows: int) -> dict[tuple[str, str], float]:
    """Fill a store, read it, and return the best seconds by side and part."""
    directory.mkdir()
    store = directory / "store"
    asyncio.run(_fill(store, rows))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "sdk" / "src")])
    session = session_in(directory)
    try:
        return dict(_timed(session, store, directory / "parquet", rows))
    finally:
        session.stop()


def session_in(directory: Path) -> Any:
    """Return a session that works in a directory."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )


def _timed(
    session: Any, store: Path, parquet: Path, rows: int
) -> Iterator[tuple[tuple[str, str], float]]:
    def source() -> Any:
        reader = session.read.format("mqweb").option("path", str(store))
        return reader.option("subscribe", ",".join(_TOPICS))

    source().load().write.parquet(str(parquet))
    frames = {
        ("mqweb", "all columns"): source().load(),
        ("parquet", "all columns"): session.read.parquet(str(parquet)),
        ("mqweb", "narrow"): source().schema(_NARROW).load(),
        ("parquet", "narrow"): session.read.parquet(str(parquet)),
    }
    for (side, part), frame in frames.items():
        assert frame.count() == rows, f"{side} has {frame.count()} of {rows} rows"
        action = _grouped if part == "narrow" else _dropped
        yield (side, part), min(_seconds(action, frame) for _ in range(_TRIES))


def _dropped(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _grouped(frame: Any) -> None:
    frame.groupBy("topic", "partition").count().collect()


def _seconds(action: Callable[[Any], None], frame: Any) -> float:
    started = time.perf_counter()
    action(frame)
    return time.perf_counter() - started


async def _fill(store: Path, rows: int) -> None:
    engine = await LocalEngine.open(store, EngineConfig(segment_bytes=128 * MIB))
    specs = {name: TopicSpec(name=name, queue_count=_QUEUES) for name in _TOPICS}
    engine.publish_catalog(CatalogSnapshot(version=1, topics=specs))
    places = [(topic, queue) for topic in _TOPICS for queue in range(_QUEUES)]
    for number in range(rows // _BATCH):
        topic, queue = places[number % len(places)]
        records = [
            encode_record(
                topic=topic.encode(),
                queue=queue,
                body=b"%016x" % (number * _BATCH + one) * (_BODY_BYTES // 16),
                born_time_ms=1_700_000_000_000 + number,
                properties=encode_properties(
                    {
                        "TAGS": "abc"[one % 3],
                        "KEYS": f"k{one}",
                        "UNIQ_KEY": f"{number:024X}{one:08X}",
                    }
                ),
            )
            for one in range(_BATCH)
        ]
        sizes = np.array([len(record) for record in records], dtype=np.int32)
        payload = bytearray().join(records)
        batch = RecordBatch(topic=topic, queue=queue, payload=payload, sizes=sizes)
        await engine.append([batch], ack=AckMode.ASYNC)
    await engine.close()
