"""Variables of Spark, the lake and the archive. Pure: knows names, types and limits; not Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apps.pipelines import requirements
from mqweb.envvalues import UNITS_MS, choice, duration_ms, integer, path
from mqweb.variables import Refused, Variable

VARIABLES = (
    Variable(
        name="MQWEB_SPARK", default="off", meaning="who runs pipelines: nobody, a worker, on demand"
    ),
    Variable(name="MQWEB_SPARK_MASTER", default="local[2]", meaning="where Spark runs its tasks"),
    Variable(name="MQWEB_SPARK_MEMORY", default="1g", meaning="heap of Spark's driver"),
    Variable(name="MQWEB_SPARK_EXECUTOR_MEMORY", default="1g", meaning="heap of an executor"),
    Variable(name="MQWEB_SPARK_EXECUTOR_CORES", default="2", meaning="tasks of an executor"),
    Variable(name="MQWEB_SPARK_CONF", default="", meaning="more settings of Spark: k=v;k=v"),
    Variable(name="MQWEB_SPARK_CONF_FILE", default="", meaning="a file of more settings of Spark"),
    Variable(name="MQWEB_LAKE", default="", meaning="directory of the lake instead of <data>/lake"),
    Variable(name="MQWEB_LAKE_BODIES", default="keep", meaning="whether bodies are copied"),
    Variable(name="MQWEB_LAKE_RETENTION", default="400d", meaning="how long the lake keeps rows"),
    Variable(
        name="MQWEB_RUN_RETENTION", default="400d", meaning="how long results of runs are kept"
    ),
    Variable(name="MQWEB_LAKE_BYTES", default="0", meaning="largest lake; 0: any size"),
    Variable(name="MQWEB_ARCHIVE", default="off", meaning="whether old segments are archived"),
)

_CORES_MAX = 1_024
_RUN_RETENTION_MS_MIN = 30 * UNITS_MS["d"]
_LAKE_BYTES_MAX = 999_999_999_999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelines:
    """The variables, parsed; each field is named as its variable is. `None` is "not set"."""

    spark: str
    spark_master: str
    spark_memory: str
    spark_executor_memory: str
    spark_executor_cores: int
    spark_conf: Mapping[str, str]
    spark_conf_file: Path | None
    lake: Path
    lake_bodies: bool
    lake_retention_ms: int
    run_retention_ms: int
    lake_bytes: int
    archive: bool


def read(values: Mapping[str, str], data: Path) -> Pipelines:
    """Parse the variables, each of which is there; raise Refused for the first bad one.

    The lake is in `data` unless it has a directory of its own.
    """
    return Pipelines(
        spark=choice(values, "MQWEB_SPARK", ("off", "on", "demand")),
        spark_master=_master(values["MQWEB_SPARK_MASTER"]),
        spark_memory=_heap(values, "MQWEB_SPARK_MEMORY"),
        spark_executor_memory=_heap(values, "MQWEB_SPARK_EXECUTOR_MEMORY"),
        spark_executor_cores=integer(values, "MQWEB_SPARK_EXECUTOR_CORES", 1, _CORES_MAX),
        spark_conf=_conf(values["MQWEB_SPARK_CONF"]),
        spark_conf_file=path(values["MQWEB_SPARK_CONF_FILE"]),
        lake=path(values["MQWEB_LAKE"]) or data / "lake",
        lake_bodies=choice(values, "MQWEB_LAKE_BODIES", ("keep", "drop")) == "keep",
        lake_retention_ms=duration_ms("MQWEB_LAKE_RETENTION", values["MQWEB_LAKE_RETENTION"]),
        run_retention_ms=_run_retention_ms(values["MQWEB_RUN_RETENTION"]),
        lake_bytes=integer(values, "MQWEB_LAKE_BYTES", 0, _LAKE_BYTES_MAX),
        archive=choice(values, "MQWEB_ARCHIVE", ("off", "on")) == "on",
    )


def _master(value: str) -> str:
    if fault := requirements.master_fault(value):
        raise Refused(f"MQWEB_SPARK_MASTER={fault}")
    return value


def _heap(values: Mapping[str, str], name: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,5}[mg]", values[name], re.ASCII):
        raise Refused(f"{name}={values[name][:40]!r}: must be a number and m or g, such as 1g")
    return values[name]


def _conf(value: str) -> Mapping[str, str]:
    """Return settings written as `spark.a=1;spark.b=x,y`; values may hold all but semicolons."""
    found = {}
    for line in filter(None, (line.strip() for line in value.split(";"))):
        name, is_there, setting = line.partition("=")
        # The value may hold a password, so a refusal must not repeat it.
        if not is_there or not re.fullmatch(r"spark\.[A-Za-z0-9._-]+", name.strip()):
            raise Refused("MQWEB_SPARK_CONF: must be spark.NAME=VALUE, separated by semicolons")
        found[name.strip()] = setting.strip()
    return found


def _run_retention_ms(text: str) -> int:
    """Return how long runs are kept: the schedule looks back at 24 windows of up to a day."""
    kept_ms = duration_ms("MQWEB_RUN_RETENTION", text)
    if kept_ms < _RUN_RETENTION_MS_MIN:
        days = _RUN_RETENTION_MS_MIN // UNITS_MS["d"]
        raise Refused(f"MQWEB_RUN_RETENTION: {text} is shorter than {days}d")
    return kept_ms
