"""`manage.py spark_worker`: holds one session of Spark and carries out runs, one at a time."""

import argparse
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand

from apps.bridge.children import Program
from apps.clockwork.claims import new_owner
from apps.core.exceptions import ProblemError
from apps.engine.clock import SystemClock
from apps.pipelines import conf
from apps.pipelines.costs import uses_below
from apps.pipelines.management import running
from apps.pipelines.models import PipelineStream
from apps.pipelines.runlogs import RunLog
from apps.pipelines.services import presence
from apps.pipelines.services.presence import Said
from apps.pipelines.spark import driverlog, session
from apps.pipelines.spark.runner import Runner
from apps.pipelines.spark.streams import StreamKeeper
from apps.pipelines.spark.working import Limits, Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB = 1024 * 1024


class Command(BaseCommand):
    """Take runs until SIGTERM; the one that runs then is cut off and marked interrupted."""

    help = "Hold a session of Spark and carry out the pipelines' runs, one at a time."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        running.add_master(parser)
        parser.add_argument("--runs-max", type=int, default=100, help="runs of a session")
        parser.add_argument("--memory-mib-max", type=int, default=4096, help="of all processes")
        parser.add_argument("--until-idle", type=int, help="end after so many seconds without runs")
        parser.add_argument("--streams", action="store_true", help="keep wanted streams running")

    def handle(
        self,
        *_args: Any,
        master: str | None,
        runs_max: int,
        memory_mib_max: int,
        until_idle: int | None,
        streams: bool,
        **_options: Any,
    ) -> None:
        """Work; exit with a code of `exits.Exit`."""
        running.require_spark(master)
        # It needs PyArrow, without which the command says what is missing.
        from apps.pipelines.spark.coverage import copying_first
        from apps.pipelines.spark.execution import execute

        running.prepare()
        if until_idle is not None and not running.is_only_one(conf.directory()):
            return
        master = master or settings.MQWEB.pipelines.spark_master
        stopping = threading.Event()
        running.catch_signals(stopping)
        run_log = RunLog(conf.directory())
        driverlog.follow(run_log)
        clock = SystemClock()
        runner = Runner(
            execute=execute,
            place=conf.place(),
            clock=clock,
            run_log=run_log,
            stopping=stopping,
        )
        worker = Worker(
            name=new_owner(),
            sessions=_Sessions(master, stopping),
            carry_out=copying_first(runner).carry_out,
            memory_bytes=_memory_bytes,
            limits=Limits(
                runs_max=runs_max,
                memory_bytes_max=memory_mib_max * _MIB,
                idle_ms=None if until_idle is None else until_idle * 1000,
            ),
            clock=clock,
            stopping=stopping,
            wait=stopping.wait,
        )
        keeper = _keeper(master) if streams else None

        def beat() -> None:
            if keeper is not None:
                keeper.step()
            presence.say(worker.name, master, _said_of(worker))

        def leave() -> None:
            if keeper is not None:
                keeper.stop()
            presence.leave(worker.name)

        with running.beside(beat, every_s=presence.SAY_EVERY_S, name="presence", last=leave):
            try:
                worker.work()
            except ProblemError as problem:
                raise running.refused(problem) from problem


class _Sessions:
    """Sessions of this process."""

    def __init__(self, master: str, stopping: threading.Event) -> None:
        self._master = master
        self._stopping = stopping

    def open(self) -> "SparkSession":
        """Return a new session; the library has taken the signals, and gives them back."""
        running.end_at_once_on_signals()
        spark = session.open_session(name="mqweb", master=self._master)
        running.catch_signals(self._stopping)
        return spark

    def close(self, spark: "SparkSession") -> None:
        """End the session and its JVM."""
        session.close_session(spark)

    def is_alive(self, spark: "SparkSession") -> bool:
        """Say whether it answers."""
        return session.is_alive(spark)


def _said_of(worker: Worker) -> Said:
    run = worker.run
    return Said(
        is_ready=worker.session is not None,
        run_id=None if run is None else run.pk,
        run_count=worker.run_count,
        memory_bytes=_memory_bytes(),
    )


def _memory_bytes() -> int:
    return sum(use.memory_bytes for use in uses_below(os.getpid()))


def _keeper(master: str) -> StreamKeeper:
    return StreamKeeper(
        wanted=lambda: list(
            PipelineStream.objects.filter(is_wanted=True).values_list("name", flat=True)
        ),
        program=lambda name: Program(
            name=f"stream {name}",
            command=[sys.executable, sys.argv[0], "spark_stream", name, "--master", master],
            environ=os.environ,
        ),
        clock=SystemClock(),
        died=presence.free_stream,
    )
