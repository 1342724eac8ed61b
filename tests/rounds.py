"""How large the long strengths of a test are: `make crash` by default, more by a variable.

MQWEB_TEST_ROUNDS multiplies the seeds, kills and occurrences of `make crash`. It defaults to 1,
which fits 25 minutes on two processors. MQWEB_TEST_SEED runs a failing seed again.
"""

import os
import random

ROUNDS = int(os.environ.get("MQWEB_TEST_ROUNDS") or 1)


def rounds(count: int) -> int:
    """Return how many rounds of something to run, of so many in a run of one round."""
    return count * ROUNDS


def seed_of_run() -> int:
    """Return the seed of this run: the one that was asked for, or any."""
    return int(os.environ.get("MQWEB_TEST_SEED") or random.randrange(1 << 32))


def report(row: str, **figures: object) -> None:
    """Print one row's summary; docs/RELIABILITY.md quotes these lines."""
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
    print(f"ROW {row}: rounds {ROUNDS}, {told}")
