"""`manage.py runmq`: the whole product in the foreground. Composes programs; starts no thread."""

import argparse
import http.client
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.bridge import conf, embedded, flags, takeover
from apps.bridge.children import Program
from apps.bridge.exits import Exit
from apps.bridge.runlock import AlreadyRuns, RunLock
from apps.bridge.supervisor import ProcessSignals, Supervisor
from apps.engine.clock import Clock, SystemClock

_DATABASE_READY_MS = 60_000
_PROBE_TIMEOUT_S = 0.5

_log = logging.getLogger("mqweb.supervisor")


class Command(BaseCommand):
    """Start PostgreSQL, migrate, start broker, worker and beat; keep them until told to stop."""

    help = "Run mqweb: embedded PostgreSQL (unless DATABASE_URL is set), broker, console, tasks."
    # The checks ask about a database that this command has yet to start.
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags; manage.py has already turned them into variables."""
        flags.add_flags(parser)
        flags.add_switches(parser)

    def handle(self, *_args: Any, take_over: bool, **_options: Any) -> None:
        """Run until stopped; exit with a code of `exits.Exit`."""
        clock = SystemClock()
        data: Path = settings.MQWEB.data
        if take_over:
            _take_over(data)
        signals = ProcessSignals()
        with signals.caught():
            supervisor = Supervisor(clock=clock, signals=signals)
            try:
                lock = RunLock(data, clock=clock, sleep=time.sleep)
            except AlreadyRuns as refusal:
                raise CommandError(str(refusal), returncode=Exit.HELD) from refusal
            try:
                code = self._run(supervisor, clock, data, lock.for_children)
            finally:
                supervisor.stop()
                lock.release()
        if code != Exit.OK:
            sys.exit(code)
        self.stdout.write("mqweb has stopped.")

    def _run(self, supervisor: Supervisor, clock: Clock, data: Path, inherited: int) -> int:
        if settings.MQWEB.database_url is None:
            try:
                _start_database(supervisor, clock, data, inherited)
            except embedded.CannotPrepare as refusal:
                raise CommandError(str(refusal), returncode=Exit.REFUSED) from refusal
        preparing = _manage("prepare", inherited)
        prepared = supervisor.run_once(preparing)
        if supervisor.is_stopping:
            return Exit.OK
        if prepared != Exit.OK:
            # Known topics are served without a database; it is prepared when it comes back.
            _log.error("database_not_prepared")
            supervisor.add(preparing)
        supervisor.add(_manage("broker", inherited))

        def has_started() -> bool:
            if not _answers(settings.MQWEB.own_host, settings.MQWEB.port):
                return False
            self._announce()
            # Last to start, so first to stop: what a worker holds is settled with the broker.
            for program in _clockwork(settings.MQWEB.worker_processes, inherited):
                supervisor.add(program)
            if settings.MQWEB.pipelines.spark == "on":
                supervisor.add(_spark(inherited))
            return True

        return supervisor.run(has_started=has_started)

    def _announce(self) -> None:
        host, port = settings.MQWEB.host, settings.MQWEB.port
        address = f"[{host}]" if ":" in host else host
        self.stdout.write(
            f"mqweb is ready: http://{address}:{port}/   data: {settings.MQWEB.data}   stop: Ctrl-C"
        )
        if settings.MQWEB.grpc.are_any:
            ports = ", ".join(f"{address}:{port}" for port in settings.MQWEB.grpc.open)
            self.stdout.write(f"RocketMQ's gRPC clients: {ports}")
        self.stdout.flush()


def _take_over(data: Path) -> None:
    """End a supervisor with all its parts, or a broker that was started alone."""
    try:
        takeover.end_holder(data / "run.lock", stop_ms=takeover.SUPERVISOR_STOP_MS)
        takeover.end_holder(conf.store_path() / "lock")
    except takeover.CannotTakeOver as refusal:
        raise CommandError(str(refusal), returncode=Exit.HELD) from refusal


def _start_database(supervisor: Supervisor, clock: Clock, data: Path, inherited: int) -> None:
    cluster = embedded.Cluster(data)
    cluster.prepare()

    def pause(seconds: float) -> None:
        supervisor.pause(seconds)
        if supervisor.is_stopping:
            raise embedded.CannotPrepare("stopped while PostgreSQL was starting")

    supervisor.add(
        Program(
            name="postgres",
            command=cluster.command(),
            account=embedded.account_under_root(),
            # PostgreSQL's fast stop, then the immediate one, which a start recovers from.
            stop_signal=signal.SIGINT,
            harsher_signals=(signal.SIGQUIT, signal.SIGKILL),
            # Its codes are not ours; it may always be started again.
            final_codes=frozenset(),
            log_file=cluster.log_file,
            inherited=(inherited,),
        )
    )
    cluster.wait_until_ready(
        clock=clock,
        sleep=pause,
        deadline_ms=clock.monotonic_ms() + _DATABASE_READY_MS,
    )


def _manage(command: str, inherited: int) -> Program:
    return Program(
        name=command,
        command=[sys.executable, sys.argv[0], command],
        is_finite=command == "prepare",
        environ=os.environ,
        inherited=(inherited,),
    )


def _spark(inherited: int) -> Program:
    """Return the worker of the pipelines, which keeps the streams as well."""
    return Program(
        name="spark",
        command=[sys.executable, sys.argv[0], "spark_worker", "--streams"],
        # Without Java everything else goes on, and so it does whatever becomes of a job.
        final_codes=frozenset(),
        resting_codes=frozenset({Exit.LACKING, Exit.REFUSED}),
        environ=os.environ,
        inherited=(inherited,),
    )


def _clockwork(worker_processes: int, inherited: int) -> list[Program]:
    """Return worker and beat; nothing when no process is to work."""
    if not worker_processes:
        return []
    celery = [sys.executable, "-m", "celery", "--quiet", "--app", "mqweb"]
    celery += ["--workdir", str(settings.BASE_DIR)]
    worker = ["worker", "--concurrency", str(worker_processes), "--without-gossip"]
    # Beat only says names: it needs none of the applications that the named tasks are in.
    environ_of_beat = {**os.environ, "DJANGO_SETTINGS_MODULE": "mqweb.settings_beat"}
    return [
        Program(
            name=name,
            command=[*celery, *arguments],
            # Warm shutdown first: the running step may end. Then the cold one.
            harsher_signals=(signal.SIGQUIT, signal.SIGKILL),
            # Celery's codes are not ours; it may always be started again.
            final_codes=frozenset(),
            environ=environ,
            inherited=(inherited,),
        )
        for name, arguments, environ in (
            ("worker", [*worker, "--without-mingle"], os.environ),
            ("beat", ["beat"], environ_of_beat),
        )
    ]


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
