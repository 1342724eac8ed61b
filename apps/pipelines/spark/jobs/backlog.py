"""Backlogs: how they grow, when they are gone, and why there is one. Docs: docs/JOBS.md.

Samples of progress and traces lie on one line of time, a group and topic each, and are looked at
from each sample back: so no sample must find a partner among the traces.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from apps.pipelines.spark.jobs import Inputs, Outputs, Window
from apps.pipelines.spark.relations import deliveries, within
from apps.pipelines.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

TREND_S = 900
"""How far back the trend, rates and failures of a sample reach; what lies further back is usual."""
USUAL_S = 3600
STUCK_S = 600
_SAMPLES_MIN = 3

BEHIND_S = 60
BEHIND_MIN = 100
"""A group is behind with more messages than come in so many seconds, and than so many."""

MORE = 1.5
FAILING_SHARE = 0.2
"""What is more than usual; how many of its tries fail where a group is failing."""


def run(inputs: Inputs, window: Window) -> Outputs:
    """Return a row for each sample of the window."""
    seen = _looked_back(_timeline(inputs["input.progress"], deliveries(inputs["bronze.trace"])))
    found = seen.where(sql.col("is_sample") & within("at", window)).select(
        "group",
        "topic",
        "at",
        "lag",
        sql.col("trend").alias("trend_per_s"),
        sql.col("sending").alias("send_rate"),
        sql.col("consuming").alias("consume_rate"),
        _drain_s().alias("drain_s"),
        _cause().alias("cause"),
    )
    return {"gold.backlog": found.select(*TABLES["gold.backlog"].names())}


def _timeline(progress: "DataFrame", trace: "DataFrame") -> "DataFrame":
    """Return samples, and between them what was worked on in each minute."""
    is_ok = sql.col("result") == "ok"
    worked_ms = (sql.unix_micros("ended_at") - sql.unix_micros("started_at")) / 1000
    work = trace.groupBy("group", "topic", sql.date_trunc("minute", "ended_at").alias("at")).agg(
        sql.count("*").alias("tries"),
        sql.count(sql.when(~is_ok, 1)).alias("failures"),
        sql.count(sql.when(is_ok, 1)).alias("done"),
        sql.coalesce(sql.sum(sql.when(is_ok, worked_ms)), sql.lit(0.0)).alias("worked_ms"),
    )
    samples = progress.withColumn("is_sample", sql.lit(True))
    return samples.unionByName(
        work.withColumn("is_sample", sql.lit(False)), allowMissingColumns=True
    ).withColumn("second", sql.unix_seconds("at"))


def _looked_back(line: "DataFrame") -> "DataFrame":
    recent, usual = _back(TREND_S - 1, 0), _back(USUAL_S, TREND_S)
    still = _back(STUCK_S, 0)
    behind_known = sql.count("lag").over(recent)
    return line.select(
        "*",
        sql.when(behind_known >= _SAMPLES_MIN, sql.regr_slope("lag", "second").over(recent)).alias(
            "trend"
        ),
        sql.avg("send_rate").over(recent).alias("sending"),
        sql.avg("send_rate").over(usual).alias("usually_sending"),
        sql.avg("consume_rate").over(recent).alias("consuming"),
        sql.avg("consume_rate").over(usual).alias("usually_consuming"),
        _ratio("worked_ms", "done", recent).alias("working_ms"),
        _ratio("worked_ms", "done", usual).alias("usually_working_ms"),
        _ratio("failures", "tries", recent).alias("failing"),
        (
            (sql.count("committed").over(still) >= _SAMPLES_MIN)
            & (sql.min("second").over(still) <= sql.col("second") - STUCK_S)
            & (sql.min("committed").over(still) == sql.max("committed").over(still))
            & (sql.col("lag") > sql.min("lag").over(still))
        ).alias("is_stuck"),
    )


def _back(from_s: int, to_s: int) -> "WindowSpec":
    return Over.partitionBy("group", "topic").orderBy("second").rangeBetween(-from_s, -to_s)


def _ratio(above: str, below: str, over: "WindowSpec") -> "Column":
    count = sql.sum(below).over(over)
    return sql.when(count > 0, sql.sum(above).over(over) / count)


def _drain_s() -> "Column":
    lag, trend = sql.col("lag"), sql.col("trend")
    return sql.when(lag == 0, sql.lit(0.0)).when(trend < 0, lag / -trend)


def _cause() -> "Column":
    lag, sending = sql.col("lag"), sql.coalesce(sql.col("sending"), sql.lit(0.0))
    behind_from = sql.greatest(sql.lit(float(BEHIND_MIN)), sending * BEHIND_S)
    is_slower = sql.col("consuming") * MORE < sql.col("usually_consuming")
    takes_longer = sql.col("working_ms") > MORE * sql.col("usually_working_ms")
    causes: list[tuple[str, Column]] = [
        ("unknown", lag.isNull()),
        ("none", lag == 0),
        ("no_consumer", sql.col("members") == 0),
        ("stuck", sql.col("is_stuck")),
        ("none", lag <= behind_from),
        ("failing", sql.col("failing") >= FAILING_SHARE),
        ("burst", sql.col("sending") > MORE * sql.col("usually_sending")),
        ("slow", sql.coalesce(is_slower, sql.lit(False)) | takes_longer),
    ]
    # A condition about what is unknown does not hold.
    return reduce(
        lambda rest, one: sql.when(one[1], sql.lit(one[0])).otherwise(rest),
        reversed(causes),
        sql.lit("unknown"),
    )
