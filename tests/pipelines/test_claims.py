"""A run belongs to one worker at a time, and to nobody once its lease has ended."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.pipelines.models import PipelineRun, Trigger
from apps.pipelines.services import asking, claims, copies
from apps.pipelines.services.claims import Progress, Told
from tests.pipelines.runs import HOUR, START, asked, ended, let_pass

pytestmark = pytest.mark.django_db


def test_the_run_that_waits_longest_is_taken_and_those_of_backfills_come_last() -> None:
    asking.backfill(job="loss", start=START - 2 * HOUR, end=START, step=HOUR, by="anna")
    first, second = asked(0), asked(1)

    taken = [claims.claim("w") for _ in range(5)]

    assert [run.pk for run in taken[:2] if run] == [first.pk, second.pk]
    assert [run.trigger for run in taken[2:4] if run] == [Trigger.BACKFILL] * 2
    assert taken[4] is None


def test_a_taken_run_has_a_worker_and_a_lease() -> None:
    asked()

    run = claims.claim("w")

    assert run is not None
    assert (run.state, run.worker) == ("running", "w")
    assert run.started_at is not None
    assert run.lease_ends_at - run.started_at == claims.LEASE


def test_a_run_can_be_taken_by_its_number() -> None:
    first, second = asked(0), asked(1)

    assert claims.claim("w", run_id=second.pk) == second
    assert claims.claim("w", run_id=second.pk) is None
    assert claims.claim("w") == first


def test_of_a_job_that_copies_one_run_goes_at_a_time() -> None:
    first, second, other = asked(0, job="ingest"), asked(1, job="ingest"), asked(2)

    assert [claims.claim("w") for _ in range(3)] == [first, other, None]
    ended(first, "done")
    assert claims.claim("w") == second


def test_a_run_waits_for_the_copy_of_its_window_and_for_no_other() -> None:
    asked()
    run = claims.claim("w")
    assert run is not None
    asked(5, job="ingest")
    copy = copies.ask_for(run)

    assert claims.put_back(run)

    assert (copy.job, copy.window_start, copy.window_end) == ("ingest", START, START + HOUR)
    assert copies.ask_for(run) == copies.under_way(run) == copy
    assert claims.claim("w", run_id=run.pk) is None
    assert copies.last_of(run) is None
    ended(copy, "done")
    again = claims.claim("w", run_id=run.pk)
    assert again == run
    assert copies.last_of(run) == copy


def test_a_copy_for_another_waits_until_its_window_shows_in_the_files() -> None:
    now = timezone.now() - timedelta(seconds=1)
    asked(window_end=now)
    run = claims.claim("w")
    assert run is not None
    copy = copies.ask_for(run)
    assert claims.put_back(run)

    assert claims.claim("w") is None
    PipelineRun.objects.update(
        window_start=START, window_end=now - claims.SETTLE - timedelta(seconds=1)
    )

    assert claims.claim("w") == copy


def test_who_only_wants_to_copy_need_not_wait() -> None:
    asked(job="ingest", window_end=timezone.now() - timedelta(seconds=1))

    assert claims.claim("w") is not None


@pytest.mark.parametrize("what", ["called off", "another's"])
def test_a_run_that_is_not_to_go_on_is_not_put_back(what: str) -> None:
    asked()
    run = claims.claim("w")
    assert run is not None
    if what == "called off":
        asking.cancel(run.pk, by="anna")
    else:
        PipelineRun.objects.update(worker="other")

    assert not claims.put_back(run)
    assert PipelineRun.objects.get().state == "running"


def test_progress_is_written_and_the_lease_renewed() -> None:
    asked()
    run = claims.claim("w")
    let_pass(seconds=20)

    told = claims.renew(run, Progress(stage="reading", percent=12.5, rows_expected=300, cpu_ms=7))

    found = PipelineRun.objects.get()
    assert told == Told(is_ours=True, is_cancelled=False)
    assert (found.stage, found.percent, found.rows_expected, found.cpu_ms) == (
        "reading",
        12.5,
        300,
        7,
    )
    assert found.lease_ends_at >= run.lease_ends_at


def test_a_worker_is_told_that_its_run_is_called_off() -> None:
    run = claims.claim("w") if asked() else None
    asking.cancel(run.pk, by="bert")

    assert claims.look(run) == Told(is_ours=True, is_cancelled=True)
    assert claims.renew(run, Progress()) == Told(is_ours=True, is_cancelled=True)


def test_a_run_whose_lease_has_ended_is_interrupted_and_its_worker_can_do_no_more() -> None:
    asked()
    run = claims.claim("w")
    assert claims.expire() == []

    let_pass(seconds=31)
    (found,) = claims.expire()

    assert (found.pk, found.state, found.error) == (run.pk, "interrupted", claims.LOST)
    assert not claims.renew(run, Progress()).is_ours
    assert not claims.finish(run, "failed", error="too late")
    assert PipelineRun.objects.get().state == "interrupted"


def test_a_run_that_was_called_off_and_lost_its_worker_is_cancelled() -> None:
    run = claims.claim("w") if asked() else None
    asking.cancel(run.pk, by="bert")
    let_pass(seconds=31)

    (found,) = claims.expire()

    assert found.state == "cancelled"


def test_a_lease_that_ends_too_late_is_one_of_a_clock_that_was_set_back() -> None:
    run = claims.claim("w") if asked() else None
    ahead = timedelta(hours=2)
    PipelineRun.objects.update(
        started_at=run.started_at + ahead, lease_ends_at=run.lease_ends_at + ahead
    )

    (found,) = claims.expire()

    assert (found.state, found.ended_at) == ("interrupted", found.started_at)


def test_a_run_that_came_to_nothing_says_why_and_what_it_cost() -> None:
    run = claims.claim("w") if asked() else None

    assert claims.finish(run, "failed", error="no\0 way" + "!" * 5000)
    claims.settle(run, duration_ms=5, cpu_ms=7, memory_bytes_max=9)

    found = PipelineRun.objects.get()
    assert (found.state, found.error[:6], len(found.error)) == ("failed", "no way", 4000)
    assert (found.duration_ms, found.cpu_ms, found.memory_bytes_max) == (5, 7, 9)
    assert not claims.finish(run, "cancelled")


@pytest.mark.django_db(transaction=True)
def test_what_another_is_changing_is_passed_over_and_not_waited_for() -> None:
    locked, free = asked(0), asked(1)
    is_locked, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                PipelineRun.objects.select_for_update().get(pk=locked.pk)
                is_locked.set()
                is_over.wait(60)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_locked.wait(60)
    try:
        assert claims.claim("w") == free
    finally:
        is_over.set()
        holder.join()
    assert claims.claim("w") == locked


@pytest.mark.django_db(transaction=True)
def test_many_workers_take_each_run_once() -> None:
    wanted = {asked(hour).pk for hour in range(12)}
    taken: list[int] = []

    def work(name: str) -> None:
        try:
            while run := claims.claim(name):
                taken.append(run.pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == sorted(wanted)
