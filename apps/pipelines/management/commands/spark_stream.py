"""`manage.py spark_stream NAME`: a stream as a process of its own."""

import argparse
import sys
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.bridge.exits import Exit
from apps.clockwork.claims import new_owner
from apps.core.actors import COMMAND
from apps.core.exceptions import ProblemError
from apps.pipelines import conf
from apps.pipelines.management import running
from apps.pipelines.services import presence
from apps.pipelines.spark import session
from apps.pipelines.spark.runner import sentence_of
from apps.pipelines.spark.streams import Teller, listener

_LOOK_EVERY_S = 1
# Shorter than a supervisor waits for its parts.
_BATCH_END_S = 5.0
_BATCH_LOOK_S = 0.1


class Command(BaseCommand):
    """Run a stream until SIGTERM, or until it is not wanted any more."""

    help = "Run a stream of the pipelines in this process; its checkpoint goes on where it ended."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the name and the master."""
        parser.add_argument("name", choices=["ingest"])
        wish = parser.add_mutually_exclusive_group()
        wish.add_argument(
            "--wanted",
            action="store_true",
            default=None,
            help="have the worker keep it running, and start nothing here",
        )
        wish.add_argument(
            "--unwanted",
            action="store_false",
            dest="wanted",
            default=None,
            help="have it end wherever it runs, and kept running no more",
        )
        running.add_master(parser)

    def handle(
        self, *_args: Any, name: str, master: str | None, wanted: bool | None, **_options: Any
    ) -> None:
        """Stream, or say whether that is wanted; exit with a code of `exits.Exit`."""
        if wanted is not None:
            presence.want_stream(name, is_wanted=wanted, by=COMMAND)
            return
        running.require_spark(master)
        # It needs PyArrow, without which the command says what is missing.
        from apps.pipelines.spark import streaming

        running.prepare()
        stopping = threading.Event()
        running.catch_signals(stopping)
        stream = presence.take_stream(name, new_owner())
        if stream is None:
            raise CommandError(f"another process runs stream {name}", returncode=Exit.HELD)
        if not stream.is_wanted:
            presence.leave_stream(stream)
            raise CommandError(
                f"stream {name} is not wanted: `spark_stream {name} --wanted` changes that",
                returncode=Exit.REFUSED,
            )
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
            teller.start()
            spark.streams.addListener(listener(teller.put))
            try:
                query = streaming.stream(spark, conf.place(), stream)
                while query.isActive and not stopping.is_set():
                    query.awaitTermination(_LOOK_EVERY_S)
                _let_end(query)
            # The main loop of a stream: whatever ends it is written down.
            except Exception as raised:
                error = sentence_of(raised)
                self.stderr.write(error)
            finally:
                teller.stop()
                session.close_session(spark)
        if error:
            sys.exit(Exit.FAILED)


def _let_end(query: Any) -> None:
    """Stop a query between two batches; one that takes too long is cut off, and comes again.

    A batch that is cut off is harmless, and Spark tells of it in a thousand lines.
    """
    for _ in range(round(_BATCH_END_S / _BATCH_LOOK_S)):
        if not query.isActive or not query.status["isTriggerActive"]:
            break
        query.awaitTermination(_BATCH_LOOK_S)
    query.stop()
