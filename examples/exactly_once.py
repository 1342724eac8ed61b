"""Exactly once: work and remember the message in one transaction, then acknowledge.

    python examples/exactly_once.py --server http://127.0.0.1:8000

The message may come twice; its effect does not. That takes a place where the effect and the mark
are written together: here the ledger's own database, with a unique mark for each message.
"""

import sqlite3
import sys
from contextlib import closing
from functools import partial

from killed_consumer import BATCH, INVISIBLE_MS, QUIET_MS, Effects, Work, book, main, open_ledger
from mqclient import HandleExpired, SimpleConsumer
from mqclient.idempotent import SqlOnce, effect_key


def consume(work: Work) -> None:
    """Be a consumer until nothing comes any more."""
    once = SqlOnce(sqlite3, scope="booking")
    with (
        SimpleConsumer(work.topic, work.group, work.server) as consumer,
        closing(open_ledger(work.ledger)) as ledger,
    ):
        # Transactions, where the ledger alone would have every statement count at once.
        ledger.isolation_level = "DEFERRED"
        once.create_table(ledger)
        while messages := consumer.receive(BATCH, wait_ms=QUIET_MS, invisible_ms=INVISIBLE_MS):
            for message in messages:
                booking = partial(book, ledger, message.body.decode(), work)
                if not once.run(ledger, effect_key(message), booking):
                    print(f"{message.body.decode()} came again and was booked before")
            try:
                consumer.ack(messages)
            except HandleExpired:
                # They come again, and nothing happens then.
                continue


def is_kept(effects: Effects) -> bool:
    """Say whether every payment was booked, and none twice."""
    return effects.lost == effects.doubled == 0


if __name__ == "__main__":
    sys.exit(main(consume, __doc__, is_kept))
