"""At least once: work, then acknowledge. What a consumer that dies had taken comes to the next one.

    python examples/at_least_once.py --server http://127.0.0.1:8000

What all consumers of the client library do unless they are told otherwise. Right for work that may
be done twice: setting a value, writing a file under a name.
"""

import sys
from contextlib import closing

from killed_consumer import BATCH, INVISIBLE_MS, QUIET_MS, Effects, Work, book, main, open_ledger
from mqclient import HandleExpired, SimpleConsumer


def consume(work: Work) -> None:
    """Be a consumer until nothing comes any more."""
    with (
        SimpleConsumer(work.topic, work.group, work.server) as consumer,
        closing(open_ledger(work.ledger)) as ledger,
    ):
        while messages := consumer.receive(BATCH, wait_ms=QUIET_MS, invisible_ms=INVISIBLE_MS):
            for message in messages:
                book(ledger, message.body.decode(), work)
            try:
                consumer.ack(messages)
            except HandleExpired:
                # The work took longer than the lease: some are with another consumer already.
                continue


def is_kept(effects: Effects) -> bool:
    """Say whether nothing was lost; the kills have doubled something."""
    return effects.lost == 0 and effects.doubled > 0


if __name__ == "__main__":
    sys.exit(main(consume, __doc__, is_kept))
