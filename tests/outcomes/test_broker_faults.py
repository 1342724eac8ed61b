"""Delays, transactions, failures and repeats while the broker is killed, stopped and cut off.

Rows P1, P5, P6, L5 and N5 of the fault table for what is delivered later, with a real broker: early
0, lost 0, seen if and only if committed, dead letters exact, repeats stored once. The checkers know
nothing of the product; each was shown to catch its bug in `tests/histories/test_care_mutations.py`.
"""

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.histories.history import History
from tests.outcomes import roles
from tests.outcomes.brokers import VOLATILE, BrokerField
from tests.outcomes.field import READERS
from tests.outcomes.judging import judge
from tests.rounds import report, rounds, seed_of_run

pytestmark = pytest.mark.process

# A failing seed is run again with this variable.
SEED = seed_of_run()
ROLES = {
    "delayer": roles.delay,
    "leveller": roles.delay_by_levels,
    "ticker": roles.tick_levels,
    "decider": roles.decide,
    "checker-1": roles.answer_checks,
    "checker-2": roles.answer_checks,
    "numberer": roles.number,
    "maker": roles.make_jobs,
    "leaser": roles.fail_leases,
    "back": roles.fail_by_sending_back,
    "finder": roles.find_given_up,
    **{f"reader-{topic}": roles.read(topic) for topic in READERS},
}
Act = Callable[[BrokerField], None]


def run(directory: Path, seed: int, acts: Sequence[Act], *command: str, turns: int = 20) -> History:
    """Let all roles work while acts are carried out; return what the clients saw."""
    print(f"again: MQWEB_TEST_SEED={seed} {sys.executable} -m pytest -s {__file__}")
    with BrokerField(directory, seed, *command) as field:
        for name, role in ROLES.items():
            field.run(role, name)
        for act in acts:
            field.wait_for_turns(field.rng.randrange(turns // 2, turns))
            print(act.__name__)
            act(field)
        field.wait_for_turns(turns)
        return field.finish()


def test_a_killed_and_a_stopped_broker_keep_every_promise(tmp_path: Path) -> None:
    history = run(tmp_path, SEED, [BrokerField.kill, BrokerField.pause])

    judge(history, fault_count=2)


def test_a_power_cut_keeps_every_promise(tmp_path: Path) -> None:
    history = run(tmp_path, SEED, [BrokerField.kill], *VOLATILE)

    judge(history, fault_count=1)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("command", [(), VOLATILE], ids=["killed", "cut off"])
@pytest.mark.parametrize("number", range(rounds(1)))
def test_many_faults_in_any_order(tmp_path: Path, number: int, command: tuple[str, ...]) -> None:
    seed = SEED + number
    acts = random.Random(seed).choices([BrokerField.kill, BrokerField.pause], weights=[3, 1], k=12)

    history = run(tmp_path, seed, acts, *command, turns=30)

    counts = judge(history, fault_count=12)
    report(
        f"P1 P5 P6 N5 outcomes {'cut off' if command else 'killed'}",
        seed=SEED + number,
        faults=12,
        early=counts.get("early", 0),
        lost=counts.get("lost", 0),
        stored_twice=counts.get("stored twice", 0),
        dead_letters=counts["letters"],
    )
