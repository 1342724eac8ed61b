"""Groups at work while members come, go, die and stand still, judged by what the clients saw.

Rows P6, P7, L1, L4, L7 and L8 of the fault table, with a real broker, clients and signals.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.consuming.field import LEASE_MS, ORDERED, TAGGED, UNLOCKED, Run, wait_for
from tests.consuming.nemesis import ACTS, Act, disturb, kill, pause
from tests.histories import duplicates, exclusive, health, judge, loss, order, takeover
from tests.histories.events import Verb
from tests.histories.history import History, read
from tests.histories.verdicts import Validity, Verdict, are_valid
from tests.rounds import report, rounds, seed_of_run

pytestmark = pytest.mark.process

# A failing seed is run again with this variable.
SEED = seed_of_run()
# How much slower than an idle machine one under load may be: only a hang must fail by its time, and
# what a take-over took is printed.
PATIENCE, SLOW_S = 5.0, 20.0
# What must have happened, or the run shows nothing of it.
WANTED = frozenset({
    "take-overs", "renewals", "stale_refused", "after retry", "repetitions", "passed over",
    "join ok", "leave ok", "unlock ok",
})  # fmt: skip


def disturbed(directory: Path, seed: int, acts: Sequence[Act], again: str) -> History:
    """Run load on an ordered and on a filtered group while acts are carried out.

    `again` are the words by which pytest finds the same run.
    """
    print(f"again: MQWEB_TEST_SEED={seed} {sys.executable} -m pytest -s {again}")
    with Run(directory, seed) as run:
        run.subscribe(ORDERED, is_ordered=True)
        run.subscribe(TAGGED, is_ordered=False)
        producers = [run.start_client("producer") for _ in range(2)]
        for _ in range(3):
            run.start_client("ordered", ORDERED)
        for _ in range(2):
            run.start_client("concurrent", TAGGED)
        run.wait_for_sends(10)

        disturb(run, acts, deliveries_between=40)
        # Both groups have to move on after the faults, and not only to finish.
        run.read_progress(ORDERED)
        run.read_progress(TAGGED)
        run.wait_for_deliveries(40)
        run.wait_for_deliveries(20, TAGGED)
        for producer in producers:
            run.stop(producer)
        run.drain(ORDERED, TAGGED)
        history = run.finish()
        check(history)
    return history


def check(
    history: History, wanted: frozenset[str] = WANTED, *, has_lost_holders: bool = True
) -> None:
    """Assert that every promise was kept, and that what is rare was there.

    Where nothing makes sure that a holder is lost, nothing is asked of who comes after it.
    """
    verdicts = [*judge.judged(history, patience=PATIENCE)]
    if has_lost_holders:
        verdicts.append(takeover.check(history, lease_s=LEASE_MS / 1_000, slack_s=SLOW_S))
    counts = {name: count for v in verdicts for name, count in v.counts.items()}
    verdicts.append(health.sometimes(wanted, counts))
    print("\n".join(map(str, verdicts)))
    assert are_valid(verdicts)


def test_order_exclusion_and_completeness_survive_members_and_broker(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    acts = rng.sample(ACTS, len(ACTS))

    disturbed(tmp_path, SEED, acts, "tests/consuming/test_members.py -k survive")


def test_reading_without_locks_is_caught(tmp_path: Path) -> None:
    """The negative control: the same checkers must see what happens where nobody locks."""
    print(f"seed {SEED}")
    with Run(tmp_path, SEED) as run:
        run.subscribe(UNLOCKED, is_ordered=True)
        producer = run.start_client("producer")
        for _ in range(2):
            run.start_client("unlocked", UNLOCKED)
        # A client that is slow to start leaves the other one alone, and alone it does no wrong.
        wait_for(lambda: were_together(read(run.directory)), "two were in a queue at once")
        run.stop(producer)
        history = run.finish()

    exclusion, sequence = exclusive.check(history), order.check(history)
    print(exclusion, sequence, sep="\n")
    assert caught(exclusion)
    assert exclusion.counts["overlaps"] > 0
    assert caught(sequence)


def were_together(history: History) -> bool:
    """Say whether listeners ran in one queue at once, and one began behind what was committed."""
    # A run that has not ended counts as one that goes on for ever, and may yet end in time.
    ended = [one for one in history.of(Verb.DELIVER) if one.is_ok]
    is_overlap = any(
        (one.asked["topic"], one.asked["queue"]) == (other.asked["topic"], other.asked["queue"])
        and one.process != other.process
        and one.start_ns < other.start_ns < one.end_ns
        for one in ended
        for other in ended
    )
    return is_overlap and caught(order.check(history))


def caught(verdict: Verdict) -> bool:
    """Say whether a checker saw that something is wrong."""
    return verdict.validity is Validity.INVALID


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("number", range(rounds(2)))
def test_many_acts_in_any_order(tmp_path: Path, number: int) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    acts = [*ACTS, *rng.choices(ACTS, k=10)]
    rng.shuffle(acts)

    history = disturbed(
        tmp_path, seed, acts, "tests/consuming/test_members.py -m crash -k any_order[0]"
    )

    exclusion, repetition = exclusive.check(history), duplicates.check(history)
    report(
        "P6 P7 L1 L4 L8 members",
        seed=seed,
        acts=len(acts),
        acked=loss.check(history).counts["acked"],
        acked_lost=0,
        duplicates=repetition.counts["repetitions"],
        overlaps=exclusion.counts.get("overlaps", 0),
        stale_refused=exclusion.counts["stale_refused"],
    )


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("pause_s", [5.0, 30.0, 120.0])
def test_a_broker_that_stood_still_looks_at_leases_before_it_serves(
    tmp_path: Path, pause_s: float
) -> None:
    def stand_still(run: Run) -> None:
        assert run.locks()
        run.pause_broker(pause_s)

    words = "tests/consuming/test_members.py -m crash -k stood_still"
    history = disturbed(tmp_path, SEED, [kill, stand_still, pause], words)

    report_exclusion(f"L1 stopped {pause_s:.0f} s", history)


@pytest.mark.crash
def test_everything_that_was_frozen_looks_at_leases_before_it_goes_on(tmp_path: Path) -> None:
    """Row L7: brokers and clients stand still at one moment, as a machine does that is suspended.

    Nobody is there who could take anything over, and all believe afterwards that no time has gone.
    """
    how = []

    def freeze(run: Run) -> None:
        assert run.locks()
        how.append(run.freeze_everything(2 * LEASE_MS / 1_000))

    words = "tests/consuming/test_members.py -m crash -k frozen"
    history = disturbed(tmp_path, SEED, [freeze, kill, freeze, pause], words)

    report_exclusion(f"L7 by {how[0]}", history)


def report_exclusion(row: str, history: History) -> None:
    report(
        row,
        seed=SEED,
        acked=loss.check(history).counts["acked"],
        acked_lost=0,
        overlaps=exclusive.check(history).counts.get("overlaps", 0),
    )
