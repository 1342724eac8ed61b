"""A stream in a process of its own, which dies where it is told to; for the test that kills.

`python -m tests.spark.lake.stream_child DATABASE LAKE STORE STREAM BATCH` kills itself with -9 when
the files of that batch are in place and nothing of it is committed; with -1 it runs until what is
there is copied, with -2 until somebody kills it.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any


def main(database: str, lake: str, store: str, stream: int, batch: int) -> None:
    import django
    from django.db import connections

    django.setup()
    connections["default"].settings_dict["NAME"] = database
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = database
    from pyspark.sql import SparkSession

    from apps.pipelines.models import PipelineStream
    from apps.pipelines.place import Place
    from apps.pipelines.services import publishing
    from apps.pipelines.spark import streaming

    whole = publishing._add_files

    def add_files(*args: Any, **owner: Any) -> Any:
        files = whole(*args, **owner)
        if owner["batch"] == batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return files

    publishing._add_files = add_files
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    trigger = {"availableNow": True} if batch == -1 else {"processingTime": "100 milliseconds"}
    query = streaming.stream(
        spark,
        Place(lake=Path(lake), store=Path(store), server="", bodies=True),
        PipelineStream.objects.get(pk=stream),
        rows_a_batch=2_000,
        trigger=trigger,
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
