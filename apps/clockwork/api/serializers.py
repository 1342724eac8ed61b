"""Shapes of the clockwork on the wire. What has not happened is null."""

from typing import Any

from rest_framework import serializers

from apps.clockwork.models import Outcome, Part
from apps.clockwork.selectors import Clockwork, PartView, RunView, TaskView
from apps.core.pagination import rfc3339, rfc3339_or_none


class TaskDocument(serializers.Serializer[Any]):
    """One task of the schedule; what is said of the last run is of the one that ended last."""

    name = serializers.CharField()
    every_s = serializers.IntegerField(help_text="Once in each slot of so many seconds.")
    is_running = serializers.BooleanField()
    is_overdue = serializers.BooleanField(
        help_text="The lease of a run has ended, and nobody has taken the task over."
    )
    last_started_at = serializers.DateTimeField(allow_null=True)
    last_duration_ms = serializers.IntegerField(allow_null=True)
    last_outcome = serializers.ChoiceField(choices=Outcome.choices, allow_null=True)
    last_error = serializers.CharField(allow_null=True)
    last_done = serializers.IntegerField(allow_null=True, help_text="What the task counts.")
    due_at = serializers.DateTimeField()
    is_late = serializers.BooleanField()
    failures_in_a_row = serializers.IntegerField()
    run_count = serializers.IntegerField()


class PartDocument(serializers.Serializer[Any]):
    """One process of the clockwork."""

    kind = serializers.ChoiceField(choices=Part.Kind.choices)
    name = serializers.CharField()
    started_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    is_silent = serializers.BooleanField()


class RunDocument(serializers.Serializer[Any]):
    """One run of a task."""

    task = serializers.CharField()
    owner = serializers.CharField()
    started_at = serializers.DateTimeField()
    duration_ms = serializers.IntegerField(allow_null=True)
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    is_overdue = serializers.BooleanField()
    done = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_null=True)


class ClockworkDocument(serializers.Serializer[Any]):
    """The whole clockwork, by the database's clock."""

    stands_still = serializers.BooleanField(help_text="No step of any task began for a while.")
    reason = serializers.CharField(allow_null=True, help_text="Why it stands still.")
    missing = serializers.ListField(
        child=serializers.ChoiceField(choices=Part.Kind.choices),
        help_text="Kinds of processes of which none is there.",
    )
    last_step_at = serializers.DateTimeField(allow_null=True)
    tasks = TaskDocument(many=True)
    parts = PartDocument(many=True)
    runs = RunDocument(
        many=True,
        help_text="The newest runs, the newest first; of tasks that run every second, only those "
        "that had something to do.",
    )
    sampled_at = serializers.DateTimeField()


def rendered(found: Clockwork) -> dict[str, object]:
    """Build the JSON shape of the clockwork."""
    return {
        "stands_still": found.stands_still,
        "reason": found.reason or None,
        "missing": list(found.missing),
        "last_step_at": rfc3339_or_none(found.last_step_at),
        "tasks": [_task(task) for task in found.tasks],
        "parts": [_part(part) for part in found.parts],
        "runs": [_run(run) for run in found.runs],
        "sampled_at": rfc3339(found.now),
    }


def _task(task: TaskView) -> dict[str, object]:
    return {
        "name": task.name,
        "every_s": task.every_s,
        "is_running": task.is_running,
        "is_overdue": task.is_overdue,
        "last_started_at": rfc3339_or_none(task.last_started_at),
        "last_duration_ms": task.last_duration_ms,
        "last_outcome": task.last_outcome or None,
        "last_error": task.last_error or None,
        "last_done": task.last_done,
        "due_at": rfc3339(task.due_at),
        "is_late": task.is_late,
        "failures_in_a_row": task.failures_in_a_row,
        "run_count": task.run_count,
    }


def _part(part: PartView) -> dict[str, object]:
    return {
        "kind": part.kind,
        "name": part.name,
        "started_at": rfc3339(part.started_at),
        "seen_at": rfc3339(part.seen_at),
        "is_silent": part.is_silent,
    }


def _run(run: RunView) -> dict[str, object]:
    return {
        "task": run.task,
        "owner": run.owner,
        "started_at": rfc3339(run.started_at),
        "duration_ms": run.duration_ms,
        "outcome": run.outcome,
        "is_overdue": run.is_overdue,
        "done": run.done,
        "error": run.error or None,
    }
