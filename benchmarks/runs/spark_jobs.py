"""Seconds that each job of the pipelines takes over bronze tables in Parquet, and its memory.

Measured: a job's plan and all its outputs, to a sink that drops them, on `local[2]` with a heap of
1 GiB, in the order of the catalogue and in one session, as the worker runs them. Not measured:
starting Spark, and publishing. Messages and deliveries are made by Spark itself: two topics of
eight queues, whole numbers, every thousandth message stored twice and delivered twice. Inputs that
come from the database are empty. Memory is what the kernel says a process had at most.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from apps.pipelines.catalogue import JOBS
from apps.pipelines.columns import Table
from apps.pipelines.tables import TABLES
from benchmarks import isolated
from benchmarks.readings import Reading, Work
from benchmarks.settings import Settings
from benchmarks.sides import Terms

_ROOT = Path(__file__).parents[2]
_ROWS = 10_000_000
_QUICK_ROWS = 200_000
_QUEUES = 8
_HEAP = "1g"
_COPY_EVERY = 1_000
_TIMEOUT_S = 3_600.0
_START = datetime(2026, 3, 1, 9, tzinfo=UTC)
_LENGTH = timedelta(hours=1)
_JOBS = "apps.pipelines.spark.jobs"
_TERMS = Terms(text="read from the page cache")
_MEMORY = "memory"
_MIB = 2**20

# Of `id`, a number from 0 on. A topic's queues take turns, so numbers of a queue are whole.
_COMMON = {
    "topic": "concat('topic-', id % 2)",
    "queue": f"CAST(id DIV 2 % {_QUEUES} AS INT)",
    "queue_offset": f"id DIV {2 * _QUEUES}",
    "message_id": f"hex(id - IF(id % {_COPY_EVERY} = 999, {2 * _QUEUES}, 0))",
    "sharding_key": "concat('customer-', pmod(xxhash64(id), 20000))",
    "born_at": "timestamp_millis(at_ms - 5)",
    "stored_at": "timestamp_millis(at_ms)",
}
_MESSAGE = _COMMON | {
    "log_offset": "id * 300",
    "key": "concat('order-', id)",
    "tag": "'a'",
    "producer": "'producer'",
    "seq": f"id DIV {2 * _QUEUES} + 1",
    "numbering": "'sequence'",
    "reconsume_times": "0",
    "store_bytes": "CAST(300 + id % 100 AS INT)",
    "body_bytes": "100",
    "properties": "map('TAGS', 'a')",
}
_DELIVERY = _COMMON | {
    "group": "'group'",
    "client": f"concat('client-', id DIV 2 % {_QUEUES})",
    "attempt": "1",
    "started_at": "timestamp_millis(at_ms + 2)",
    "ended_at": "timestamp_millis(at_ms + 4)",
    "result": "IF(id % 5000 = 0, 'error', 'ok')",
    "error_class": "IF(id % 5000 = 0, 'ValueError', '')",
    "mode": "'ordered'",
}
_MADE = {"bronze.messages": _MESSAGE, "bronze.trace": _DELIVERY}


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield a reading of each job there is, and one of the memory of all."""
    rows = _ROWS if settings.seconds > 1 else _QUICK_ROWS
    names = job_names()
    for number in range(settings.repetitions):
        directory = settings.directory / f"spark-jobs-{number}"
        found: dict[str, dict[str, float]] = {}
        fault = ""
        try:
            if find_spec("pyspark") is None or shutil.which("java") is None:
                fault = "not measured: Spark needs Java and PySpark"
            else:
                os.sync()
                found = isolated.Running(work, directory, names, rows).result(_TIMEOUT_S)
        except isolated.WorkFailed as error:
            fault = str(error)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        for name in (*names, _MEMORY):
            title = "most memory of all jobs" if name == _MEMORY else f"job {name}"
            yield Reading(
                work=Work(
                    title=f"Spark local[2]: {title}",
                    headline="JVM MiB" if name == _MEMORY else "s",
                    is_lower_better=True,
                ),
                side="mqweb",
                is_ours=True,
                terms=_TERMS,
                count=rows,
                figures=found.get(name, {}),
                fault=fault,
            )


def job_names() -> list[str]:
    """Return the jobs that make tables of tables."""
    return [
        name
        for name, job in JOBS.items()
        if job.writes
        and set(job.reads) <= set(TABLES)
        and (_ROOT / f"{_JOBS.replace('.', '/')}/{name}.py").exists()
    ]


def work(directory: Path, names: list[str], rows: int) -> dict[str, dict[str, float]]:
    """Make the tables, run each job once, and return its figures."""
    directory.mkdir()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "sdk" / "src")])
    session = _session(directory)
    try:
        _fill(session, directory, rows)
        inputs = _inputs(session, directory)
        for table in _MADE:
            assert inputs[table].count() == rows, f"{table} is not whole"
        found = {name: {"s": _seconds(name, inputs)} for name in names}
        for figures in found.values():
            figures["messages/s"] = rows / figures["s"]
        return found | {_MEMORY: _memory()}
    finally:
        session.stop()


def _session(directory: Path) -> Any:
    """Return a session with the settings of the product's worker."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "mqweb.settings", "MQWEB_DATA": str(directory)}
    from pyspark.sql import SparkSession

    from apps.pipelines.spark.session import spark_settings

    found = {**spark_settings(directory, "local[2]"), "spark.driver.memory": _HEAP}
    builder = SparkSession.builder.master("local[2]")
    for name, value in found.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _fill(session: Any, directory: Path, rows: int) -> None:
    # Each row at its moment of the hour, in order.
    step = f"id * {round(_LENGTH.total_seconds() * 1000)} DIV {rows}"
    ids = session.range(rows).selectExpr(
        "id", f"{round(_START.timestamp() * 1000)} + {step} AS at_ms"
    )
    for table, makers in _MADE.items():
        columns = _expressions(TABLES[table], makers)
        ids.selectExpr(*columns).write.option("compression", "zstd").parquet(str(directory / table))


def _expressions(table: Table, makers: Mapping[str, str]) -> list[str]:
    return [
        f"CAST({makers.get(column.name, 'NULL')} AS {column.kind.value}) AS `{column.name}`"
        for column in table.columns
    ]


def _inputs(session: Any, directory: Path) -> dict[str, Any]:
    return {
        name: session.read.parquet(str(directory / name))
        if name in _MADE
        else session.createDataFrame([], table.ddl())
        for name, table in TABLES.items()
    }


def _seconds(name: str, inputs: Mapping[str, Any]) -> float:
    from apps.pipelines.spark.jobs import Window, function_of

    started = time.perf_counter()
    outputs = function_of(name)(inputs, Window(start=_START, end=_START + _LENGTH))
    for frame in outputs.values():
        frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def _memory() -> dict[str, float]:
    """Return the most memory of the JVM, and of Python's workers together, that are there now."""
    found = {"JVM MiB": 0.0, "Python MiB": 0.0}
    for process in psutil.Process().children(recursive=True):
        status = _status(process.pid)
        kind = "JVM MiB" if status.get("Name") == "java" else "Python MiB"
        found[kind] += int(status.get("VmHWM", "0 kB").split()[0]) * 1024 / _MIB
    return found


def _status(process: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        # It has ended meanwhile.
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}
