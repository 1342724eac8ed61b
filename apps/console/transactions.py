"""Transactions as a picture shows them: counters of what is undecided and how others ended. Pure.

None is unknown everywhere, and never written as 0.
"""

from typing import TypedDict

from apps.engine.transactiontypes import TransactionStatus


class TransactionsPicture(TypedDict):
    """The transactions at one moment; since the broker started, but what waits."""

    pending: int
    oldest_s: int | None
    begun: int
    committed: int
    rolled_back: int
    given_up: int
    checks: int
    given_up_waiting: int


def picture_of(status: TransactionStatus, *, now_ms: int) -> TransactionsPicture:
    """Put the counters of the engine into a picture."""
    oldest_ms = status.oldest_begun_ms
    return {
        "pending": status.pending,
        # A wall clock that was set back must not make anything lie ahead.
        "oldest_s": None if oldest_ms is None else max(0, now_ms - oldest_ms) // 1000,
        "begun": status.begun,
        "committed": status.committed,
        "rolled_back": status.rolled_back,
        "given_up": status.given_up,
        "checks": status.checks,
        "given_up_waiting": status.given_up_waiting,
    }
