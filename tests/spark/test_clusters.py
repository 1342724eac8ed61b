"""Jobs on clusters: executors that are processes of their own, for which only the bundle is sent.

Spark's own master and worker are started as an operator would; what jobs publish there is what they
publish on `local[2]`. An executor that is killed costs a run nothing, and a run can be called off.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from mqclient import Admin, Consumed, Producer, PushConsumer, SequenceNumbering
from mqclient.clock import SystemClock

from apps.engine.offline.view import StoreView
from apps.pipelines.catalogue import JOBS
from apps.pipelines.tables import TABLES
from tests.bound import bound
from tests.spark.operating import PIPELINES, WAIT_S
from tests.web.product import ROOT, Product, environment, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.process, pytest.mark.spark_products]

pyspark = pytest.importorskip("pyspark")

TOPIC = "orders"
# Sent at first, and again before each run that is to read something.
MESSAGES, MORE = 4_000, 1_000
FAILING = 3
LOST = 2
OTHERS = ("rates", "retries", "rebalances", "skew")
SETTINGS = {
    "MQWEB_SPARK_MEMORY": "512m",
    "MQWEB_SPARK_EXECUTOR_MEMORY": "512m",
    "MQWEB_SPARK_EXECUTOR_CORES": "2",
    # The driver's name is not one that others find it by.
    "MQWEB_SPARK_CONF": "spark.driver.host=127.0.0.1;spark.driver.bindAddress=127.0.0.1;"
    "spark.cores.max=2",
}


class World:
    """A product without a worker of Spark's, what was sent to it, and its commands."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.since_ms = SystemClock().wall_ms()
        self.sent = 0
        self.events: list[dict[str, Any]] = []
        self._url = f"http://127.0.0.1:{product.port}"
        self._numbering = SequenceNumbering("till")
        self._marks = 0
        self._started: list[subprocess.Popen[str]] = []
        with Admin(self._url) as admin:
            admin.create_topic(TOPIC, queue_count=4)
            admin.create_topic("marks", queue_count=1)

    def send(self, count: int) -> None:
        """Send numbered messages; return when whoever reads the files sees them."""
        with Producer(self._url, interceptors=[self._numbering]) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send_async(TOPIC, str(number), queue=number % 4)
            producer.flush()
        self.sent += count
        self.show()

    def lose(self, queue: int, count: int) -> None:
        """Give numbers to messages that nobody sends."""
        for _ in range(count):
            self._numbering.for_queue(TOPIC, queue)

    def consume(self) -> None:
        """Have a group work on all there is; some it gives up."""
        done: set[tuple[int, int]] = set()
        is_over = threading.Event()

        def listen(messages: list[Any], context: Any) -> Consumed:
            (message,) = messages
            done.add((message.queue, message.queue_offset))
            if len(done) == self.sent:
                is_over.set()
            if int(message.body) < FAILING:
                context.delay_level = -1
                raise ValueError("cannot be billed")
            return Consumed.SUCCESS

        with PushConsumer(self._url, group="bills", topics=TOPIC, listener=listen, trace=True):
            assert is_over.wait(WAIT_S)
        self.show()

    def show(self) -> None:
        """Return when all that was sent until now is proven to be on the disk."""
        with Producer(self._url) as producer:
            producer.send("marks", b"")
        self._marks += 1
        view = StoreView(self.product.data / "store")
        try:

            def is_seen() -> bool:
                view.refresh()
                return sum(one.max_offset for one in view.extents("marks")) == self._marks

            wait_for(is_seen, WAIT_S)
        finally:
            view.close()

    def command(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command of Spark's as in a shell beside the product."""
        started = subprocess.Popen(
            bound([sys.executable, "manage.py", *words]),
            cwd=ROOT,
            env=environment(
                MQWEB_DATA=str(self.product.data),
                MQWEB_PORT=str(self.product.port),
                PYTHONPATH=str(ROOT / "sdk" / "src"),
                **variables,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(started)
        return started

    def end(self) -> None:
        """Leave no command behind, whatever state it is in."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def job(self, name: str, master: str) -> subprocess.Popen[str]:
        """Start a job over all that happened until now."""
        start, end = (
            datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
            for at_ms in (self.since_ms, SystemClock().wall_ms())
        )
        return self.command(
            "spark_job", name, "--from", start, "--to", end, "--master", master, "--json",
            **SETTINGS,
        )  # fmt: skip

    def window(self) -> dict[str, int]:
        """Return all that happened until now, as REST takes it."""
        return {"from": self.since_ms, "to": SystemClock().wall_ms()}

    def found(self, job: str, run: str) -> dict[str, list[str]]:
        """Return what a run has published, table by table, in an order of its own."""
        return {
            table: sorted(
                json.dumps(item["values"], sort_keys=True)
                for item in self._get(f"/results/{table}?run={run}&limit=1000")["items"]
            )
            for table in JOBS[job].writes
            if TABLES[table].model
        }

    def run(self, number: str) -> Any:
        """Return a run as REST tells it."""
        return self._get(f"/runs/{number}")

    def worked(self, asked: Sequence[Mapping[str, Any]], master: str, *flags: str) -> list[Any]:
        """Ask for runs, have a worker do them all, and return them; its events are kept."""
        numbers = []
        for one in asked:
            status, _, run = self.product.request("POST", f"{PIPELINES}/runs", one)
            assert status == 202, run
            numbers.append(run["id"])
        worker = self.command(
            "spark_worker", "--until-idle", "1", "--master", master, *flags, **SETTINGS
        )  # fmt: skip
        output, _ = worker.communicate(timeout=WAIT_S)
        assert worker.returncode == 0, output[-4_000:]
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.events = [line for line in lines if line["event"].startswith("spark_")]
        return [self.run(number) for number in numbers]

    def _get(self, path: str) -> Any:  # Whatever JSON there is.
        status, _, answer = self.product.request("GET", f"{PIPELINES}{path}")
        assert status == 200, answer
        return answer


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Return a product with messages that were numbered, consumed and traced."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-clusters-"))
    product = Product(data, worker_processes=1)
    try:
        product.wait_until_ready()
        found = World(product)
        found.send(MESSAGES // 2)
        found.lose(1, LOST)
        found.send(MESSAGES // 2)
        found.consume()
        yield found
        found.end()
    finally:
        product.kill_everything()
        shutil.rmtree(data)


@contextmanager
def standalone(directory: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run Spark's own master and one worker; yield the master's address and the worker."""
    home = Path(str(pyspark.__file__)).parent
    variables = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_HOME": str(home),
    }

    def started(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                bound(
                    [
                        str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}",
                        "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments,
                    ]
                ),
                env=environment(**variables), stdout=log, stderr=log, cwd=directory,
            )  # fmt: skip

    def said(name: str, pattern: str) -> str:
        path = directory / f"{name}.log"
        wait_for(lambda: re.search(pattern, path.read_text()), WAIT_S)
        found = re.search(pattern, path.read_text())
        assert found is not None
        return found[0]

    processes = [started("master.Master")]
    try:
        master = said("master.Master", r"spark://127\.0\.0\.1:\d+")
        processes.append(
            started(
                "worker.Worker", "--cores", "2", "--memory", "700m",
                "--work-dir", str(directory / "work"), master,
            )
        )  # fmt: skip
        said("worker.Worker", "Successfully registered with master")
        yield master, psutil.Process(processes[1].pid)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(WAIT_S)


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a job, and what it told of its end."""
    output, _ = process.communicate(timeout=WAIT_S)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    (end,) = [line for line in lines if line.get("event") == "ended"] or [{"output": output}]
    return process.returncode, {
        **end,
        "percents": [line["percent"] for line in lines if line.get("event") == "progress"],
    }


def executors(worker: psutil.Process) -> list[psutil.Process]:
    """Return the executors that a worker has."""
    found = []
    for one in worker.children(recursive=True):
        # Others of its children come and go.
        with suppress(psutil.Error):
            if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()):
                found.append(one)
    return found


def frozen_executor(world: World, worker: psutil.Process) -> tuple[str, psutil.Process]:
    """Stop the executor as soon as a run holds the log; return the run and the process."""
    leases = world.product.data / "store" / "leases"
    # A plan's lease names nobody; a run's is there from its first to its last reading.
    wait_for(lambda: [*leases.glob("run-*")], WAIT_S)
    (lease,) = leases.glob("run-*")
    wait_for(lambda: executors(worker), WAIT_S)
    (executor,) = executors(worker)
    executor.suspend()
    run = lease.name.removeprefix("run-")
    assert world.run(run)["state"] == "running"
    return run, executor


def test_a_standalone_cluster_publishes_what_this_machine_alone_does(
    world: World, tmp_path: Path
) -> None:
    with standalone(tmp_path) as (master, worker):
        # An executor dies while it reads; what came before may be copied already.
        world.send(MORE)
        job = world.job("ingest", master)
        run, executor = frozen_executor(world, worker)
        executor.kill()
        code, end = ended(job)
        assert (code, str(end["run"]), end["state"]) == (0, run, "done"), end
        assert end["rows_written"] >= MORE
        # What executors do is told as it is where all is one process.
        assert any(percent is not None for percent in end["percents"])

        # A run is called off while its executor hangs.
        world.send(MORE)
        job = world.job("ingest", master)
        run, executor = frozen_executor(world, worker)
        status, _, _ = world.product.request("POST", f"{PIPELINES}/runs/{run}:cancel")
        assert status in (200, 202)
        wait_for(lambda: world.run(run)["state"] != "running", WAIT_S)
        executor.resume()
        code, end = ended(job)
        assert (code, str(end["run"]), end["state"]) == (8, run, "cancelled"), end

        (again,) = world.worked([{"job": "ingest", **world.window()}], master)
        assert again["state"] == "done", again
        code, end = ended(world.job("loss", master))
        assert (code, end["state"]) == (0, "done"), end
        window = {"from": end["from"], "to": end["to"]}
        others = world.worked([{"job": job, **window} for job in OTHERS], master)
        assert [run["state"] for run in others] == ["done"] * len(OTHERS), others
        numbers = {"loss": str(end["run"])} | {run["job"]: run["id"] for run in others}

    on_cluster = {job: world.found(job, number) for job, number in numbers.items()}
    again = world.worked([{"job": job, **window, "replace": True} for job in numbers], "local[2]")
    assert [run["state"] for run in again] == ["done"] * len(numbers), again
    here = {run["job"]: world.found(run["job"], run["id"]) for run in again}
    assert on_cluster == here
    shares = map(json.loads, here["skew"]["gold.queue_shares"])
    assert sum(int(row["messages"]) for row in shares if row["topic"] == TOPIC) == world.sent
    (gap,) = map(json.loads, here["loss"]["gold.loss"])
    assert (gap["queue"], int(gap["missing"])) == (1, LOST)
    assert any('"bills"' in row for row in here["rebalances"]["gold.rebalances"])
    (causes,) = [json.loads(row) for row in here["retries"]["gold.dead_causes"] if '"bills"' in row]
    assert (causes["error_class"], int(causes["dead"])) == ("ValueError", FAILING)


def test_every_job_runs_on_a_cluster_of_processes(world: World) -> None:
    world.send(MORE)
    window = world.window()
    found = world.worked(
        [{"job": job, **window} for job in JOBS],
        "local-cluster[2,1,800]",
    )
    assert {run["job"]: (run["state"], run["error"]) for run in found} == dict.fromkeys(
        JOBS, ("done", "")
    )
    skew = next(run for run in found if run["job"] == "skew")
    shares = map(json.loads, world.found("skew", skew["id"])["gold.queue_shares"])
    assert sum(int(row["messages"]) for row in shares if row["topic"] == TOPIC) == world.sent


def test_a_worker_makes_a_new_session_once_its_processes_take_more_than_they_may(
    world: World,
) -> None:
    until_ms = SystemClock().wall_ms()

    def sessions(limit_mib: int, first_ms: int) -> list[str]:
        """Return what became of sessions in three runs."""
        asked = [
            {"job": "rebalances", "from": first_ms + number, "to": until_ms} for number in range(3)
        ]
        found = world.worked(asked, "local[2]", "--memory-mib-max", str(limit_mib))
        assert [run["state"] for run in found] == ["done"] * 3
        return [event["event"] + event.get("reason", "") for event in world.events]

    started, recycled = "spark_started", "spark_recycledit takes too much memory"
    # The driver and its JVM have more than the one, and less than the other.
    assert sessions(300, world.since_ms) == [started, *[recycled, started] * 3]
    assert sessions(8_000, world.since_ms + 10) == [started]
