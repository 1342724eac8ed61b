"""`manage.py spark_job NAME`: ask for a run, carry it out in this process, tell how it goes."""

import argparse
import json
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_date, parse_datetime

from apps.bridge.exits import Exit
from apps.clockwork.claims import new_owner
from apps.core.actors import COMMAND
from apps.core.exceptions import ProblemError
from apps.core.pagination import rfc3339
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError
from apps.pipelines import conf
from apps.pipelines.catalogue import JOBS
from apps.pipelines.management import running
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.runlogs import RunLog
from apps.pipelines.services import asking, claims, copies
from apps.pipelines.services.asking import Parameter
from apps.pipelines.services.claims import Progress
from apps.pipelines.spark import driverlog, session
from apps.pipelines.spark.runner import Runner

_LOOK_EVERY_S = 1.0
_EXITS = {
    RunState.DONE: Exit.OK,
    RunState.FAILED: Exit.RUN_FAILED,
    RunState.CANCELLED: Exit.RUN_CANCELLED,
    RunState.INTERRUPTED: Exit.RUN_INTERRUPTED,
}


class Command(BaseCommand):
    """Carry out one run, or each window of a stretch of time, in a session of its own."""

    help = "Carry out a job of the pipelines over a window of time, in this process."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what can be asked for."""
        parser.add_argument("job", choices=sorted(JOBS))
        parser.add_argument("--from", dest="start", required=True, help="2026-01-31[T09:00:00Z]")
        parser.add_argument("--to", dest="end", required=True, help="the end, not included")
        parser.add_argument("--topics", default="", help="by comma; all without it")
        parser.add_argument("--param", action="append", default=[], metavar="K=V")
        parser.add_argument("--step-s", type=int, help="a run for each window of so many seconds")
        parser.add_argument("--replace", action="store_true", help="also what is done already")
        parser.add_argument("--json", action="store_true", help="a line of JSON for each thing")
        running.add_master(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit with a code of `exits.Exit`."""
        self._is_json: bool = options["json"]
        running.require_spark(options["master"])
        try:
            runs = _asked(options)
        except (EngineError, ProblemError) as error:
            raise CommandError(str(error), returncode=Exit.REFUSED) from error
        code = Exit.OK
        waiting = [run for run in runs if run.is_active]
        for run in runs:
            if not run.is_active:
                self._tell_end(run)
        if waiting:
            code = self._carry_out(waiting, options["master"])
        if code != Exit.OK:
            sys.exit(code)

    def _carry_out(self, runs: Sequence[PipelineRun], master: str | None) -> Exit:
        """Carry out the runs one after the other; the first that comes to nothing ends it."""
        # It needs PyArrow, without which the command says what is missing.
        from apps.pipelines.spark.coverage import copying_first
        from apps.pipelines.spark.execution import execute

        running.prepare()
        stopping = threading.Event()
        run_log = RunLog(conf.directory())
        driverlog.follow(run_log)
        try:
            spark = session.open_session(name="mqweb", master=master)
        except ProblemError as problem:
            raise running.refused(problem) from problem
        running.catch_signals(stopping)
        clock, place = SystemClock(), conf.place()

        def carry_out(run: PipelineRun) -> RunState:
            runner = Runner(
                execute=execute,
                place=place,
                clock=clock,
                run_log=run_log,
                stopping=stopping,
                say=self._teller(run),
            )
            return copying_first(runner).carry_out(spark, run)

        worker = new_owner()
        try:
            for run in runs:
                state = self._until_ended(run, worker, carry_out, stopping)
                run.refresh_from_db()
                self._tell_end(run)
                if state != RunState.DONE:
                    return _EXITS[state]
        finally:
            session.close_session(spark)
        return Exit.OK

    def _until_ended(
        self,
        run: PipelineRun,
        worker: str,
        carry_out: Callable[[PipelineRun], RunState],
        stopping: threading.Event,
    ) -> RunState:
        """Carry the run out, and a copy that it waits for; or watch who has taken it before us."""
        while not stopping.is_set():
            claims.expire()
            claimed = claims.claim(worker, run_id=run.pk)
            if claimed is None and (copy := copies.under_way(run)) is not None:
                claimed = claims.claim(worker, run_id=copy.pk)
            if claimed is not None:
                state = carry_out(claimed)
                if claimed.pk == run.pk and state != RunState.QUEUED:
                    return state
                continue
            run.refresh_from_db()
            if not run.is_active:
                return RunState(run.state)
            self._teller(run)(
                Progress(
                    stage=run.stage or "waiting for its turn",
                    percent=run.percent,
                    rows_read=run.stage_rows_read,
                    rows_expected=run.rows_expected,
                )
            )
            stopping.wait(_LOOK_EVERY_S)
        return RunState.INTERRUPTED

    def _teller(self, run: PipelineRun) -> Any:
        def say(progress: Progress) -> None:
            self._tell(
                {
                    "event": "progress",
                    "run": run.pk,
                    "stage": progress.stage,
                    "percent": progress.percent,
                    "rows_read": progress.rows_read,
                    "rows_expected": progress.rows_expected,
                },
                f"run {run.pk}: {progress.stage}"
                + ("" if progress.percent is None else f", {progress.percent:.0f} %")
                + ("" if progress.rows_read is None else f", {progress.rows_read:,} rows read"),
            )

        return say

    def _tell_end(self, run: PipelineRun) -> None:
        self._tell(
            {
                "event": "ended",
                "run": run.pk,
                "job": run.job,
                "from": rfc3339(run.window_start),
                "to": rfc3339(run.window_end),
                "state": run.state,
                "error": run.error,
                "rows_read": run.rows_read,
                "rows_written": run.rows_written,
                "duration_ms": run.duration_ms,
                "cpu_ms": run.cpu_ms,
                "memory_bytes_max": run.memory_bytes_max,
            },
            f"{run}: {run.state}" + (f", {run.error}" if run.error else ""),
        )

    def _tell(self, line: dict[str, Any], sentence: str) -> None:  # Values of JSON.
        self.stdout.write(json.dumps(line) if self._is_json else sentence)
        self.stdout.flush()


