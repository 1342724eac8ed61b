"""The running product as the clockwork's faults need it: its database, its runs, its processes.

A step is held in its middle by a lock on a table that it writes to; nothing in the product knows.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg
from psycopg import sql

from apps.bridge import embedded
from apps.clockwork.models import Outcome
from tests.bound import bound
from tests.web.product import ROOT, Product, lives, wait_for

# The topic of the Celery queue that the product's ticks are sent to.
LANE = "celery-q-mqweb"
CELERY = ("-m", "celery", "-A", "mqweb")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a task, as it was written down."""

    owner: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    has_more: bool

    @property
    def pid(self) -> int:
        """Return the process it ran in."""
        return int(self.owner.split(":")[-2])

    def slot(self, every_s: int) -> int:
        """Return the number of the slot it began in."""
        return int(self.started_at.timestamp()) // every_s


class Machine:
    """One product, and an own way into its database."""

    def __init__(self, data: Path, *, worker_processes: int = 0, **variables: str) -> None:
        """Start the product; without `worker_processes` it has neither worker nor beat."""
        self.data = data
        self.product = Product(data, worker_processes=worker_processes, **variables)

    def __enter__(self) -> Self:
        self.product.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.product.kill_everything()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in a transaction of its own."""
        with self._connected() as connection:
            cursor = connection.execute(query, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def runs(self, task: str) -> list[Run]:
        """Return all runs of a task, the first first."""
        columns = "owner, started_at, ended_at, outcome, has_more"
        query = f"SELECT {columns} FROM clockwork_taskrun WHERE task = %s ORDER BY started_at, id"
        return [Run(*row) for row in self.ask(query, task)]

    def wait_for_runs(self, task: str, count: int, *, after: int = 0) -> list[Run]:
        """Return the finished runs of a task once there are so many more than `after`."""
        wait_for(lambda: len(self._done(task)) >= after + count)
        return self._done(task)

    def ticks(self) -> int:
        """Return how many ticks of all tasks have been sent."""
        status, _, topic = self.product.request("GET", f"/api/v1/topics/{LANE}")
        if status != 200:
            return 0
        # A topic that the broker has not been told of yet has rows, and offsets nobody knows.
        return sum(int(queue["max_offset"] or 0) for queue in topic["queues"])

    def _done(self, task: str) -> list[Run]:
        return [run for run in self.runs(task) if run.outcome == Outcome.DONE]

    @contextmanager
    def writes_held(self, table: str) -> Iterator[Callable[[], bool]]:
        """Let every write to a table wait; the value says whether anybody does."""
        with self._connected() as connection:
            lock = sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.Identifier(table))
            connection.execute(lock)
            query = "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
            yield lambda: self.ask(query, table) != [(0,)]

    def let_pass(self, *, seconds: int) -> set[str]:
        """Move what the tasks' rows say into the past, as if so much time had gone by.

        Return the owners of the runs that had begun by then. No task is claimed in between: a tick
        that was still on its way would begin a run of neither time.
        """
        with self._connected() as connection:
            connection.execute("LOCK TABLE clockwork_taskstate IN EXCLUSIVE MODE")
            connection.execute(
                "UPDATE clockwork_taskstate SET due_at = due_at - %s * interval '1 s',"
                " last_started_at = last_started_at - %s * interval '1 s',"
                " last_ended_at = last_ended_at - %s * interval '1 s'",
                [seconds] * 3,
            )
            return {row[0] for row in connection.execute("SELECT owner FROM clockwork_taskrun")}

    @contextmanager
    def running(self, name: str, *command: str) -> Iterator["Process"]:
        """Run a program beside the product, with its settings."""
        process = Process(self.data / f"{name}.log", command, self._environment())
        try:
            yield process
        finally:
            process.kill()

    def worker(self, name: str = "worker") -> Any:  # A context manager of Process.
        """Run a worker of two processes."""
        return self.running(name, *CELERY, "worker", "--concurrency", "2", "-n", name)

    def beat(self, name: str = "beat") -> Any:  # A context manager of Process.
        """Run a beat."""
        return self.running(name, *CELERY, "beat")

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        directory = embedded.Cluster(self.data).socket_directory
        with psycopg.connect(
            host=str(directory), dbname=embedded.DATABASE, user=embedded.ROLE
        ) as connection:
            yield connection

    def _environment(self) -> dict[str, str]:
        unwanted = ("MQWEB_", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "REDIS_URL", "CELERY_")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        return {
            **plain,
            "MQWEB_DATA": str(self.data),
            "MQWEB_PORT": str(self.product.port),
            "PYTHONPATH": str(ROOT),
        }


class Process:
    """A program beside the product, killed with its children at the end."""

    def __init__(self, log: Path, command: tuple[str, ...], environment: dict[str, str]) -> None:
        """Start it."""
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                bound([sys.executable, *command], "TERM"),
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
            )

    def kill(self) -> None:
        """Kill it and its children, and wait until they are gone."""
        if self._process.poll() is None:
            parent = psutil.Process(self._process.pid)
            family = [parent, *parent.children(recursive=True)]
            for process in family:
                process.kill()
            self._process.wait()
            wait_for(lambda: not any(lives(process) for process in family))

    def has_said(self, text: str) -> int:
        """Return how often a text stands in its log."""
        return self.log.read_text().count(text)


def kill_hard(process: psutil.Process) -> None:
    """Kill a process as the kernel would, and wait until it does nothing any more."""
    assert lives(process)
    process.kill()
    deadline = time.monotonic() + 30
    while lives(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)
