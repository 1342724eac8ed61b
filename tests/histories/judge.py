"""Every checker over one history. `python -m tests.histories.judge DIRECTORY` judges a kept run."""

import sys
from pathlib import Path

from tests.histories import (
    acts,
    deadletters,
    delays,
    duplicates,
    exclusive,
    filtering,
    health,
    liveness,
    loss,
    offsets,
    operators,
    order,
    phantoms,
    progress,
    repeats,
    structure,
    transactions,
)
from tests.histories.events import Verb
from tests.histories.history import History, read
from tests.histories.verdicts import Verdict, are_valid

PROMISES = (
    loss, phantoms, offsets, order, duplicates, exclusive, progress, filtering, liveness,
)  # fmt: skip
# Promises about what not every run does: judged where it was done.
_PROMISES_ABOUT = {
    delays: Verb.DELAY,
    transactions: Verb.BEGIN,
    deadletters: Verb.LETTERS,
    structure: Verb.INSPECT,
    repeats: Verb.SEND,
}


def judged(history: History, *, patience: float = 1.0) -> list[Verdict]:
    """Return the verdict of the run and of each promise, in order of their numbers.

    `patience` lengthens what is given to clients and queues until they have moved on.
    """
    bounds: dict[object, dict[str, float]] = {
        duplicates: {"settle_s": 2.0 * patience},
        filtering: {"settle_s": 2.0 * patience},
        deadletters: {"settle_s": 2.0 * patience},
        operators: {"settle_s": 2.0 * patience},
        delays: {"late_s": 5.0 * patience},
        liveness: {
            "advance_s": 30.0 * patience,
            "drain_s": 120.0 * patience,
            "open_s": 60.0 * patience,
        },
    }
    asked = [
        promise
        for promise, verb in _PROMISES_ABOUT.items()
        if any(verb is not Verb.SEND or "sequences" in o.asked for o in history.of(verb))
    ]
    if history.once(acts.acts_of):
        asked.append(operators)
        if not history.noticed(Verb.POLICY):
            # Letters of groups without a limit are what operators parked.
            asked = [promise for promise in asked if promise is not deadletters]
    return [
        health.check(history),
        *(promise.check(history, **bounds.get(promise, {})) for promise in (*PROMISES, *asked)),
    ]


def main(directory: Path) -> int:
    """Print every verdict; return 0 when all are valid."""
    verdicts = judged(read(directory))
    print("\n".join(map(str, verdicts)))
    return 0 if are_valid(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
