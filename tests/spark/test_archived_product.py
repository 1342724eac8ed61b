"""What retention has dropped from a whole product's log counts in its jobs like what is there.

Messages are numbered with known gaps and repeats, in the part that is dropped, at the seams and in
the part that stays. Jobs run as an operator starts them, and so does who reads the lake.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from mqclient import Admin, Producer, SequenceNumbering
from mqclient.clock import SystemClock
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import AckMode
from mqclient.wire.ids import IDS
from mqclient.wire.properties import pack_properties, with_unique_key
from mqclient.wire.records import pack_record, topic_part

from tests.spark.operating import WAIT_S, Jobs
from tests.web.product import ROOT, Product, environment, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.process, pytest.mark.spark_products]

pytest.importorskip("pyspark")

SEGMENT = 32 * 1024 * 1024
BODY = 60_000
QUEUES = 4
# A little more than a segment.
A_PART = 600
TOPIC = "orders"


def started(data: Path, *switches: str, **variables: str) -> Product:
    return Product(
        data,
        worker_processes=1,
        switches=["--segment-bytes", str(SEGMENT), *switches],
        MQWEB_SPARK_MEMORY="512m",
        # How full this machine's disk is is no matter.
        MQWEB_RETENTION_DISK_PERCENT="100",
        MQWEB_RETENTION_FORCE_PERCENT="100",
        **variables,
    )


class Till:
    """Sends, and knows what was stored and which numbers nobody will find."""

    def __init__(self, product: Product) -> None:
        self.stored = Counter[int]()
        self.gaps: list[tuple[int, int, int]] = []
        self._url = f"http://127.0.0.1:{product.port}"
        self._numbering = SequenceNumbering("till")
        self._given = Counter[int]()
        with Admin(self._url) as admin:
            admin.create_topic(TOPIC, queue_count=QUEUES)

    def send(self, count: int) -> None:
        """Send to all queues in turn, each message with a number of its queue."""
        with Producer(self._url, interceptors=[self._numbering]) as producer:
            sent = [
                producer.send_async(TOPIC, os.urandom(BODY), queue=number % QUEUES)
                for number in range(count)
            ]
            producer.flush()
        for future in sent:
            self.stored[future.result(WAIT_S).queue] += 1
            self._given[future.result().queue] += 1

    def lose(self, queue: int, count: int) -> None:
        """Give numbers to messages that nobody sends."""
        first = self._given[queue] + 1
        for _ in range(count):
            self._numbering.for_queue(TOPIC, queue)
        self._given[queue] += count
        self.gaps.append((queue, first, self._given[queue]))

    def send_record(self, record: bytes) -> None:
        """Send what was sent before under its id, or will be."""
        endpoint, clock = Endpoint.of(self._url, None), SystemClock()
        calls, pool = Calls(endpoint), Pool(endpoint, clock=clock)
        patience = Patience(clock=clock, backoff=Backoff(), timeout_s=60)
        pool.run(persistently(calls.send_batch(TOPIC, 0, [record], AckMode.SYNC), patience))
        pool.close()
        self.stored[0] += 1


def a_record() -> bytes:
    now_ms = SystemClock().wall_ms()
    properties = with_unique_key(pack_properties(), IDS.next(now_ms))
    return pack_record(topic_part(TOPIC), 0, b"again", properties, now_ms, bytes(8))


def log_start(data: Path) -> int:
    # A segment that is being made has another name until it is whole.
    names = [path.name for path in (data / "store" / "commitlog").iterdir()]
    return min(int(name) for name in names if name.isdigit())


def holders(product: Product) -> set[str]:
    return {str(event["holder"]) for event in product.events("retention_blocked")}


def test_one_question_over_the_archive_and_the_log_counts_each_message_once(data: Path) -> None:
    product = started(data, "--spark", MQWEB_ARCHIVE="on", MQWEB_RETENTION_BYTES="1")
    try:
        product.wait_until_ready()
        since_ms = SystemClock().wall_ms()
        jobs = Jobs(product, since_ms, topics=[TOPIC])
        till, copied = Till(product), a_record()
        # From its first run on the archive holds the log.
        jobs.run("archive")
        till.send(10)
        till.send_record(copied)
        jobs.run("ingest")
        for part in range(5):
            till.send(A_PART)
            till.lose(part % QUEUES, 1 + part)
        till.send(10)
        till.send_record(copied)
        wait_for(lambda: "reader archive" in holders(product), WAIT_S)
        assert log_start(data) == 0

        jobs.run("archive", segments=2)
        wait_for(lambda: log_start(data) == 2 * SEGMENT, WAIT_S)
        jobs.run("ingest")
        # What is in the archive as well is not counted twice.
        jobs.run("archive", segments=1)
        wait_for(lambda: log_start(data) == 3 * SEGMENT, WAIT_S)
        till.lose(3, 2)
        till.send(20)
        # Asked about what was sent a moment ago, it copies that first.
        jobs.until_now()
        assert jobs.messages()[""] == till.stored.total()
        asked_and_answered(jobs, till)
        assert product.interrupt() == 0
    finally:
        product.kill_everything()
    again = started(data)
    try:
        again.wait_until_ready()
        assert queried(again) == {queue: (count, count) for queue, count in till.stored.items()}
        assert again.interrupt() == 0
    finally:
        again.kill_everything()


def asked_and_answered(jobs: Jobs, till: Till) -> None:
    run = jobs.run("loss")
    found = jobs.counts("loss", run, "queue", "first_seq", "last_seq")
    # Numbers that may be large are text in JSON.
    assert sorted(tuple(map(int, gap)) for gap in found) == sorted(till.gaps)
    names = ("queue", "messages", "numbered", "missing", "stored_twice", "recovered")
    lost = Counter[int]()
    for queue, first, last in till.gaps:
        lost[queue] += last - first + 1
    assert jobs.counts("loss_totals", run, *names) == [
        (queue, count, count - 2 * (queue == 0), lost[queue], int(queue == 0), 0)
        for queue, count in sorted(till.stored.items())
    ]
    run = jobs.run("duplicates")
    assert jobs.counts("duplicate_totals", run, "kind", "cause", "extra") == [
        ("stored", "resend", 1)
    ]
    run = jobs.run("skew")
    assert jobs.counts("queue_shares", run, "queue", "messages") == sorted(till.stored.items())
    run = jobs.run("quality")
    rules = dict(jobs.counts("quality", run, "rule", "value"))
    assert (rules["unique_offset"], rules["whole_offsets"]) == (0, 0)


_QUERY = """
import sys
import django
django.setup()
from datetime import datetime, UTC
from pathlib import Path
from pyspark.sql import SparkSession, functions as sql
from apps.pipelines.spark import lake
from apps.pipelines.spark.jobs import Window

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config(
    "spark.driver.memory", "512m").getOrCreate()
