"""An order in a database and the message that announces it: both, or neither.

    python examples/orders_in_transaction.py --server http://127.0.0.1:8000

A producer stores orders, some of which its database refuses, and is killed again and again: before
its commit in the database, and between that and the commit of the message. The broker asks the next
producer what became of those, and it looks into the database. The exit code is 0 when exactly the
orders of the database were announced.
"""

import argparse
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
import time
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mqclient import (
    Admin,
    Decision,
    SimpleConsumer,
    Transaction,
    TransactionCheck,
    TransactionProducer,
)

_HOUR_MS = 3_600_000
# So long the producer itself has to decide; the broker's default is 6 s.
_IMMUNITY_MS = 500
_QUIET_MS = 3_000


class Shop(NamedTuple):
    """What a producer process is told: the orders from `first` on, and where it is killed."""

    server: str
    topic: str
    database: str
    first: int
    count: int
    killed_at: int


def connect(database: str) -> sqlite3.Connection:
    """Return the shop's database."""
    connection = sqlite3.connect(database, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY)")
    connection.commit()
    return connection


def stored(database: str) -> set[str]:
    """Return the orders that are there."""
    with closing(connect(database)) as connection:
        return {number for (number,) in connection.execute("SELECT number FROM orders")}


def check(shop: Shop, question: TransactionCheck) -> Decision:
    """Say what became of a transaction, by what is durable: it may be another process's."""
    number = question.message.keys[0]
    return Decision.COMMIT if number in stored(shop.database) else Decision.ROLLBACK


def take_order(shop: Shop, number: int, transaction: Transaction) -> Decision:
    """Store an order; every fifth is refused. Be killed before or after the commit, if wanted."""
    del transaction
    with closing(connect(shop.database)) as connection:
        connection.execute("INSERT INTO orders VALUES (?)", (str(number),))
        if number % 5 == 4:
            return Decision.ROLLBACK
        if number == shop.killed_at and number % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        connection.commit()
    if number == shop.killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return Decision.COMMIT


def produce(shop: Shop) -> None:
    """Take orders until all are taken. This is what an application would write."""
    producer = TransactionProducer(
        shop.server,
        producer_group=f"{shop.topic}-shops",
        check=partial(check, shop),
        check_immunity_ms=_IMMUNITY_MS,
    )
    with producer:
        for number in range(shop.first, shop.count):
            producer.send_in_transaction(
                shop.topic, f"order {number}", partial(take_order, shop, number), keys=str(number)
            )
        # Questions about what a killed producer left behind are answered meanwhile.
        time.sleep(4 * _IMMUNITY_MS / 1_000)


def run_producers(arguments: argparse.Namespace, topic: str, database: str) -> int:
    """Let one producer after the other go on where the last was killed; return how many were."""
    # A fresh interpreter each, so that nothing is shared but what is passed.
    context = multiprocessing.get_context("spawn")
    step = arguments.orders // (arguments.kills + 1)
    # Never an order that is refused.
    victims = [at + (at % 5 == 4) for at in range(step, arguments.orders - 1, step)]
    first, killed = 0, 0
    for killed_at in [*victims[: arguments.kills], -1]:
        shop = Shop(arguments.server, topic, database, first, arguments.orders, killed_at)
        process = context.Process(target=produce, args=(shop,))
        process.start()
        process.join(arguments.timeout_s)
        if process.exitcode not in (0, -signal.SIGKILL):
            process.kill()
            sys.exit(f"a producer ended with {process.exitcode}")
        killed += process.exitcode == -signal.SIGKILL
        first = killed_at + 1
    return killed


def announced(server: str, topic: str) -> list[str]:
    """Return the orders that a consumer hears of."""
    found = []
    with SimpleConsumer(topic, f"{topic}-mail", server) as consumer:
        while messages := consumer.receive(wait_ms=_QUIET_MS):
            found += [message.keys[0] for message in messages]
            consumer.ack(messages)
    return found


def run(arguments: argparse.Namespace) -> int:
    """Take orders, be killed, go on, compare; return the exit code."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    with Admin(arguments.server) as admin:
        # Unused for an hour, the broker deletes it by itself.
        admin.create_topic(topic, topic_type="TRANSACTION", expires_ms=_HOUR_MS)
    with tempfile.TemporaryDirectory() as directory:
        database = str(Path(directory) / "shop")
        killed = run_producers(arguments, topic, database)
        heard, orders = announced(arguments.server, topic), stored(database)
    print(f"{arguments.orders} orders tried, producer killed {killed} times")
    print(f"{len(orders)} in the database, {len(heard)} announced")
    print(f"not announced: {len(orders - set(heard))}, not there: {len(set(heard) - orders)}")
    is_exact = sorted(heard) == sorted(orders) and killed == arguments.kills
    print("exactly the orders of the database were announced" if is_exact else "NOT THE SAME")
    return 0 if is_exact else 1


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="address of mqweb")
    parser.add_argument("--orders", type=int, default=40, help="how many are tried")
    parser.add_argument("--kills", type=int, default=3, help="how often the producer is killed")
    parser.add_argument("--timeout-s", type=float, default=60.0, help="when to give up")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
