"""One writer of projected rows at a time. Knows PostgreSQL's locks, no row."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

# Any number does that nothing else in this database locks.
_TURN = 0x6D71_7765_6267


@contextmanager
def turn() -> Iterator[None]:
    """Run the block in a transaction, after every other that is in its turn.

    Writers compare rows with what the engine says and write the difference; two that did it at once
    would wait for each other's rows in a circle.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_TURN])
        yield
