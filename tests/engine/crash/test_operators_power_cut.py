"""The power is cut at every sync of what operators do: what was answered holds, in order.

A run is a list of acts: each either is in the store with all it means, or not at all, and none is
there without the one before it. Whatever survives, the acts are repeated from the first one, as
whoever got no answer does, and the end is the same as without a cut.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from apps.engine.caretypes import CareAct
from apps.engine.errors import HeadMoved, OffsetsMoved, SyncFailed
from apps.engine.testing.crashes import CrashMode
from apps.engine.types import GroupSpec
from tests.engine.broker.failurebench import FailureBench

COUNT = 6
ORDERED = GroupSpec(name="g", ordered=True)
State = tuple[int, bool, int, int]


@dataclass(frozen=True, slots=True)
class Act:
    """Something an operator does, and the state of the queue when it is done."""

    do: Callable[[FailureBench], object]
    then: State


def state_of(bench: FailureBench) -> State:
    """Return how far the group is, whether it is suspended, its dead letters, and the fences."""
    operators = bench.broker.state.operators
    progress = bench.broker.state.progress.get(("g", "orders", 0))
    is_suspended = ("g", "orders", 0) in operators.suspensions
    letters = len(bench.records("%DLQ%g"))
    locks = len(bench.broker.locks.states("g"))
    return (0 if progress is None else progress.floor, is_suspended, letters, locks)


ACTS = [
    Act(lambda bench: bench.lock("a"), (0, False, 0, 1)),
    Act(lambda bench: bench.attend(CareAct.SUSPEND), (0, True, 0, 1)),
    Act(lambda bench: bench.attend(CareAct.SKIP, 0), (1, True, 0, 0)),
    Act(lambda bench: bench.attend(CareAct.RESUME), (1, False, 0, 0)),
    Act(lambda bench: bench.attend(CareAct.PARK, 1), (2, False, 1, 0)),
    Act(lambda bench: bench.reset(5, expected=2, reset_id="on"), (5, False, 1, 0)),
    Act(lambda bench: bench.reset(3, expected=5, reset_id="back"), (3, False, 1, 0)),
    Act(lambda bench: bench.attend(CareAct.SKIP, 3), (4, False, 1, 0)),
]


def begun() -> FailureBench:
    bench = FailureBench(ORDERED)
    bench.send(COUNT)
    bench.broker.checkpoint()
    return bench


def run(bench: FailureBench, done: list[Act], *, first: int = 0) -> None:
    """Do each act, and note it once it is answered, which is after a sync."""
    for number, act in enumerate(ACTS[first:]):
        act.do(bench)
        bench.sync()
        done.append(act)
        if number % 3 == 2:
            bench.broker.checkpoint()


def survivors(bench: FailureBench, cut_at: int) -> list[tuple[list[CrashMode], FailureBench]]:
    found = []
    for modes, left in bench.disk.crash_images(cut_at):
        again = FailureBench()
        again.clock = bench.clock
        again.disk = left
        again.open()
        found.append((modes, again))
    return found


def sweep(spoil: Callable[[FailureBench], None] = lambda _bench: None) -> tuple[int, int]:
    """Cut at every sync in every mode; return how many cases ran, and how many went wrong."""
    whole = begun()
    spoil(whole)
    begin = whole.disk.sync_count
    run(whole, [])
    assert state_of(whole) == ACTS[-1].then
    states = [(0, False, 0, 0), *(act.then for act in ACTS)]
    cases = wrong = 0
    for cut_at in range(1, whole.disk.sync_count - begin + 1):
        bench, done = begun(), []
        spoil(bench)
        bench.disk.fail_sync_from = bench.disk.sync_count + cut_at
        with pytest.raises(SyncFailed):
            run(bench, done)
        assert bench.disk.faults["sync"], "the fault did not fire"
        bench.disk.fail_sync_from = None
        for modes, again in survivors(bench, cut_at):
            cases += len(modes)
            print(f"cut at sync {cut_at}, {modes}")
            if not is_right(again, states, answered=len(done)):
                wrong += len(modes)
    return cases, wrong


def is_right(again: FailureBench, states: list[State], *, answered: int) -> bool:
    """Say whether what survived is what some acts made of it, and the rest can be done."""
    found = state_of(again)
    # The act that was not answered is there whole or not at all.
    if found not in states[answered : answered + 2]:
        return False
    first = max(0, states.index(found, answered) - 1)
    try:
        run(again, [], first=first)
    except (HeadMoved, OffsetsMoved):
        return False
    return state_of(again) == states[-1]


def test_a_power_cut_at_any_sync_leaves_what_was_answered() -> None:
    cases, wrong = sweep()

    assert cases >= 8 * len(CrashMode)
    assert wrong == 0


def test_a_dead_letter_that_is_written_apart_would_be_caught() -> None:
    def spoil(bench: FailureBench) -> None:
        recorder, appender = bench.broker.recorder, bench.broker.appender
        whole = recorder.commit

        def split(events, batches=(), *, is_internal=True):  # type: ignore[no-untyped-def]
            stored = appender.write(batches, is_internal=is_internal)[0] if batches else []
            bench.broker.log.sync()
            return whole(events, is_internal=is_internal)[0], stored

        recorder.commit = split  # type: ignore[method-assign]

    cases, wrong = sweep(spoil)

    assert 0 < wrong < cases
