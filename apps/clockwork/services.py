"""Removal of what is old: runs, processes that are gone, sessions that have ended. Rows only."""

from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db.models import Q
from django.db.models.functions import Now

from apps.clockwork.deleting import delete_some
from apps.clockwork.models import Outcome, Part, TaskRun
from apps.clockwork.steps import Step

KEEP_RUNS = timedelta(days=1)
KEEP_FAILED_RUNS = timedelta(days=7)
KEEP_SILENT_PARTS = timedelta(days=1)
ROWS_PER_STEP = 5_000


def vacuum(*, rows_max: int = ROWS_PER_STEP) -> Step:
    """Delete at most `rows_max` rows that nobody asks for any more; say whether more are left.

    Runs are kept for a day, those that did not end well for a week.
    """
    is_good = Q(outcome=Outcome.DONE)
    old_runs = TaskRun.objects.filter(
        Q(started_at__lt=Now() - KEEP_FAILED_RUNS) | Q(is_good, started_at__lt=Now() - KEEP_RUNS)
    )
    silent_parts = Part.objects.filter(seen_at__lt=Now() - KEEP_SILENT_PARTS)
    ended_sessions = Session.objects.filter(expire_date__lt=Now())
    deleted = delete_some(old_runs.order_by("pk"), rows_max=rows_max)
    deleted += delete_some(silent_parts.order_by("pk"), rows_max=rows_max - deleted)
    deleted += delete_some(ended_sessions.order_by("pk"), rows_max=rows_max - deleted)
    return Step(done=deleted, more=deleted >= rows_max)
