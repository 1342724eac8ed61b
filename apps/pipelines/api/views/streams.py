"""REST views of streams."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.pipelines.api.serializers.results import (
    BatchList,
    StreamDocument,
    StreamList,
    rendered_batch,
    rendered_stream,
)
from apps.pipelines.selectors import runs


class StreamListView(APIView):
    """All streams."""

    @extend_schema(
        operation_id="list_pipeline_streams",
        responses={200: StreamList, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request) -> Response:
        """List the streams with their lag."""
        found = runs.streams()
        paces = runs.stream_paces(found, timezone.now())
        return Response(listing([rendered_stream(one, paces[one.pk]) for one in found], None))


class StreamView(APIView):
    """One stream."""

    @extend_schema(
        operation_id="get_pipeline_stream",
        responses={200: StreamDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request, stream: str) -> Response:
        """Return a stream and how far it is."""
        found = runs.stream(stream)
        return Response(rendered_stream(found, runs.stream_pace(found, timezone.now())))


class BatchListView(APIView):
    """Batches of a stream."""

    @extend_schema(
        operation_id="list_pipeline_batches",
        parameters=[*page_parameters("batches")],
        responses={200: BatchList, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, request: Request, stream: str) -> Response:
        """List batches, the newest first."""
        wanted = page_request(request.query_params)

        found = runs.batches(
            runs.stream(stream),
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.number))
        return Response(listing([rendered_batch(row) for row in rows], next_cursor))
