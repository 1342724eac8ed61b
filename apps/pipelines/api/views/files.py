"""REST views of files: Parquet as it lies in the lake."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.core.exceptions import ProblemError
from apps.core.schema import PROBLEM_RESPONSES
from apps.pipelines import conf, downloads
from apps.pipelines.asked import number_of
from apps.pipelines.selectors import files, runs


class _Parquet(JSONRenderer):
    media_type = downloads.PARQUET
    format = "parquet"


class _Zip(JSONRenderer):
    media_type = downloads.ZIP
    format = "zip"


class FileView(APIView):
    """One file of the lake."""

    # What is refused is still told in JSON.
    renderer_classes = [_Parquet, JSONRenderer]

    @extend_schema(
        operation_id="get_pipeline_file",
        responses={(200, downloads.PARQUET): OpenApiTypes.BINARY, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request, file: str) -> StreamingHttpResponse:
        """Return a Parquet file that a run made, as long as it is in the lake."""
        row = files.file(number_of(file, "file"))

        return downloads.one(files.kept(row, conf.place().lake), number=row.pk)


class RunDownloadView(APIView):
    """All files of a run."""

    renderer_classes = [_Zip, JSONRenderer]

    @extend_schema(
        operation_id="download_pipeline_run",
        responses={(200, downloads.ZIP): OpenApiTypes.BINARY, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request, run: str) -> StreamingHttpResponse:
        """Return the Parquet files of a run in a ZIP archive; 404 where it has none."""
        found = runs.run(number_of(run, "run"))

        kept = list(files.kept_of_run(found, conf.place().lake))

        if not kept:
            raise ProblemError("not_found", f"run {found.pk} has no file in the lake")
        return downloads.archive(kept, name=f"run-{found.pk}.zip")
