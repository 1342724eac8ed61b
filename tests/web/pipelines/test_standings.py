"""How jobs stand by their runs: each by its own newest ones."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun
from apps.pipelines.selectors.runs import TREND_DAYS, TREND_RUNS, Standing, standings
from tests.web.pipelines.rows import NOW, run

pytestmark = pytest.mark.django_db

FIRST, SECOND, *_ = JOBS


def standing_of(job: str) -> Standing:
    """Return how a job stands among all."""
    (found,) = (one for one in standings(NOW) if one.job.name == job)
    return found


def test_a_job_stands_by_its_newest_run_and_by_the_one_that_was_done_last() -> None:
    done = run(FIRST, hours_ago=3)
    run(SECOND, hours_ago=2)
    failed = run(FIRST, hours_ago=1, state="failed")

    first, second = standing_of(FIRST), standing_of(SECOND)

    assert (first.last, first.last_done) == (failed, done)
    assert second.last == second.last_done != done


def test_a_job_without_runs_has_none() -> None:
    run(FIRST)

    second = standing_of(SECOND)

    assert (second.last, second.last_done, second.durations_ms) == (None, None, [])


def test_a_trend_is_of_the_last_runs_that_were_done_of_late_the_oldest_first() -> None:
    long_ago = NOW - timedelta(days=TREND_DAYS, seconds=1)
    run(FIRST, duration_ms=7, requested_at=long_ago)
    for number in range(TREND_RUNS + 1):
        run(FIRST, duration_ms=100 + number)
        run(SECOND, duration_ms=1)
    run(FIRST, state="failed", duration_ms=8)

    assert standing_of(FIRST).durations_ms == [101 + number for number in range(TREND_RUNS)]


def test_standings_leave_lineage_in_the_database_and_cost_the_same_for_many_runs() -> None:
    counts = []
    for _ in range(2):
        for job in JOBS:
            run(job, lineage={"sources": ["orders"]})
        with CaptureQueriesContext(connection) as asked:
            found = standings(NOW)
        counts.append(len(asked))
        assert all("lineage" in one.last.get_deferred_fields() for one in found if one.last)

    assert counts[0] == counts[1] <= 4
    assert PipelineRun.objects.count() == 2 * len(JOBS)
