"""A stream of Spark that a whole product keeps: killed, started again, not wanted, ended."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from mqclient import Admin, Producer
from mqclient.clock import SystemClock

from tests.spark.operating import PIPELINES, WAIT_S, Jobs
from tests.web.product import ROOT, Product, environment, lives, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.process, pytest.mark.spark_products]

pytest.importorskip("pyspark")

TOPIC = "orders"


def sent(product: Product, count: int) -> None:
    with Producer(f"http://127.0.0.1:{product.port}") as producer:
        for number in range(count):
            producer.send_async(TOPIC, str(number), queue=number % 2)
        producer.flush()


def stream(product: Product) -> Any:
    status, _, answer = product.request("GET", f"{PIPELINES}/streams/ingest")
    return answer if status == 200 else None


def copied(product: Product) -> int:
    """Return how many rows the batches of the stream have published."""
    status, _, answer = product.request("GET", f"{PIPELINES}/streams/ingest/batches?limit=1000")
    assert status == 200
    return sum(batch["rows"] for batch in answer["items"])


def wish(product: Product, what: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "spark_stream", "ingest", what],
        cwd=ROOT,
        env=environment(MQWEB_DATA=str(product.data), PYTHONPATH=str(ROOT / "sdk" / "src")),
        check=True,
        timeout=WAIT_S,
    )


def starts(product: Product, part: str) -> list[int]:
    return [event["pid"] for event in product.events("part_started") if event["part"] == part]


def test_a_wanted_stream_is_kept_until_it_is_not_wanted_or_the_product_ends(data: Path) -> None:
    product = Product(data, worker_processes=1, switches=["--spark"], MQWEB_SPARK_MEMORY="512m")
    try:
        product.wait_until_ready()
        with Admin(f"http://127.0.0.1:{product.port}") as admin:
            admin.create_topic(TOPIC, queue_count=2)
        sent(product, 100)
        wish(product, "--wanted")
        wait_for(lambda: stream(product)["lag"] == 0 and copied(product) >= 100, WAIT_S)

        # Killed, it is there again and goes on behind what it has published.
        (first,) = starts(product, "stream ingest")
        family = [psutil.Process(first), *psutil.Process(first).children(recursive=True)]
        assert len(family) > 1
        psutil.Process(first).kill()
        sent(product, 100)
        wait_for(lambda: len(starts(product, "stream ingest")) == 2, WAIT_S)
        wait_for(lambda: stream(product)["lag"] == 0 and copied(product) >= 200, WAIT_S)
        wait_for(lambda: not any(map(lives, family)), WAIT_S)
        (ended,) = [
            event for event in product.events("part_ended") if event["part"] == "stream ingest"
        ]
        assert (ended["code"], ended["again_in_ms"]) == (-9, 1_000)

        # Not wanted, it ends and is left alone; what comes then waits for it.
        second = psutil.Process(starts(product, "stream ingest")[1])
        wish(product, "--unwanted")
        wait_for(lambda: not lives(second) and stream(product)["worker"] is None, WAIT_S)
        sent(product, 50)
        wish(product, "--wanted")
        wait_for(lambda: len(starts(product, "stream ingest")) == 3, WAIT_S)
        wait_for(lambda: stream(product)["lag"] == 0 and copied(product) >= 250, WAIT_S)

        jobs = Jobs(product, SystemClock().wall_ms() - 3_600_000, topics=[TOPIC])
        run = jobs.run("skew")
        assert jobs.counts("queue_shares", run, "queue", "messages") == [(0, 125), (1, 125)]
        assert stream(product)["error"] == ""

        # The product's end is that of all.
        family = product.family()
        assert any("java" in process.name() for process in family)
        assert product.interrupt() == 0
        assert not any(map(lives, family))
        # Nobody had to be killed.
        assert "spark_did_not_stop" not in product.output
    finally:
        product.kill_everything()
