"""Clients by RocketMQ's protocol, killed by -9 while they hold messages, and what all of them saw.

Row P14 of the fault table: the broker lends messages for a time, and there are no locks.
"""

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.consuming.field import LEASE_MS, ORDERED
from tests.consuming.grpcfield import PLAIN, GrpcRun
from tests.histories import (
    duplicates,
    health,
    leased,
    liveness,
    loss,
    offsets,
    order,
    phantoms,
    progress,
    structure,
)
from tests.histories.history import History
from tests.histories.verdicts import are_valid
from tests.rounds import report, rounds, seed_of_run

pytestmark = pytest.mark.process

SEED = seed_of_run()
# How much slower than an idle machine one under load may be: only a hang must fail by its time.
PATIENCE = 5.0
# What is hidden anew right before a kill comes when the receive's own time is over.
BACK_S = 60.0
# Push consumers are missed after 35 s without a call, and their messages were renewed before that.
RENEWED_BACK_S = 180.0
WANTED = frozenset({
    "held by the killed", "came again", "lent in order", "repetitions", "after an expired lease",
})  # fmt: skip
EXPECTED = health.EXPECTED_CODES | {"expired", "overloaded"}
Act = Callable[[GrpcRun], None]


def kill_plain(run: GrpcRun) -> None:
    """Kill one who reads out of order."""
    run.kill_while_it_holds("borrower", PLAIN)


def kill_in_order(run: GrpcRun) -> None:
    """Kill one whose queues nobody else may read until its time is over."""
    run.kill_while_it_holds("borrower", ORDERED)


def kill_renewed(run: GrpcRun) -> None:
    """Kill one whose messages the broker itself keeps from others."""
    run.kill_while_it_holds("renewed", PLAIN)


def kill_renewed_in_order(run: GrpcRun) -> None:
    """Kill one whose queues the broker itself keeps from others."""
    run.kill_while_it_holds("renewed", ORDERED)


def kill_sender(run: GrpcRun) -> None:
    """Kill one who sends, and let another one send."""
    run.kill(run.rng.choice([client for client in run.members("") if client.role == "producer"]))
    run.start_client("producer")


def restart_broker(run: GrpcRun) -> None:
    """Kill the broker and start it again while messages are lent."""
    run.kill_broker()
    run.start_broker()


def pause_broker(run: GrpcRun) -> None:
    """Let the broker stand still until every loan is over."""
    run.pause_broker(LEASE_MS / 1_000 + 0.5)


def disturbed(
    directory: Path, seed: int, acts: Sequence[Act], *, renewed: int = 0, between: int = 10
) -> History:
    """Run load on a group in order and on one out of order while acts are carried out."""
    print(f"again: MQWEB_TEST_SEED={seed} {sys.executable} -m pytest -s {__file__}")
    with GrpcRun(directory, seed) as run:
        run.subscribe(ORDERED, is_ordered=True)
        run.subscribe(PLAIN, is_ordered=False)
        run.start_client("producer")
        for group in (ORDERED, PLAIN):
            for _ in range(2):
                run.start_client("borrower", group)
            for _ in range(renewed):
                run.start_client("renewed", group)
        for act in acts:
            run.wait_for_deliveries(between)
            run.wait_for_deliveries(between, PLAIN)
            print(act.__name__)
            act(run)
        run.wait_for_deliveries(between)
        run.heal()
        for group in (ORDERED, PLAIN):
            # Both have to move on after the faults, and not only to finish.
            run.read_progress(group)
        run.wait_for_deliveries(between)
        run.wait_for_deliveries(between, PLAIN)
        for producer in [client for client in run.members("") if client.role == "producer"]:
            run.stop(producer)
        run.drain(ORDERED, PLAIN)
        return run.finish()


def check(history: History, *, back_s: float) -> dict[str, int | float]:
    """Assert that every promise was kept, and that what is rare was there; return all counts."""
    verdicts = [
        health.check(history, expected_codes=EXPECTED),
        loss.check(history),
        phantoms.check(history),
        offsets.check(history),
        order.check(history),
        duplicates.check(history, settle_s=2.0 * PATIENCE),
        leased.check(history, back_s=back_s),
        progress.check(history),
        liveness.check(
            history, advance_s=30.0 * PATIENCE, drain_s=120.0 * PATIENCE, open_s=60.0 * PATIENCE
        ),
        structure.check(history),
    ]
    counts = {name: count for v in verdicts for name, count in v.counts.items()}
    verdicts.append(health.sometimes(WANTED, counts))
    print("\n".join(map(str, verdicts)))
    assert are_valid(verdicts)
    return counts


def test_what_a_killed_client_held_comes_again_in_order_and_in_time(tmp_path: Path) -> None:
    acts = [kill_plain, kill_in_order]
    random.Random(SEED).shuffle(acts)

    check(disturbed(tmp_path, SEED, acts), back_s=BACK_S)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("number", range(rounds(1)))
def test_many_kills_of_clients_and_of_their_broker(tmp_path: Path, number: int) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    often = [kill_plain, kill_in_order, kill_sender, restart_broker, pause_broker]
    # Each of these waits for a minute and more.
    acts = [*often, *rng.choices(often, k=10), kill_renewed, kill_renewed_in_order]
    rng.shuffle(acts)

    counts = check(disturbed(tmp_path, seed, acts, renewed=1), back_s=RENEWED_BACK_S)

    report(
        "P14 clients by gRPC",
        seed=seed,
        acts=len(acts),
        acked=counts["acked"],
        acked_lost=0,
        held_by_the_killed=counts["held by the killed"],
        came_again=counts["came again"],
        lent_in_order=counts["lent in order"],
    )
