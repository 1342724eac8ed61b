"""A stream that is killed with -9 twice while a broker writes: nothing lost, nothing twice."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from django.db import connection

from apps.engine.local import LocalEngine
from apps.pipelines.models import PipelineStream, StreamBatch
from apps.pipelines.selectors import lake as selector
from tests.engine.offline.stores import CONFIG, send
from tests.rounds import report, seed_of_run
from tests.spark.conftest import ROOT
from tests.spark.serving import Serving, serving

QUEUES = (("orders", 0), ("orders", 1), ("payments", 0), ("payments", 1))
AT_ONCE = 25
WAIT_S = 600


class Producer:
    """Sends to all queues, again and again, until it is told to stop."""

    def __init__(self, broker: Serving) -> None:
        self.sent = 0
        self._broker = broker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._broker.run(self._once)
            self.sent += AT_ONCE

    async def _once(self, engine: LocalEngine) -> None:
        for topic, queue in QUEUES:
            await send(engine, topic, queue, *[b"body %d" % n for n in range(AT_ONCE)])


def started(place: Path, store: Path, row: PipelineStream, batch: int, log: Any) -> Any:
    command = [
        sys.executable, "-m", "tests.spark.lake.stream_child",
        connection.settings_dict["NAME"], str(place), str(store), str(row.pk), str(batch),
    ]  # fmt: skip
    path = os.pathsep.join([str(ROOT), str(ROOT / "sdk" / "src")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "DJANGO_SETTINGS_MODULE": "mqweb.settings_test",
    }
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
    )


def killed(process: Any) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(WAIT_S)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.django_db(transaction=True)
def test_a_stream_that_is_killed_twice_has_each_message_once(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    chance = random.Random(seed)
    row = PipelineStream.objects.create(name="live", worker="w", lease_ends_at="2100-01-01T00:00Z")
    lake = tmp_path / "lake"
    with (
        (tmp_path / "log").open("wb") as log,
        # What is sent last is proven by a checkpoint: nothing comes behind it.
        serving(tmp_path / "store", config=replace(CONFIG, checkpoint_interval_ms=500)) as broker,
    ):
        with Producer(broker) as producer:
            first = started(lake, broker.path, row, 2, log)
            try:
                code = first.wait(WAIT_S)
            finally:
                killed(first)
            after_first = StreamBatch.objects.count()
            second = started(lake, broker.path, row, -2, log)
            try:
                until = time.monotonic() + WAIT_S
                while StreamBatch.objects.count() < after_first + 2:
                    assert time.monotonic() < until
                    assert second.poll() is None, (tmp_path / "log").read_text()
                    time.sleep(0.05)
                time.sleep(chance.uniform(0, 2))
            finally:
                killed(second)
        third = started(lake, broker.path, row, -1, log)
        try:
            assert third.wait(WAIT_S) == 0, (tmp_path / "log").read_text()
        finally:
            if third.poll() is None:
                killed(third)

    assert code == -signal.SIGKILL
    assert (after_first, second.returncode) == (2, -signal.SIGKILL)
    orphans = {path.relative_to(lake).as_posix() for path in lake.rglob("part-*.parquet")}
    files = list(selector.files_of("bronze.messages"))
    assert orphans > {file.path for file in files}
    rows = [
        (row["topic"], row["queue"], row["queue_offset"])
        for file in files
        for row in pq.read_table(
            lake / file.path, columns=["topic", "queue", "queue_offset"], partitioning=None
        ).to_pylist()
    ]
    assert sum(file.rows for file in files) == len(rows)
    assert sorted(rows) == [(*key, number) for key in QUEUES for number in range(producer.sent)]
    report(
        "stream killed twice",
        messages=len(rows),
        lost=len(QUEUES) * producer.sent - len({*rows}),
        duplicated=len(rows) - len({*rows}),
        orphans=len(orphans) - len(files),
    )
