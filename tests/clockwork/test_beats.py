"""Two beats, a beat that was dead, a beat whose clock is wrong: at most one run a slot.

Row D9 of the fault table, with real processes. Beat's own loop is in test_jumping_clock.py.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqweb.schedule import SCHEDULE, TICK_S_MAX
from tests.clockwork.machine import Machine, Process, Run
from tests.web.product import wait_for

pytestmark = pytest.mark.process

TASK = "metrics.sample_statistics"
EVERY_S = SCHEDULE[TASK]
# What one beat sends while the task that comes most often is due once.
TICKS_PER_SLOT = sum(EVERY_S / min(every_s, TICK_S_MAX) for every_s in SCHEDULE.values())
HOUR_S = 3600


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Run the product without worker and beat of its own."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with Machine(data) as machine:
        yield machine
    shutil.rmtree(data)


@pytest.fixture
def worker(machine: Machine) -> Iterator[Process]:
    """Run a worker that is there before any beat."""
    with machine.worker() as worker:
        wait_for(lambda: worker.has_said(" ready."))
        yield worker


def judge_slots(machine: Machine) -> None:
    """Assert that no task has run twice in a slot without having said that more is left."""
    for name, every_s in SCHEDULE.items():
        assert doubled(machine.runs(name), every_s) == [], name


def doubled(runs: list[Run], every_s: int) -> list[int]:
    """Return the slots that a task was run in twice though its runs had nothing left to do."""
    slots = [
        run.slot(every_s)
        for number, run in enumerate(runs)
        if not (number and runs[number - 1].has_more)
    ]
    return [slot for slot, count in Counter(slots).items() if count > 1]


def test_two_beats_and_ticks_in_a_burst_make_one_run_a_slot(machine: Machine) -> None:
    with machine.beat("first"), machine.beat("second"):
        wait_for(lambda: machine.ticks() > 3 * TICKS_PER_SLOT)
        with machine.worker():
            first = machine.wait_for_runs(TASK, 1)[-1]
            ticks = machine.ticks()
            last = machine.wait_for_runs(TASK, 4, after=len(machine.wait_for_runs(TASK, 1)))[-1]
            ticks = machine.ticks() - ticks
            assert len(beats(machine)) == 2

    slots = last.slot(EVERY_S) - first.slot(EVERY_S)
    print(f"{ticks} ticks in {slots} slots; one beat sends {TICKS_PER_SLOT:g}")
    assert ticks > 1.5 * TICKS_PER_SLOT * slots, "the second beat sent nothing"
    judge_slots(machine)


def beats(machine: Machine) -> list[tuple[str]]:
    return machine.ask("SELECT name FROM clockwork_part WHERE kind = 'beat'")


@pytest.mark.crash
def test_after_ten_minutes_without_beat_each_task_runs_once(
    machine: Machine, worker: Process
) -> None:
    with machine.beat("first") as first:
        wait_for(lambda: all(machine.runs(name) for name in SCHEDULE))
        first.kill()
    before = machine.let_pass(seconds=600)

    def runs_after(name: str) -> list[Run]:
        return [run for run in machine.runs(name) if run.owner not in before]

    with machine.beat("second"):
        wait_for(lambda: all(runs_after(name) for name in due()))
        machine.wait_for_runs(TASK, 2, after=len(machine.wait_for_runs(TASK, 1)))

    for name, every_s in SCHEDULE.items():
        runs = runs_after(name)
        assert doubled(runs, every_s) == [], (name, runs)
        elapsed = (runs[-1].slot(every_s) - runs[0].slot(every_s) + 1) if runs else 0
        assert len(runs) <= elapsed, "what was missed was made up for more than once"


def due() -> list[str]:
    """Return the tasks that have a slot in any ten minutes."""
    return [name for name, every_s in SCHEDULE.items() if every_s <= 600]


@pytest.mark.parametrize(
    "offsets_s",
    [[-HOUR_S], pytest.param([0, HOUR_S, -HOUR_S, 0, 3, -3], marks=pytest.mark.crash)],
    ids=["behind", "jumping"],
)
def test_a_beat_whose_clock_is_wrong_keeps_the_clockwork_going(
    machine: Machine,
    worker: Process,
    tmp_path: Path,
    offsets_s: list[int],
) -> None:
    clock = tmp_path / "offset"
    clock.write_text(str(offsets_s[0]))
    with machine.running("skewed", "tests/clockwork/skewed_beat.py", str(clock)) as beat:
        for offset_s in offsets_s:
            clock.write_text(str(offset_s))
            machine.wait_for_runs(TASK, 2, after=len(machine.wait_for_runs(TASK, 0)))
        assert machine.ticks() >= 2 * len(offsets_s)
        assert not beat.has_said("Traceback")

    judge_slots(machine)
