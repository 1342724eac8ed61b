"""Beat asks for the last whole window of each job, once all of it has been copied."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from apps.pipelines.catalogue import COPYING, JOBS
from apps.pipelines.models import PipelineRun, PipelineStream
from apps.pipelines.services import launching
from tests.pipelines.runs import asked, ended

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTLED = launching.SETTLE
MINUTE = timedelta(minutes=1)
HOUR = 60 * MINUTE


def launch(now: datetime) -> set[str]:
    """Launch, and return what waits now that did not before: job and begin of its window."""
    before = waiting()
    launching.launch(now=now, archive=False)
    return waiting() - before


def waiting() -> set[str]:
    rows = PipelineRun.objects.filter(state="queued")
    return {f"{run.job} {run.window_start:%H:%M}" for run in rows}


def ingested(*, began_at: datetime) -> None:
    """Have an ingest done that began at a moment."""
    end = began_at - timedelta(seconds=1)
    run = asked(job="ingest", window_start=end - 5 * MINUTE, window_end=end)
    PipelineRun.objects.filter(pk=run.pk).update(started_at=began_at)
    ended(run, "done", at=began_at)


def named(jobs: Iterable[str], begin: str) -> set[str]:
    return {f"{job} {begin}" for job in jobs}


def test_what_reads_no_bronze_is_asked_for_when_its_window_shows_in_the_log() -> None:
    early = launch(NOON + SETTLED - timedelta(seconds=1))
    ended(PipelineRun.objects.get(job="ingest"), "done")

    found = launch(NOON + SETTLED)

    assert {"ingest 11:50", "rebalances 10:00"} <= early
    assert {"ingest 11:55", "rebalances 11:00"} <= found
    assert launch(NOON + SETTLED + MINUTE) == set()
    assert set(PipelineRun.objects.values_list("trigger", "requested_by")) == {
        ("schedule", "schedule")
    }


def test_what_reads_bronze_waits_for_an_ingest_that_began_after_its_window() -> None:
    ingested(began_at=NOON + SETTLED - timedelta(seconds=1))
    early = launch(NOON + SETTLED)
    ingested(began_at=NOON + SETTLED)

    found = launch(NOON + SETTLED + MINUTE)

    hourly = {
        job.name
        for job in JOBS.values()
        if job.every_s == 3600 and any(table.startswith("bronze.") for table in job.reads)
    }
    assert not any(line.startswith("loss") for line in early)
    assert found == named(hourly, "11:00") | named({"rates", "backlog"}, "11:55")


def test_while_a_stream_copies_messages_an_ingest_goes_on_to_copy_the_rest() -> None:
    now = NOON + MINUTE
    PipelineStream.objects.create(
        name="ingest", worker="w", lease_ends_at=timezone.now() + HOUR, updated_at=now, lag=0
    )

    found = launch(now)

    jobs = {line.split()[0] for line in found}
    assert "ingest" in jobs
    assert not {"loss", "rates"} & jobs, "nobody has copied traces yet"


@pytest.mark.parametrize(
    ("lag", "duration", "is_there"),
    [(0, timedelta(), True), (3, timedelta(), False), (None, timedelta(), False), (0, HOUR, False)],
)
def test_what_reads_bronze_waits_for_the_stream_and_for_the_ingest(
    lag: int | None, duration: timedelta, is_there: bool
) -> None:
    now = NOON + MINUTE
    ingested(began_at=now)
    stream = PipelineStream.objects.create(
        name="ingest", worker="w", lease_ends_at=timezone.now() + HOUR, updated_at=now, lag=lag
    )
    stream.batches.create(
        number=3, rows=1, duration_ms=duration / timedelta(milliseconds=1), ended_at=now
    )

    jobs = {line.split()[0] for line in launch(now + SETTLED)}

    assert ("rates" in jobs) == is_there


def test_a_stream_whose_process_is_gone_holds_nothing_up() -> None:
    now = NOON + MINUTE
    ingested(began_at=now)
    PipelineStream.objects.create(
        name="ingest",
        worker="w",
        lease_ends_at=timezone.now() - MINUTE,
        updated_at=now - HOUR,
        lag=9,
    )

    assert "rates" in {line.split()[0] for line in launch(now + SETTLED)}


def test_windows_that_were_missed_are_made_up_for() -> None:
    ingested(began_at=NOON + SETTLED)
    launch(NOON + SETTLED)
    PipelineRun.objects.filter(state="queued").update(state="done", ended_at=NOON)
    later = NOON + 3 * HOUR + SETTLED
    ingested(began_at=later)

    found = launch(later)

    assert {line for line in found if line.startswith("loss")} == {
        "loss 12:00", "loss 13:00", "loss 14:00"
    }  # fmt: skip
    assert sum(line.startswith("rates") for line in found) == launching.CATCH_UP_MAX


def test_one_waiting_run_of_a_job_that_copies_is_enough() -> None:
    launch(NOON + SETTLED)

    found = launch(NOON + HOUR + SETTLED)

    assert not {line.split()[0] for line in found} & COPYING


@pytest.mark.parametrize("state", ["failed", "interrupted"])
def test_what_came_to_nothing_is_asked_for_again_after_pauses_three_times_in_all(
    state: str,
) -> None:
    def fail(at: datetime) -> None:
        ended(PipelineRun.objects.get(job="rebalances", state="queued"), state, at=at)

    begin = NOON + SETTLED
    launch(begin)
    fail(begin)
    again = [launch(begin + minutes * MINUTE) for minutes in (0.9, 1)]
    fail(begin + MINUTE)
    again += [launch(begin + minutes * MINUTE) for minutes in (2.9, 3)]
    fail(begin + 3 * MINUTE)
    again.append(launch(begin + 40 * MINUTE))

    asked_again = ["rebalances 11:00" in found for found in again]
    assert asked_again == [False, True, False, True, False]


def test_what_a_person_called_off_stays_called_off() -> None:
    launch(NOON + SETTLED)
    ended(PipelineRun.objects.get(job="rebalances"), "cancelled")

    assert launch(NOON + SETTLED + 30 * MINUTE) & {"rebalances 11:00"} == set()


def test_segments_are_archived_only_where_that_is_wanted() -> None:
    launching.launch(now=NOON + SETTLED, archive=True)

    assert "archive 11:00" in waiting()


def test_leases_that_have_ended_are_noticed() -> None:
    run = asked()
    PipelineRun.objects.update(
        state="running", worker="w", lease_ends_at=timezone.now() - HOUR, started_at=NOON
    )

    launching.launch(now=NOON, archive=False)

    run.refresh_from_db()
    assert run.state == "interrupted"
