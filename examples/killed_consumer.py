"""Kill a consumer in the middle of its work, start it again, count what it did.

How the examples at_most_once, at_least_once and exactly_once are shown; no application needs it.
A payment is booked by adding a row to a ledger: a payment that is not there was lost, one that is
there twice was booked twice. The ledger is asked, not the consumer.
"""

import argparse
import multiprocessing
import sqlite3
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from mqclient import Admin, Producer

BATCH = 10
# What a killed consumer had taken comes to the next one after this.
INVISIBLE_MS = 2_000
# A consumer that is given nothing for so long has done everything.
QUIET_MS = 2 * INVISIBLE_MS
_HOUR_MS = 3_600_000
_LOOK_S = 0.002


class Work(NamedTuple):
    """What a consumer process is told. `work_s` is what a payment takes."""

    server: str
    topic: str
    group: str
    ledger: str
    work_s: float


Consume = Callable[[Work], None]


def open_ledger(path: str) -> sqlite3.Connection:
    """Return the books, in which every statement counts at once unless a transaction is begun."""
    ledger = sqlite3.connect(path, timeout=30, isolation_level=None)
    ledger.execute("PRAGMA journal_mode = WAL")
    ledger.execute("CREATE TABLE IF NOT EXISTS booked (payment TEXT NOT NULL)")
    return ledger


def book(ledger: sqlite3.Connection, payment: str, work: Work) -> None:
    """Do what cannot be undone."""
    time.sleep(work.work_s)
    ledger.execute("INSERT INTO booked (payment) VALUES (?)", (payment,))


def booked(path: str) -> Counter[str]:
    """Return how often each payment was booked."""
    with closing(open_ledger(path)) as ledger:
        return Counter(payment for (payment,) in ledger.execute("SELECT payment FROM booked"))


class Effects(NamedTuple):
    """What the ledger says in the end, of so many payments and kills."""

    payments: int
    kills: int
    lost: int
    doubled: int


def show(consume: Consume, arguments: argparse.Namespace) -> Effects:
    """Send payments, let a consumer book them, kill it in between, and count."""
    topic = f"payments-{uuid.uuid4().hex[:8]}"
    payments = [f"payment {number}" for number in range(arguments.payments)]
    with Admin(arguments.server) as admin:
        # Unused for an hour, the broker deletes it by itself.
        admin.create_topic(topic, queue_count=1, expires_ms=_HOUR_MS)
    with Producer(arguments.server) as producer:
        producer.send_many(topic, payments)
    with tempfile.TemporaryDirectory() as directory:
        ledger = str(Path(directory) / "ledger")
        work = Work(arguments.server, topic, f"{topic}-books", ledger, arguments.work_ms / 1_000)
        for _ in range(arguments.kills):
            _kill_in_the_middle(consume, work)
        process = _started(consume, work)
        process.join(arguments.timeout_s)
        if process.exitcode != 0:
            process.kill()
            sys.exit(f"the consumer ended with {process.exitcode}")
        found = booked(ledger)
    strangers = set(found) - set(payments)
    if strangers:
        sys.exit(f"booked and never sent: {sorted(strangers)[:3]}")
    doubled = sum(count - 1 for count in found.values())
    return Effects(len(payments), arguments.kills, len(set(payments) - set(found)), doubled)


def _started(consume: Consume, work: Work) -> "multiprocessing.process.BaseProcess":
    # A fresh interpreter, so that nothing is shared but what is passed.
    process = multiprocessing.get_context("spawn").Process(target=consume, args=(work,))
    process.start()
    return process


def _kill_in_the_middle(consume: Consume, work: Work) -> None:
    """Start a consumer, and kill it when half of its first batch is booked."""
    goal = booked(work.ledger).total() + BATCH // 2
    process = _started(consume, work)
    while process.exitcode is None and booked(work.ledger).total() < goal:
        time.sleep(_LOOK_S)
    if process.exitcode is not None:
        sys.exit("the consumer ended before it could be killed: send more payments")
    process.kill()
    process.join()


def main(consume: Consume, what: str | None, is_kept: Callable[[Effects], bool]) -> int:
    """Read the command line, show, print; return 0 when the promise was kept."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="address of mqweb")
    parser.add_argument("--payments", type=int, default=100, help="how many are sent")
    parser.add_argument("--kills", type=int, default=3, help="how often the consumer is killed")
    parser.add_argument("--work-ms", type=float, default=20.0, help="what a payment takes")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="when to give up")
    effects = show(consume, parser.parse_args())
    print(f"{effects.payments} payments sent, consumer killed {effects.kills} times")
    print(f"{effects.lost} lost, {effects.doubled} booked twice")
    print("as promised" if is_kept(effects) else "NOT AS PROMISED")
    return 0 if is_kept(effects) else 1