def _asked(options: dict[str, Any]) -> Sequence[PipelineRun]:  # Flags, as argparse gives them.
    start, end = _moment(options["start"]), _moment(options["end"])
    topics = [name.strip() for name in options["topics"].split(",") if name.strip()]
    parameters = dict(_parameter(text) for text in options["param"])
    step_s: int | None = options["step_s"]
    if step_s is not None:
        return asking.backfill(
            job=options["job"],
            start=start,
            end=end,
            step=timedelta(seconds=step_s),
            topics=topics,
            parameters=parameters,
            by=COMMAND,
            replace=options["replace"],
        ).runs
    return [
        asking.ask(
            job=options["job"],
            window_start=start,
            window_end=end,
            topics=topics,
            parameters=parameters,
            trigger=Trigger.COMMAND,
            by=COMMAND,
            replace=options["replace"],
        )
    ]


def _moment(text: str) -> datetime:
    """Read a day or a moment; without a zone it is UTC."""
    try:
        found = parse_datetime(text)
        day = parse_date(text) if found is None else None
    except ValueError as error:
        raise CommandError(f"{text!r}: {error}", returncode=Exit.REFUSED) from error
    if day is not None:
        found = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if found is None:
        raise CommandError(
            f"{text!r} is no moment, such as 2026-01-31 or 2026-01-31T09:00:00Z",
            returncode=Exit.REFUSED,
        )
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _parameter(text: str) -> tuple[str, Parameter]:
    """Read `k=v`; numbers and truth values as JSON has them, all else as text."""
    name, is_there, value = text.partition("=")
    if not is_there:
        raise CommandError(f"--param {text!r}: must be K=V", returncode=Exit.REFUSED)
    try:
        found = json.loads(value)
    except ValueError:
        return name, value
    return name, found if isinstance(found, int | float | bool) else value
