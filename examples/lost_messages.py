"""Which numbered messages are lost, and which came twice: a table made with PySpark.

    PYTHONPATH=sdk/src .venv/bin/python examples/lost_messages.py --path data/store --topic orders

Producers with `SequenceNumbering()` number their messages in each queue, from 1 on. A number that
no message has is a message that was lost on its way, or was never sent.
"""

import argparse
import os
import sys
from typing import Any

COLUMNS = "partition int, offset bigint, headers array<struct<key: string, value: binary>>"
NUMBERED = """
    select partition, offset, string(of['SEQ_PRODUCER']) producer,
           bigint(string(of['SEQ_NUMBER'])) seq
    from (select partition, offset, map_from_entries(headers) of from {messages})
    where of['SEQ_NUMBER'] is not null"""
LOST = """
    select partition, producer, before + 1 first_seq, seq - 1 last_seq, seq - before - 1 missing
    from (select *, lag(seq, 1, 0L) over (partition by partition, producer order by seq) before
          from {numbered})
    where seq > before + 1 order by partition, producer, first_seq"""
REPEATED = """
    select partition, producer, seq, count(*) copies, sort_array(collect_list(offset)) offsets
    from {numbered} group by partition, producer, seq having count(*) > 1
    order by partition, producer, seq"""


def numbered(spark: Any, path: str, topic: str) -> Any:
    """Return the messages of a topic that have a producer's number."""
    messages = (
        spark.read.format("mqweb")
        .option("path", path)
        .option("subscribe", topic)
        .schema(COLUMNS)
        .load()
    )
    return spark.sql(NUMBERED, messages=messages)


def lost(spark: Any, messages: Any) -> Any:
    """Return the numbers that are missing, as ranges."""
    return spark.sql(LOST, numbered=messages)


def repeated(spark: Any, messages: Any) -> Any:
    """Return the numbers that more than one message has."""
    return spark.sql(REPEATED, numbered=messages)


def main() -> int:
    """Print both tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--path", default="data/store", help="the store (%(default)s)")
    arguments.add_argument("--topic", default="orders", help="(%(default)s)")
    given = arguments.parse_args()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # Looked at three times, and read once.
    messages = numbered(spark, given.path, given.topic).cache()
    print(f"{messages.count()} numbered messages")
    lost(spark, messages).show(truncate=False)
    repeated(spark, messages).show(truncate=False)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
