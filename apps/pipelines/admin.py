"""Admin of runs, files, results and streams.

Rows are projections of what jobs did: they are looked at and not edited. What is done to runs goes
through the same service as the API's.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.exceptions import ProblemError
from apps.engine.errors import EngineError
from apps.pipelines.models import (
    RESULTS,
    ArchivedSegment,
    IngestPosition,
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    StreamBatch,
)
from apps.pipelines.models.results.result import Result
from apps.pipelines.services import asking, presence

_MAY_RUN = "pipelines.run_pipeline"


@admin.register(PipelineRun)
class PipelineRunAdmin(ReadOnlyAdmin):
    """Runs, the newest first; some can be called off, or asked for anew."""

    list_display = [
        "id", "job", "state", "window_start", "window_end", "stage", "percent", "rows_read",
        "rows_written", "duration_ms", "published", "trigger", "requested_by", "requested_at",
        "error",
    ]  # fmt: skip
    list_filter = ["job", "state", "trigger", "requested_at"]
    search_fields = ["key__exact", "requested_by__exact"]
    search_help_text = "A key or the name of who asked, whole."
    date_hierarchy = "requested_at"
    actions = ["cancel", "rerun"]

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who were given the right, although nobody may edit the rows."""
        return request.user.has_perm(_MAY_RUN)

    @admin.action(description="Cancel: nothing of it is published", permissions=["run"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Call runs off."""
        for run in queryset.order_by("pk"):
            try:
                asking.cancel(run.pk, by=actor_of(request))
            except ProblemError as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                self.message_user(request, f"run {run.pk} is called off", messages.SUCCESS)

    @admin.action(description="Run again, in place of what is published", permissions=["run"])
    def rerun(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Ask for the same runs anew."""
        for run in queryset.order_by("pk"):
            try:
                again = asking.again(run, by=actor_of(request))
            except (EngineError, ProblemError) as refusal:
                self.message_user(request, f"run {run.pk}: {refusal}", messages.ERROR)
            else:
                self.message_user(request, f"run {again.pk} is {again.state}", messages.SUCCESS)


@admin.register(RunInput)
class RunInputAdmin(ReadOnlyAdmin):
    """What went into runs."""

    list_display = ["run_id", "table", "topic", "queue", "first_offset", "end_offset", "rows"]
    list_filter = ["table"]
    search_fields = ["topic__exact", "run__id__exact"]


@admin.register(LakeFile)
class LakeFileAdmin(ReadOnlyAdmin):
    """Files of the lake, also those that were replaced."""

    list_display = [
        "id", "table", "topic", "day", "path", "rows", "size_bytes", "schema_version", "run_id",
        "added_at", "retired_at", "deleted_at",
    ]  # fmt: skip
    list_filter = ["table", ("retired_at", admin.EmptyFieldListFilter), "day"]
    search_fields = ["topic__exact", "path__exact", "run__id__exact"]


@admin.register(IngestPosition)
class IngestPositionAdmin(ReadOnlyAdmin):
    """How far the log has been copied."""

    list_display = ["table", "topic", "queue", "next_offset", "moved_at", "run_id", "store_id"]
    list_filter = ["table"]
    search_fields = ["topic__exact"]


@admin.register(ArchivedSegment)
class ArchivedSegmentAdmin(ReadOnlyAdmin):
    """Which ranges of the log are in the archive."""

    list_display = [
        "store_id", "first_log_offset", "end_log_offset", "rows", "crc32", "archived_at", "run_id",
    ]  # fmt: skip
    list_filter = ["archived_at"]


@admin.register(PipelineStream)
class PipelineStreamAdmin(ReadOnlyAdmin):
    """Streams and how far they are."""

    list_display = [
        "name", "is_wanted", "worker", "lease_ends_at", "batch", "lag", "updated_at", "error",
    ]  # fmt: skip
    actions = ["want", "unwant"]

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Allow it to those who were given the right, although nobody may edit the rows."""
        return request.user.has_perm(_MAY_RUN)

    @admin.action(description="Keep running, where a worker keeps streams", permissions=["run"])
    def want(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Have streams kept running."""
        for stream in queryset:
            presence.want_stream(stream.name, is_wanted=True, by=actor_of(request))

    @admin.action(description="Have it end, and keep it running no more", permissions=["run"])
    def unwant(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Have streams end."""
        for stream in queryset:
            presence.want_stream(stream.name, is_wanted=False, by=actor_of(request))


@admin.register(StreamBatch)
class StreamBatchAdmin(ReadOnlyAdmin):
    """Batches of streams, the newest first."""

    list_display = ["stream", "number", "rows", "duration_ms", "lag", "ended_at"]
    list_filter = ["stream"]
    list_select_related = ["stream"]


class ResultAdmin(ReadOnlyAdmin):
    """Rows that runs found out, the newest first."""

    ordering = ["-id"]
    search_fields = ["run__id__exact"]

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return all columns; the run is its number, which no query is needed for."""
        names = [field.name for field in self.model._meta.fields if field.name not in ("id", "run")]
        return ["id", "run_id", *names]


def _register(model: type[Result]) -> None:
    names = {field.name for field in model._meta.fields}
    searched = [f"{name}__exact" for name in ("topic", "group") if name in names]
    kind = type(
        f"{model.__name__}Admin",
        (ResultAdmin,),
        {
            "__doc__": model.__doc__,
            "__module__": __name__,
            "list_filter": [],
            "search_fields": [*searched, "run__id__exact"],
        },
    )
    admin.site.register(model, kind)


for _model in RESULTS.values():
    _register(_model)
