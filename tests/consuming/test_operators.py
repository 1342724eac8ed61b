"""Operators at work on ordered and plain groups that are disturbed, judged by what clients saw.

INV-18 and all the other invariants at once, with a real broker, clients and signals: what an act
names comes again, is passed over or is a dead letter, and nothing else does.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.consuming.field import ORDERED, TAGGED, Run
from tests.consuming.operators import DEEDS, Deed, Operator, read_letters
from tests.consuming.test_members import check
from tests.histories.history import History
from tests.rounds import report, rounds, seed_of_run

pytestmark = pytest.mark.process

SEED = seed_of_run()
WANTED = frozenset({
    "suspend done", "resume done", "skip done", "park done", "move done", "undone", "went back",
    "came again", "letters of parked", "begun before it knew",
})  # fmt: skip


def attended(directory: Path, seed: int, deeds: Sequence[Deed], again: str) -> History:
    """Run load on an ordered and on a filtered group while operators and faults are at work."""
    print(f"again: MQWEB_TEST_SEED={seed} {sys.executable} -m pytest -s {again}")
    with Run(directory, seed) as run:
        operator = Operator(run)
        run.subscribe(ORDERED, is_ordered=True)
        run.subscribe(TAGGED, is_ordered=False)
        producers = [run.start_client("producer") for _ in range(2)]
        for _ in range(3):
            run.start_client("ordered", ORDERED)
        for _ in range(2):
            run.start_client("concurrent", TAGGED)
        try:
            for deed in deeds:
                run.wait_for_deliveries(40)
                run.wait_for_deliveries(10, TAGGED)
                print(deed.__name__)
                deed(run, operator)
            run.wait_for_deliveries(40)
        finally:
            operator.close()
        run.heal()
        run.read_progress(ORDERED)
        run.read_progress(TAGGED)
        run.wait_for_deliveries(40)
        for producer in producers:
            run.stop(producer)
        run.drain(ORDERED, TAGGED)
        read_letters(run, ORDERED)
        return run.finish()


def test_what_operators_do_is_what_comes_of_it_while_processes_are_killed(tmp_path: Path) -> None:
    deeds = random.Random(SEED).sample(DEEDS, len(DEEDS))

    history = attended(tmp_path, SEED, deeds, "tests/consuming/test_operators.py -k killed")

    check(history, WANTED, has_lost_holders=False)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("number", range(rounds(2)))
def test_many_acts_of_operators_in_any_order(tmp_path: Path, number: int) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    deeds = [*DEEDS, *rng.choices(DEEDS, k=14)]
    rng.shuffle(deeds)

    history = attended(
        tmp_path, seed, deeds, "tests/consuming/test_operators.py -m crash -k any_order"
    )

    check(history, WANTED, has_lost_holders=False)
    report("INV-18 operators", seed=seed, acts=len(deeds))
