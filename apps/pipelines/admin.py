"""Admin of runs, files, results and streams.

Rows are projections of what jobs did: they are looked at and not edited. What is done to runs goes
through the same service as the API's.
"""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin, key_of
from apps.core.adminacts import Call, Chosen, confirmed
from apps.core.admincells import NOTHING, in_words
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

# So much of an error says what it is about.
ERROR_WORDS = 12
_MAY_RUN = "pipelines.run_pipeline"
_RUN = key_of("run", gettext_lazy("run"))
# The API has no address for wanting a stream: it is as much as asking for a run that does not end.
_OF_STREAMS: dict[str, Any] = {
    "call": Call("POST", "api/v1/pipelines/runs"),
    "permission": _MAY_RUN,
}


@admin.register(PipelineRun)
class PipelineRunAdmin(ReadOnlyAdmin):
    """Runs, the newest first; some can be called off, or asked for anew."""

    list_display = [
        "id", "job", "state", "window_start", "window_end", "duration_ms", "rows_written", "why",
    ]  # fmt: skip
    list_filter = ["job", "state", "trigger", "requested_at"]
    search_fields = ["key__exact", "requested_by__exact"]
    search_help_text = gettext_lazy("A key or the name of who asked, whole.")
    date_hierarchy = "requested_at"
    actions = ["cancel", "rerun"]

    @admin.display(description=gettext_lazy("error"), ordering="error")
    def why(self, run: PipelineRun) -> str:
        """Return how the error of a run begins; its page has the whole."""
        return Truncator(run.error).words(ERROR_WORDS) or NOTHING

    @confirmed(
        description=gettext_lazy("Cancel: nothing of it is published"),
        title=gettext_lazy("Cancel runs"),
        said=gettext_lazy("Nothing of a run that is called off is published."),
        button=gettext_lazy("Cancel them"),
        call=Call("POST", "api/v1/pipelines/runs/<str:run>:cancel"),
        permission=_MAY_RUN,
        parts=lambda run: {"run": str(run.pk)},
        names=lambda run: run.topics,
    )
    def cancel(self, request: HttpRequest, run: PipelineRun, _chosen: Chosen) -> str:
        """Call one run off."""
        asking.cancel(run.pk, by=actor_of(request))
        return _("run %(number)d is called off") % {"number": run.pk}

    @confirmed(
        description=gettext_lazy("Run again, in place of what is published"),
        title=gettext_lazy("Run again"),
        said=gettext_lazy("What such a run publishes takes the place of what is there."),
        button=gettext_lazy("Run them"),
        call=Call("POST", "api/v1/pipelines/runs/<str:run>:rerun"),
        permission=_MAY_RUN,
        parts=lambda run: {"run": str(run.pk)},
        names=lambda run: run.topics,
    )
    def rerun(self, request: HttpRequest, run: PipelineRun, _chosen: Chosen) -> str:
        """Ask for one run anew."""
        again = asking.again(run, by=actor_of(request))
        return _("run %(number)d is %(state)s") % {
            "number": again.pk,
            "state": again.get_state_display(),
        }


@admin.register(RunInput)
class RunInputAdmin(ReadOnlyAdmin):
    """What went into runs."""

    list_display = [_RUN, "table", "topic", "queue", "first_offset", "end_offset", "rows"]
    list_filter = ["table"]
    search_fields = ["topic__exact", "run__id__exact"]


@admin.register(LakeFile)
class LakeFileAdmin(ReadOnlyAdmin):
    """Files of the lake, also those that were replaced."""

    list_display = [
        "id", "table", "topic", "day", "rows", "size_bytes", _RUN, "added_at", "retired_at",
    ]  # fmt: skip
    list_filter = ["table", ("retired_at", admin.EmptyFieldListFilter), "day"]
    search_fields = ["topic__exact", "path__exact", "run__id__exact"]


@admin.register(IngestPosition)
class IngestPositionAdmin(ReadOnlyAdmin):
    """How far the log has been copied."""

    list_display = ["table", "topic", "queue", "next_offset", "moved_at", _RUN, "store_id"]
    list_filter = ["table"]
    search_fields = ["topic__exact"]


@admin.register(ArchivedSegment)
class ArchivedSegmentAdmin(ReadOnlyAdmin):
    """Which ranges of the log are in the archive."""

    list_display = [
        "store_id", "first_log_offset", "end_log_offset", "rows", "crc32", "archived_at", _RUN,
    ]  # fmt: skip
    list_filter = ["archived_at"]


@admin.register(PipelineStream)
class PipelineStreamAdmin(ReadOnlyAdmin):
    """Streams and how far they are."""

    list_display = [
        "name", "is_wanted", "worker", "lease_ends_at", "batch", "lag", "updated_at", "error",
    ]  # fmt: skip
    actions = ["want", "unwant"]

    @confirmed(
        description=gettext_lazy("Keep running, where a worker keeps streams"),
        title=gettext_lazy("Keep streams running"),
        said=gettext_lazy("A worker that keeps streams starts each that does not run."),
        button=gettext_lazy("Keep them running"),
        **_OF_STREAMS,
    )
    def want(self, request: HttpRequest, stream: PipelineStream, _chosen: Chosen) -> str:
        """Have one stream kept running."""
        presence.want_stream(stream.name, is_wanted=True, by=actor_of(request))
        return _("%(stream)s is to be kept running") % {"stream": stream.name}

    @confirmed(
        description=gettext_lazy("Have it end, and keep it running no more"),
        title=gettext_lazy("Have streams end"),
        said=gettext_lazy(
            "Each ends after its batch, and is not started again. What it has stored stays, and it "
            "goes on from there when it is wanted again."
        ),
        button=gettext_lazy("Have them end"),
        **_OF_STREAMS,
    )
    def unwant(self, request: HttpRequest, stream: PipelineStream, _chosen: Chosen) -> str:
        """Have one stream end."""
        presence.want_stream(stream.name, is_wanted=False, by=actor_of(request))
        return _("%(stream)s is to end") % {"stream": stream.name}


@admin.register(StreamBatch)
class StreamBatchAdmin(ReadOnlyAdmin):
    """Batches of streams, the newest first."""

    list_display = ["stream", "number", "rows", "duration_ms", "lag", "ended_at"]
    list_filter = ["stream"]
    list_select_related = ["stream"]


# What lists of results leave to the page of a row: all columns would be wider than a window.
_LEFT_TO_THE_ROW = {
    "Disorder": ("other_queue", "other_offset", "client", "other_client", "pattern", "in_all"),
    "LossTotal": ("producers",),
}


class ResultAdmin(ReadOnlyAdmin):
    """Rows that runs found out, the newest first."""

    ordering = ["-id"]
    search_fields = ["run__id__exact"]

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns; the run is its number, which no query is needed for."""
        left_out = {"id", "run", *_LEFT_TO_THE_ROW.get(self.model.__name__, ())}
        names = [field.name for field in self.model._meta.fields if field.name not in left_out]
        return in_words(self.model, ["id", _RUN, *names])


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
