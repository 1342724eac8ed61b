"""Rows of runs as tests of running need them, and time that passes for their leases."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F

from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.services import asking

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def asked(hours: float = 0, **changed: Any) -> PipelineRun:
    """Ask for an hour of `loss` that begins so many hours after the start."""
    wish: dict[str, Any] = {
        "job": "loss",
        "window_start": START + hours * HOUR,
        "window_end": START + (hours + 1) * HOUR,
        "trigger": Trigger.PERSON,
        "by": "anna",
    }
    return asking.ask(**{**wish, **changed})


def ended(run: PipelineRun, state: RunState | str, *, at: datetime | None = None) -> None:
    """Write down that a run has ended."""
    PipelineRun.objects.filter(pk=run.pk).update(
        state=state, ended_at=at or START, lease_ends_at=None
    )


def let_pass(*, seconds: float) -> None:
    """Move leases into the past; the clock of leases is the database's, which no test can set."""
    PipelineRun.objects.update(lease_ends_at=F("lease_ends_at") - timedelta(seconds=seconds))
