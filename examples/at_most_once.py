"""At most once: acknowledge, then work. A consumer that dies in between loses what it had taken.

    python examples/at_most_once.py --server http://127.0.0.1:8000

Right for what is worthless a moment later: a position, a reading of a sensor.
"""

import sys
from contextlib import closing

from killed_consumer import BATCH, INVISIBLE_MS, QUIET_MS, Effects, Work, book, main, open_ledger
from mqclient import SimpleConsumer


def consume(work: Work) -> None:
    """Be a consumer until nothing comes any more."""
    with (
        SimpleConsumer(work.topic, work.group, work.server) as consumer,
        closing(open_ledger(work.ledger)) as ledger,
    ):
        while messages := consumer.receive(BATCH, wait_ms=QUIET_MS, invisible_ms=INVISIBLE_MS):
            # From here on nobody is given them again, whatever becomes of this process.
            consumer.ack(messages)
            for message in messages:
                book(ledger, message.body.decode(), work)


def is_kept(effects: Effects) -> bool:
    """Say whether nothing was booked twice; the kills have lost something."""
    return effects.doubled == 0 and effects.lost > 0


if __name__ == "__main__":
    sys.exit(main(consume, __doc__, is_kept))
