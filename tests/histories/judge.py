"""Every checker over one history. `python -m tests.histories.judge DIRECTORY` judges a kept run."""

import sys
from pathlib import Path

from tests.histories import (
    duplicates,
    exclusive,
    filtering,
    health,
    liveness,
    loss,
    order,
    phantoms,
    progress,
)
from tests.histories.history import History, read
from tests.histories.verdicts import Verdict, are_valid

PROMISES = (loss, phantoms, order, duplicates, exclusive, progress, filtering, liveness)


def judged(history: History) -> list[Verdict]:
    """Return the verdict of the run and of each promise, in order of their numbers."""
    return [health.check(history), *(promise.check(history) for promise in PROMISES)]


def main(directory: Path) -> int:
    """Print every verdict; return 0 when all are valid."""
    verdicts = judged(read(directory))
    print("\n".join(map(str, verdicts)))
    return 0 if are_valid(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
