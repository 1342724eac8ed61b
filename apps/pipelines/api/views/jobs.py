"""REST views of the catalogue's jobs."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import listing
from apps.core.schema import PROBLEM_RESPONSES
from apps.pipelines.api.serializers.runs import (
    PipelineJobDocument,
    PipelineJobList,
    rendered_standing,
)
from apps.pipelines.selectors import runs
from apps.pipelines.selectors.readiness import readiness


class PipelineJobListView(APIView):
    """All jobs over the history."""

    @extend_schema(
        operation_id="list_pipeline_jobs",
        responses={200: PipelineJobList, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request) -> Response:
        """List the jobs with their last runs and next windows, and whether they can run here."""
        found = runs.standings(timezone.now())
        ready = readiness()

        return Response(
            {
                **listing([rendered_standing(one) for one in found], None),
                "readiness": {"is_ready": ready.is_ready, "missing": list(ready.missing)},
            }
        )


class PipelineJobView(APIView):
    """One job."""

    @extend_schema(
        operation_id="get_pipeline_job",
        responses={200: PipelineJobDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request, job: str) -> Response:
        """Return a job with its last runs and its next window."""
        return Response(rendered_standing(runs.standing(job, timezone.now())))
