"""What tests of Spark share: one session for all of them, and a store to be read."""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.engine.local import LocalEngine
from tests.engine.offline.stores import send, written

ROOT = Path(__file__).parents[2]
ROWS = {("orders", 0): 130, ("orders", 1): 70, ("payments", 0): 45, ("payments", 1): 55}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker run all that need a session, where the work is shared out by groups."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture
def data() -> Iterator[Path]:
    """Return a directory for a product; not below the test's own, which is too long for sockets."""
    found = Path(tempfile.mkdtemp(prefix="mqweb-spark-"))
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stopped store of 300 messages in four queues."""

    async def work(engine: LocalEngine) -> None:
        for (topic, queue), count in ROWS.items():
            for first in range(0, count, 50):
                numbers = range(first, min(first + 50, count))
                bodies = [b"%s/%d/%d" % (topic.encode(), queue, number) for number in numbers]
                await send(engine, topic, queue, *bodies, TAGS=topic[0])

    return written(tmp_path_factory.mktemp("store"), work)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the session, or skip where there is no Java or no PySpark."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    sql = pytest.importorskip("pyspark.sql")
    directory = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Its workers are processes of their own: what they import must be on their path.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "sdk" / "src")])
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        # Plans of a few rows each: compiling them, twice over, took most of the tests' time.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # It tells of its end when the streams it would write to are closed.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)
