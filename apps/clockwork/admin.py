"""Admin of the clockwork, to look at: tasks write these rows themselves."""

from django.contrib import admin

from apps.clockwork.models import Part, TaskRun, TaskState
from apps.core.admin import ReadOnlyAdmin


@admin.register(TaskState)
class TaskStateAdmin(ReadOnlyAdmin):
    """One row a task."""

    list_display = ["name", "last_started_at", "last_outcome", "last_duration_ms", "due_at"]
    list_filter = ["last_outcome"]
    search_fields = ["name"]


@admin.register(TaskRun)
class TaskRunAdmin(ReadOnlyAdmin):
    """The runs of the last days."""

    list_display = ["task", "started_at", "ended_at", "outcome", "done", "owner"]
    list_filter = ["task", "outcome", "started_at"]
    search_fields = ["owner__startswith"]


@admin.register(Part)
class PartAdmin(ReadOnlyAdmin):
    """Beat and workers that are there, or were."""

    list_display = ["kind", "name", "started_at", "seen_at"]
    list_filter = ["kind"]
    search_fields = ["name"]
