"""Readings of a clockwork, built by hand: what the rows could say, without rows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.clockwork.selectors import Clockwork, PartView, RunView, TaskView

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def before(seconds: float) -> datetime:
    """Return a moment so long before the reading."""
    return NOW - timedelta(seconds=seconds)


def task(name: str = "orders.count", **changes: Any) -> TaskView:
    """Return a task that ran well 3 s ago and is due in 2 s, but for the changes."""
    usual = TaskView(
        name=name,
        every_s=5,
        is_running=False,
        is_overdue=False,
        last_started_at=before(3),
        last_duration_ms=42,
        last_outcome="done",
        last_error="",
        last_done=17,
        due_at=before(-2),
        has_more=False,
        is_late=False,
        failures_in_a_row=0,
        run_count=9,
    )
    return replace(usual, **changes)


def part(kind: str, name: str | None = None, *, seen_s: float = 1.0, **changes: Any) -> PartView:
    """Return a process that is there since an hour, but for the changes."""
    usual = PartView(
        kind=kind,
        name=name or f"{kind}@here",
        started_at=before(3_600),
        seen_at=before(seen_s),
        is_silent=False,
    )
    return replace(usual, **changes)


def run(owner: str = "run 1", **changes: Any) -> RunView:
    """Return a run that ended well, but for the changes."""
    usual = RunView(
        task="orders.count",
        owner=owner,
        started_at=before(3),
        duration_ms=42,
        outcome="done",
        is_overdue=False,
        done=17,
        error="",
    )
    return replace(usual, **changes)


def running(*tasks: TaskView, **changes: Any) -> Clockwork:
    """Return a clockwork that runs, but for the changes."""
    usual = Clockwork(
        now=NOW,
        last_step_at=before(3),
        stands_still=False,
        reason="",
        missing=[],
        tasks=tasks or [task()],
        parts=[part("beat"), part("worker")],
        runs=[run()],
    )
    return replace(usual, **changes)


def still(*missing: str, since_s: float | None = 300) -> Clockwork:
    """Return a clockwork in which no step began for a while, or ever."""
    there = {"beat", "worker"} - set(missing)
    return running(
        last_step_at=None if since_s is None else before(since_s),
        stands_still=True,
        reason=f"no {' and no '.join(missing)} is there" if missing else "no step begins",
        missing=missing,
        parts=[part(kind) for kind in sorted(there)],
    )