ever = Window(start=datetime(2020, 1, 1, tzinfo=UTC), end=datetime(2100, 1, 1, tzinfo=UTC))
rows = lake.read(spark, Path(sys.argv[1]), "bronze.messages", ever, topics=["orders"])
found = rows.groupBy("queue").agg(
    sql.count("*").alias("rows"), (sql.max("queue_offset") + 1).alias("end"))
for row in found.collect():
    print("FOUND", row["queue"], row["rows"], row["end"])
"""


def queried(product: Product) -> dict[int, tuple[int, int]]:
    """Return how many rows a query as docs/LAKE.md has it finds in each queue, and its end."""
    done = subprocess.run(
        [sys.executable, "-c", _QUERY, str(product.data / "lake")],
        cwd=ROOT,
        env=environment(
            MQWEB_DATA=str(product.data),
            DJANGO_SETTINGS_MODULE="mqweb.settings",
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "sdk" / "src")]),
        ),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("FOUND")]
    return {int(queue): (int(rows), int(end)) for _, queue, rows, end in lines}


def test_retention_waits_for_a_run_that_reads_however_long_it_takes(data: Path) -> None:
    product = started(data, "--spark", MQWEB_RETENTION_BYTES=str(2 * SEGMENT))
    try:
        product.wait_until_ready()
        jobs = Jobs(product, SystemClock().wall_ms(), topics=[TOPIC])
        till = Till(product)
        jobs.run("ingest")
        till.send(2 * A_PART)
        first = dict(till.stored)
        jobs.until_now()
        run = jobs.ask("ingest")
        stopped = _stop_tasks(product, run)
        till.send(2 * A_PART)
        wait_for(lambda: f"reader run-{run}" in holders(product), WAIT_S)

        assert (log_start(data), jobs.state(run)) == (0, "running")
        for process in stopped:
            process.resume()
        wait_for(lambda: jobs.state(run) != "running", WAIT_S)
        assert jobs.state(run) == "done"
        # It lets go at its end, and what was copied counts without the log.
        wait_for(lambda: log_start(data) > 0, WAIT_S)
        found = jobs.counts("queue_shares", jobs.run("skew"), "queue", "messages")
        assert dict(found) == first
        assert product.interrupt() == 0
    finally:
        product.kill_everything()


def _stop_tasks(product: Product, run: str) -> list[psutil.Process]:
    """Stop what Python does in Spark's tasks once a run holds the log."""
    lease = product.data / "store" / "leases" / f"run-{run}"
    wait_for(lease.exists, WAIT_S)
    wait_for(lambda: _daemons(product), WAIT_S)
    found = _daemons(product)
    for process in found:
        process.suspend()
    return found


def _daemons(product: Product) -> list[psutil.Process]:
    """Return the processes that have Spark's Python tasks done."""
    found = []
    for process in product.child("spark").children(recursive=True):
        try:
            if "pyspark.daemon" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
