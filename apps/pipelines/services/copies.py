"""The copy that a run waits for: asked for once, and found again. Knows rows; reads no files.

A job that reads bronze tells of what was copied. Whoever asks about the last minutes is told all of
them: a copy over the same window goes before.
"""

from django.db.models import QuerySet

from apps.pipelines.models import PipelineRun, Trigger
from apps.pipelines.models.runs import ACTIVE
from apps.pipelines.services import asking, claims


def ask_for(run: PipelineRun) -> PipelineRun:
    """Ask for the copy of a run's window; one that waits or is made already is given back.

    It goes before backfills, whoever needs it. Raises what `ask` raises.
    """
    return asking.ask(
        job=claims.COPY,
        window_start=run.window_start,
        window_end=run.window_end,
        trigger=Trigger.PERSON if run.trigger == Trigger.BACKFILL else run.trigger,
        by=run.requested_by,
        replace=True,
    )


def under_way(run: PipelineRun) -> PipelineRun | None:
    """Return the copy of a run's window that waits or is being made."""
    return _of(run).filter(state__in=ACTIVE).first()


def last_of(run: PipelineRun) -> PipelineRun | None:
    """Return the newest copy of a run's window that has ended since the run was asked for."""
    ended = _of(run).exclude(state__in=ACTIVE)
    return ended.filter(requested_at__gte=run.requested_at).first()


def _of(run: PipelineRun) -> QuerySet[PipelineRun]:
    return PipelineRun.objects.filter(
        job=claims.COPY, window_start=run.window_start, window_end=run.window_end
    ).order_by("-id")
