"""A task runs once a slot, on one worker at a time, and a lost run is made up for."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from apps.clockwork import claims
from apps.clockwork.claims import Claim, Ended
from apps.clockwork.models import Outcome, TaskRun, TaskState
from tests.clockwork.conftest import let_pass

EVERY_S = 3600
HOLD_S = 15
DONE = Ended(outcome=Outcome.DONE, done=3)


def claim(owner: str) -> Claim | None:
    return claims.claim("t", every_s=EVERY_S, hold_s=HOLD_S, owner=owner)


@pytest.mark.django_db
class TestOneRunASlot:
    def test_a_task_never_run_is_due(self) -> None:
        assert claim("a") == Claim(name="t", owner="a", every_s=EVERY_S)

    def test_a_second_tick_during_the_run_gets_nothing(self) -> None:
        claim("a")
        assert claim("b") is None

    def test_a_second_tick_after_the_run_gets_nothing_in_the_same_slot(self) -> None:
        first = claim("a")
        assert first is not None
        assert claims.finish(first, DONE)
        row = TaskState.objects.get(name="t")
        # The slot's end is what decides, unless the test happens to run on the boundary.
        assert row.due_at == claims.next_slot(row.last_started_at, EVERY_S)
        if row.due_at > row.last_ended_at:
            assert claim("b") is None

    def test_ticks_missed_for_ten_slots_make_one_run(self) -> None:
        first = claim("a")
        assert first is not None
        claims.finish(first, DONE)
        let_pass(seconds=10 * EVERY_S)
        second = claim("b")
        assert second is not None
        claims.finish(second, DONE)
        assert [claim(owner) for owner in "cdefg"] == [None] * 5
        assert TaskState.objects.get(name="t").run_count == 2

    def test_a_step_with_more_left_may_go_on_at_once(self) -> None:
        first = claim("a")
        assert first is not None
        claims.finish(first, Ended(outcome=Outcome.DONE, done=1, has_more=True))
        second = claim("b")
        assert second is not None
        claims.finish(second, DONE)
        assert claim("c") is None

    def test_a_due_time_further_ahead_than_a_slot_is_a_clock_set_back(self) -> None:
        first = claim("a")
        assert first is not None
        claims.finish(first, DONE)
        let_pass(seconds=-5 * EVERY_S)
        assert claim("b") is not None


@pytest.mark.django_db
class TestLeases:
    def test_a_lease_that_has_run_out_is_taken_over_in_the_same_slot(self) -> None:
        claim("killed")
        let_pass(seconds=HOLD_S + 0.001)
        assert claim("next") is not None
        assert TaskRun.objects.get(owner="killed").outcome == Outcome.INTERRUPTED
        assert TaskState.objects.get(name="t").last_outcome == Outcome.INTERRUPTED

    def test_a_lease_holds_until_its_end(self) -> None:
        claim("slow")
        let_pass(seconds=HOLD_S - 5)
        assert claim("next") is None

    def test_a_lease_further_ahead_than_it_can_be_is_a_clock_set_back(self) -> None:
        claim("before")
        let_pass(seconds=-7200)
        assert claim("after") is not None

    def test_a_run_that_was_overtaken_changes_nothing_when_it_ends(self) -> None:
        slow = claim("slow")
        assert slow is not None
        let_pass(seconds=HOLD_S + 0.001)
        fast = claim("fast")
        assert fast is not None
        assert not claims.finish(slow, Ended(outcome=Outcome.FAILED, error="late"))
        row = TaskState.objects.get(name="t")
        assert (row.owner, row.failures_in_a_row) == ("fast", 0)
        assert claims.finish(fast, DONE)

    @pytest.mark.django_db(transaction=True)
    def test_of_many_workers_at_once_one_gets_it(self) -> None:
        ready = Barrier(6)

        def compete(number: int) -> Claim | None:
            try:
                ready.wait()
                return claim(f"worker {number}")
            finally:
                connection.close()

        with ThreadPoolExecutor(6) as workers:
            won = [found for found in workers.map(compete, range(6)) if found is not None]
        assert len(won) == 1
        assert TaskRun.objects.count() == 1


@pytest.mark.django_db
class TestFailures:
    def test_a_failure_is_repeated_before_the_slot_is_over_with_growing_pauses(self) -> None:
        pauses_s = []
        for owner in ("a", "b", "c"):
            claimed = claim(owner)
            assert claimed is not None
            claims.finish(claimed, Ended(outcome=Outcome.FAILED, error="no"))
            row = TaskState.objects.get(name="t")
            pauses_s.append((row.due_at - row.last_ended_at).total_seconds())
            let_pass(seconds=pauses_s[-1] + 0.001)
        # A slot's end may come sooner than the pause's, and then it is the end of the slot.
        assert all(pause <= limit for pause, limit in zip(pauses_s, (30, 60, 120), strict=True))
        assert row.failures_in_a_row == 3

    def test_a_good_run_ends_the_count_of_failures(self) -> None:
        first = claim("a")
        assert first is not None
        claims.finish(first, Ended(outcome=Outcome.FAILED, error="x" * 10_000))
        assert len(TaskState.objects.get(name="t").last_error) == claims.ERROR_CHARACTERS_MAX
        let_pass(seconds=EVERY_S)
        second = claim("b")
        assert second is not None
        claims.finish(second, DONE)
        row = TaskState.objects.get(name="t")
        assert (row.failures_in_a_row, row.last_error, row.last_done) == (0, "", 3)
