"""What the shop has done, in a SQLite file. Each fact about an order is written once.

A task may run twice, after a worker was killed or a message came again. That is harmless because
the second run finds the fact written.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_FILE = Path("shop.db")
_BUSY_S = 30.0


def note(order: int, fact: str, cents: int = 0) -> bool:
    """Write a fact about an order; return whether it is new."""
    with _opened() as ledger:
        written = ledger.execute(
            "INSERT OR IGNORE INTO fact (at_order, fact, cents) VALUES (?, ?, ?)",
            (order, fact, cents),
        )
        return written.rowcount == 1


def cents_charged(part: int, parts: int) -> int:
    """Return what the orders of one part were charged; all parts together are all orders."""
    with _opened() as ledger:
        row = ledger.execute(
            "SELECT sum(cents) FROM fact WHERE fact = 'charged' AND at_order % ? = ?",
            (parts, part),
        ).fetchone()
        return int(row[0] or 0)


def last_order() -> int:
    """Return the highest order number, 0 when there is none."""
    with _opened() as ledger:
        return int(ledger.execute("SELECT max(at_order) FROM fact").fetchone()[0] or 0)


@contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(_FILE, timeout=_BUSY_S)) as ledger, ledger:
        ledger.execute(
            "CREATE TABLE IF NOT EXISTS fact (at_order INTEGER, fact TEXT, cents INTEGER,"
            " PRIMARY KEY (at_order, fact))"
        )
        yield ledger
