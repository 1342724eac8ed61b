"""What is said of a run of delays, decisions, failures and repeats, and whether it shows anything.

    python -m tests.outcomes.judging DIRECTORY

judges a kept run again. Knows checkers and what such a run asks for; nothing of the product.
"""

import sys
from pathlib import Path

from tests.histories import (
    deadletters,
    delays,
    health,
    offsets,
    phantoms,
    repeats,
    structure,
    transactions,
)
from tests.histories.faults import faults_of
from tests.histories.history import History, read
from tests.histories.verdicts import Verdict, are_valid

# What must have happened, or the run shows nothing of it.
WANTED = frozenset({
    "came", "cancelled", "recalled too late", "sent before its time",
    "committed", "rolled back", "given up", "refused", "repeats", "checks", "seen",
    "letters", "straight", "numbers", "sent again",
})  # fmt: skip
# Refusals that a run like this asks for, and what faults make of an operation.
EXPECTED = frozenset({
    "unanswered", "unreachable", "stopping", "transaction_decided", "expired", "overloaded",
})  # fmt: skip
# 5 s on an idle machine. A machine under load is slower, and only a hang must fail.
LATE_S = 60.0
_SETTLE_S = 10.0


def verdicts_of(
    history: History, *, late_s: float = LATE_S, expected: frozenset[str] = EXPECTED
) -> list[Verdict]:
    """Return what each promise's checker says, and that of the run first."""
    return [
        health.check(history, expected_codes=expected),
        phantoms.check(history),
        offsets.check(history),
        delays.check(history, late_s=late_s),
        transactions.check(history),
        deadletters.check(history, settle_s=_SETTLE_S),
        repeats.check(history),
        structure.check(history),
    ]


def judge(
    history: History,
    *,
    fault_count: int,
    wanted: frozenset[str] = WANTED,
    late_s: float = LATE_S,
    expected: frozenset[str] = EXPECTED,
) -> dict[str, int | float]:
    """Assert that every promise was kept, every fault made, and that what is rare was there.

    Returns what the checkers counted.
    """
    verdicts = verdicts_of(history, late_s=late_s, expected=expected)
    counts = {name: count for v in verdicts for name, count in v.counts.items()}
    verdicts.append(health.sometimes(wanted, counts))
    print("\n".join(map(str, verdicts)))
    assert len(faults_of(history)) == fault_count, "not every fault was made"
    assert are_valid(verdicts)
    return counts


def main(directory: Path) -> int:
    """Print every verdict; return 0 when all are valid."""
    verdicts = verdicts_of(read(directory))
    print("\n".join(map(str, verdicts)))
    return 0 if are_valid(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
