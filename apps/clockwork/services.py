"""Removal of what is old: runs, processes that are gone, sessions that have ended. Rows only."""

from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

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
    deleted = _delete_some(old_runs, rows_max)
    deleted += _delete_some(Part.objects.filter(seen_at__lt=Now() - KEEP_SILENT_PARTS), rows_max)
    ended_sessions = Session.objects.filter(expire_date__lt=Now())
    deleted += _delete_some(ended_sessions, max(0, rows_max - deleted))
    return Step(done=deleted, more=deleted >= rows_max)


def _delete_some(rows: QuerySet, rows_max: int) -> int:  # type: ignore[type-arg]  # Any model.
    # In order and locked, so that two of us delete different rows instead of waiting in a circle.
    chosen = rows.order_by("pk").select_for_update(skip_locked=True)[:rows_max]
    with transaction.atomic():
        keys = list(chosen.values_list("pk", flat=True))
        rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)
