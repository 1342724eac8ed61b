"""`manage.py demo`: plays an order system. Knows arguments and signals, not the play."""

import argparse
import os
import random
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from mqclient import Admin, Producer, SimpleConsumer
from mqclient.errors import MqError, UnknownTopic

from apps.console.demo.numbers import GAP_EVERY, REPEAT_EVERY, FaultyNumbering
from apps.console.demo.orders import Ledger, Shop
from apps.console.demo.play import Part, Play, line
from apps.console.demo.players import Reader, Seller
from apps.engine.clock import SystemClock

TOPIC = "orders"
QUEUE_COUNT = 4
# Goods leave with a van that comes now and then, so that a backlog grows and is taken away.
VAN_EVERY_S = 15.0
GROUPS = {"billing": 0.0, "shipping": VAN_EVERY_S}
RATE_MAX = 2_000


class Command(BaseCommand):
    """Arguments and the stage; the play itself is in `apps.console.demo`."""

    help = "Play an order system on a running server: orders are created, paid and shipped."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the flags."""
        parser.add_argument(
            "--server", default="http://127.0.0.1:8000", help="where mqweb answers (%(default)s)"
        )
        parser.add_argument(
            "--token",
            default=os.environ.get("MQWEB_TOKEN"),
            help="where access is on: may create, send to and receive from orders, and receive as "
            f"{' and '.join(GROUPS)} (MQWEB_TOKEN)",
        )
        parser.add_argument(
            "--rate",
            type=_rate,
            default=60,
            help=f"messages a second, at most {RATE_MAX} (%(default)s)",
        )
        parser.add_argument(
            "--seconds", type=_seconds, help="how long to play (until Ctrl-C when not given)"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Play, report, and fail when an order's steps came out of order or went missing."""
        run = uuid.uuid4().hex[:8]
        numbering = FaultyNumbering()
        with ExitStack() as opened:
            try:
                play = self._stage(
                    opened,
                    run=run,
                    numbering=numbering,
                    server=options["server"],
                    token=options["token"],
                    rate=options["rate"],
                )
                opened.enter_context(_stopped_by_signals(play))
                self.stdout.write(f"run {run} plays on {options['server']}; Ctrl-C ends it")
                self.stdout.write(
                    "its messages are numbered, and on purpose one number in "
                    f"{GAP_EVERY} is left out and one in {REPEAT_EVERY} given twice: "
                    "examples/lost_messages.py finds them"
                )
                standings = play.run(seconds=options["seconds"])
            except MqError as error:
                raise CommandError(f"{error.code}: {error}") from error
        self.stdout.write(line(standings, trouble=""))
        self.stdout.write(
            f"producer {numbering.producer}: {numbering.gap_count} numbers left out, "
            f"{numbering.repeat_count} given twice"
        )
        wrong = [one for one in standings if one.out_of_order or one.missing]
        for one in wrong:
            self.stderr.write(
                f"{one.group}: {one.out_of_order} out of order, {one.missing} missing"
            )
        if wrong:
            raise CommandError("the check failed")
        self.stdout.write(self.style.SUCCESS("every order was seen in order by every group"))

    def _stage(
        self,
        opened: ExitStack,
        *,
        run: str,
        numbering: FaultyNumbering,
        server: str,
        token: str | None,
        rate: float,
    ) -> Play:
        with Admin(server, token=token) as admin:
            _make_topic(admin)
        producer = opened.enter_context(Producer(server, token=token, interceptors=[numbering]))
        seller = Seller(producer, Shop(run=run, dice=random.Random()), topic=TOPIC)
        parts = {}
        for group, pause_s in GROUPS.items():
            consumer = opened.enter_context(SimpleConsumer(TOPIC, group, server, token=token))
            parts[group] = Part(reader=Reader(consumer, Ledger(run=run)), pause_s=pause_s)
        return Play(
            seller=seller, parts=parts, rate=rate, clock=SystemClock(), say=self.stdout.write
        )


def _make_topic(admin: Admin) -> None:
    try:
        admin.describe_topic(TOPIC)
    except UnknownTopic:
        admin.create_topic(TOPIC, queue_count=QUEUE_COUNT)


@contextmanager
def _stopped_by_signals(play: Play) -> Iterator[None]:
    """End the play, not the process, on SIGINT and SIGTERM."""
    before = {
        number: signal.signal(number, lambda *_: play.stop())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate <= RATE_MAX:
        raise argparse.ArgumentTypeError(f"a rate lies above 0 and is at most {RATE_MAX}")
    return rate


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("a time is a number of seconds above 0")
    return seconds
