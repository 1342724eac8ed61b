"""What the commands of Spark share: connections, signals, the lock of a machine, exit codes."""

import argparse
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError, connection

from apps.bridge import remote
from apps.bridge.exits import Exit
from apps.core.exceptions import ProblemError
from apps.pipelines import requirements

_log = logging.getLogger("mqweb.pipelines")


def require_spark(master: str | None) -> None:
    """Raise CommandError where Spark cannot be had here, or its master cannot be one.

    Called before anything is asked for and before anything of Spark's is imported.
    """
    if missing := requirements.found_here().missing:
        raise CommandError("; ".join(missing), returncode=Exit.LACKING)
    if master is not None and (fault := requirements.master_fault(master)):
        raise CommandError(f"--master {fault}", returncode=Exit.REFUSED)


def prepare() -> None:
    """Make this process one that has threads and asks the broker from outside."""
    # A thread that lives as long as the process has a connection of its own.
    settings.DATABASES["default"]["OPTIONS"].pop("pool", None)
    remote.install()


def catch_signals(stopping: threading.Event) -> None:
    """Have SIGTERM and SIGINT ask for the end. After a session was made: it takes SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())


def end_at_once_on_signals() -> None:
    """Have SIGTERM and SIGINT end this process where it is, as while a JVM starts and nothing runs.

    A JVM that is on its way ends when the pipe it reads from is closed.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: sys.exit(Exit.OK))


@contextmanager
def beside(
    work: Callable[[], object], *, every_s: float, name: str, last: Callable[[], object]
) -> Iterator[None]:
    """Do something again and again in a thread during the block, and something else at its end.

    While the database is away it is tried again and again.
    """
    ended = threading.Event()

    def tolerantly(step: Callable[[], object], *, is_away: bool) -> bool:
        try:
            step()
        except (OperationalError, InterfaceError) as error:
            if not is_away:
                _log.warning("worker_without_database", extra={"detail": str(error)})
            connection.close()
            return True
        return False

    def run() -> None:
        try:
            is_away = tolerantly(work, is_away=False)
            while not ended.wait(every_s):
                is_away = tolerantly(work, is_away=is_away)
            tolerantly(last, is_away=is_away)
        finally:
            connection.close()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def is_only_one(directory: Path) -> bool:
    """Take the lock of workers that are started on demand, until this process ends."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory / "worker.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def refused(problem: ProblemError) -> CommandError:
    """Return how a command ends for this reason."""
    lacks = problem.kind.code == "spark_unavailable"
    return CommandError(str(problem), returncode=Exit.LACKING if lacks else Exit.REFUSED)


def add_master(parser: argparse.ArgumentParser) -> None:
    """Declare where tasks are to run."""
    parser.add_argument("--master", help="Spark's master; MQWEB_SPARK_MASTER without it")
