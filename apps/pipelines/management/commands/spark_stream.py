"""`manage.py spark_stream NAME`: a stream as a process of its own."""

import argparse
import sys
import threading
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.bridge.exits import Exit
from apps.clockwork.claims import new_owner
from apps.core.exceptions import ProblemError
from apps.pipelines import conf
from apps.pipelines.management import running
from apps.pipelines.services import presence
from apps.pipelines.spark import session
from apps.pipelines.spark.runner import sentence_of
from apps.pipelines.spark.streams import Teller, listener

_LOOK_EVERY_S = 1


class Command(BaseCommand):
    """Run a stream until SIGTERM, or until it is not wanted any more."""

    help = "Run a stream of the pipelines in this process; its checkpoint goes on where it ended."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the name and the master."""
        parser.add_argument("name", choices=["ingest"])
        running.add_master(parser)

    def handle(self, *_args: Any, name: str, master: str | None, **_options: Any) -> None:
        """Stream; exit with a code of `exits.Exit`."""
        running.prepare()
        stopping = threading.Event()
        running.catch_signals(stopping)
        stream = presence.take_stream(name, new_owner())
        if stream is None:
            raise CommandError(f"another process runs stream {name}", returncode=Exit.HELD)
        error = ""

        def keep() -> None:
            if not presence.keep_stream(stream):
                stopping.set()

        def leave() -> None:
            presence.leave_stream(stream, error=error)

        teller = Teller(stream)
        with running.beside(keep, every_s=presence.SAY_EVERY_S, name="presence", last=leave):
            try:
                spark = session.open_session(name=f"mqweb {name}", master=master)
            except ProblemError as problem:
                error = str(problem)
                raise running.refused(problem) from problem
            running.catch_signals(stopping)
            streaming = import_module("apps.pipelines.spark.streaming")
            teller.start()
            spark.streams.addListener(listener(teller.put))
            try:
                query = streaming.stream(spark, conf.place(), stream)
                while query.isActive and not stopping.is_set():
                    query.awaitTermination(_LOOK_EVERY_S)
                query.stop()
            # The main loop of a stream: whatever ends it is written down.
            except Exception as raised:
                error = sentence_of(raised)
                self.stderr.write(error)
            finally:
                teller.stop()
                session.close_session(spark)
        if error:
            sys.exit(Exit.FAILED)
