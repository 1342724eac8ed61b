"""Makes the session of Spark that this process holds, and ends it with its JVM.

Knows settings and PySpark; nothing of runs. PySpark is imported when a session is made.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from apps.core.exceptions import ProblemError
from apps.pipelines import conf, requirements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_END_S = 10
_SHUFFLE_PARTITIONS_LOCAL = 4
# Tables of jobs are cached, and Spark joins no partitions of what is: its own 200 made a job of
# seconds one of many minutes, most of them empty tasks.
_SHUFFLE_PARTITIONS_A_CORE = 2
_SHUFFLE_PARTITIONS = 32
_TRIAL = "local-cluster["

_log = logging.getLogger("mqweb.pipelines")


def spark_settings(directory: Path, master: str) -> dict[str, str]:
    """Return all settings of a session: ours, those of the file, then those of the variable.

    Raises ProblemError `spark_unavailable` for a file of settings that cannot be read.
    """
    environment = settings.MQWEB
    found = {
        "spark.driver.memory": environment.pipelines.spark_memory,
        # Nobody looks at it, and it would listen on every address.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        # Rows of a queue are so alike that ten million of them are a few compressed megabytes: by
        # that size Spark takes them for a small table, and builds it in the driver's memory.
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
        "spark.sql.sources.fileCompressionFactor": "20",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    if is_local(master):
        found |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": str(_SHUFFLE_PARTITIONS_LOCAL),
            # So often a task says how many rows it has read by now.
            "spark.executor.heartbeatInterval": "2s",
        }
    else:
        found |= _of_executors(master)
    found |= {**_of_file(environment.pipelines.spark_conf_file), **environment.pipelines.spark_conf}
    return {"spark.sql.shuffle.partitions": str(_shuffle_partitions(master, found)), **found}


def _shuffle_partitions(master: str, found: Mapping[str, str]) -> int:
    """Return twice as many as a cluster has cores for us, where that is known beforehand."""
    if master.startswith(_TRIAL):
        executors, cores, _ = _of_trial(master)
        return _SHUFFLE_PARTITIONS_A_CORE * executors * cores
    cores_max = found.get("spark.cores.max", "")
    if not cores_max.isdecimal():
        return _SHUFFLE_PARTITIONS
    return _SHUFFLE_PARTITIONS_A_CORE * int(cores_max)


def _of_executors(master: str) -> Mapping[str, str]:
    """Return how large executors are: what was set, or what a cluster for trials has room for.

    There, one that asks for more than the master's text says would be waited for for ever.
    """
    if master.startswith(_TRIAL):
        _, cores, megabytes = _of_trial(master)
        return {"spark.executor.memory": f"{megabytes}m", "spark.executor.cores": str(cores)}
    environment = settings.MQWEB
    return {
        "spark.executor.memory": environment.pipelines.spark_executor_memory,
        "spark.executor.cores": str(environment.pipelines.spark_executor_cores),
    }


def _of_trial(master: str) -> tuple[int, int, int]:
    """Return executors, cores of each and megabytes of each of a cluster for trials."""
    executors, cores, megabytes = master.removeprefix(_TRIAL).rstrip("]").split(",")
    return int(executors), int(cores), int(megabytes)


def is_local(master: str) -> bool:
    """Say whether tasks run in the driver's own JVM, which sees all that this process sees."""
    return master.split("[")[0] == "local"


def open_session(*, name: str, master: str | None = None) -> "SparkSession":
    """Start the JVM and return the one session of this process.

    Raises ProblemError `spark_unavailable`, with what is missing and how to get it.
    """
    if missing := requirements.found_here().missing:
        raise ProblemError("spark_unavailable", "; ".join(missing))
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    master = master or settings.MQWEB.pipelines.spark_master
    directory = conf.directory()
    for one in (directory, directory / "local", directory / "warehouse"):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = spark_settings(directory, master)
    _prepare_environment(wanted)
    if not is_local(master):
        wanted["spark.submit.pyFiles"] = ",".join(
            filter(None, [str(_bundle(directory)), wanted.get("spark.submit.pyFiles", "")])
        )
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        raise ProblemError("spark_unavailable", f"Spark does not start: {error}") from error
    spark.sparkContext.setLogLevel("WARN")
    # It tells of every connection that is closed.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    if not is_local(master):
        _register(spark)
    _log.info("spark_started", extra={"master": master, "version": spark.version})
    return spark


def close_session(spark: "SparkSession") -> None:
    """Stop the session and end its JVM, also one that does not answer any more."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        spark.stop()
    except (Py4JError, OSError):
        _log.warning("spark_did_not_stop")
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    try:
        gateway.shutdown()
    except (Py4JError, OSError):
        _log.warning("spark_did_not_stop")
    # The JVM ends when what it reads from does.
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_JVM_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Without a JVM the next session starts one; the library keeps these for ever.
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    type(spark)._instantiatedSession = None


def is_alive(spark: "SparkSession") -> bool:
    """Say whether the JVM answers and its context is not stopped."""
    from py4j.protocol import Py4JError

    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def _prepare_environment(wanted: Mapping[str, str]) -> None:
    # Spark's Python workers are processes of their own and must find what jobs import. On other
    # machines the interpreter may lie elsewhere; a driver that runs already reads this alone.
    os.environ.setdefault("PYSPARK_PYTHON", wanted.get("spark.pyspark.python", sys.executable))
    paths = [str(settings.BASE_DIR), *_source_path(), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))


def _source_path() -> list[str]:
    import pyspark_mqweb

    return [str(Path(str(pyspark_mqweb.__file__)).parents[1])]


def _bundle(directory: Path) -> Path:
    from pyspark_mqweb import bundle

    path = directory / "mqweb-spark.zip"
    bundle.build(path)
    return path


def _register(spark: "SparkSession") -> None:
    """Name our source: where Spark looks by itself, it does not look into sent files."""
    from pyspark_mqweb import DefaultSource

    spark.dataSource.register(DefaultSource)


def _of_file(path: Path | None) -> Mapping[str, str]:
    """Read settings as `spark-defaults.conf` has them: a name and a value on a line."""
    if path is None:
        return {}
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(
            "spark_unavailable", f"MQWEB_SPARK_CONF_FILE cannot be read: {error}"
        ) from error
    found = {}
    for line in text.splitlines():
        words = line.strip().replace("=", " ", 1).split(None, 1)
        if len(words) == 2 and words[0].startswith("spark."):
            found[words[0]] = words[1].strip()
    return found
