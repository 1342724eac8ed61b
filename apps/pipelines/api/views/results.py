"""REST views of results: the tables there are, and rows of one, as JSON or CSV."""

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import (
    listing,
    number_after,
    page_of,
    page_request,
    rfc3339_or_none,
)
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.pipelines import exporting
from apps.pipelines.api.serializers.results import (
    ResultList,
    TableList,
    rendered_row,
    rendered_table,
)
from apps.pipelines.asked import SPAN_DEFAULT, SPANS, asked_results, job_of_table
from apps.pipelines.selectors.results import model_of
from apps.pipelines.tables import TABLES

_FORMATS = ("json", "csv")


class _Csv(JSONRenderer):
    """What is refused is told in JSON, also to who accepts CSV alone."""

    media_type = exporting.MEDIA_TYPE
    format = "csv"


class TableListView(APIView):
    """All tables of results."""

    @extend_schema(
        operation_id="list_pipeline_tables",
        responses={200: TableList, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, _request: Request) -> Response:
        """List the tables that jobs fill for people, with their columns."""
        tables = [table for table in TABLES.values() if table.model]

        return Response(
            listing([rendered_table(table, job=job_of_table(table.name)) for table in tables], None)
        )


class ResultView(APIView):
    """Rows of one table."""

    renderer_classes = [JSONRenderer, _Csv]

    @extend_schema(
        operation_id="list_pipeline_results",
        parameters=[
            OpenApiParameter(
                "span",
                str,
                enum=list(SPANS),
                description=f"how much of the time before `to`; {SPAN_DEFAULT} when left out",
            ),
            OpenApiParameter(
                "to",
                str,
                description="RFC 3339 with an offset, or milliseconds since 1970; "
                "the end of the newest window when left out",
            ),
            OpenApiParameter("run", int, description="only what this run found out"),
            OpenApiParameter("topic", str, description="only this topic"),
            OpenApiParameter("group", str, description="only this group"),
            OpenApiParameter(
                "format", str, enum=_FORMATS, description="csv, also by Accept, has all rows"
            ),
            *page_parameters("rows"),
        ],
        responses={
            (200, "application/json"): ResultList,
            (200, exporting.MEDIA_TYPE): OpenApiTypes.STR,
            **PROBLEM_RESPONSES,
        },
        tags=["pipelines"],
    )
    def get(self, request: Request, table: str) -> HttpResponseBase:
        """Return rows of published results, the newest first; as CSV all of them, the oldest first.

        Of runs that tell of the same time one counts, so that nothing is there twice.
        """
        query = request.query_params
        model = model_of(table)
        if query.get("format", "json") not in _FORMATS:
            raise ValidationError({"format": [f"must be one of {', '.join(_FORMATS)}"]})
        scope = asked_results(query).scope(job_of_table(table))
        rows = scope.rows(model)
        accepted = request.accepted_renderer.media_type
        if query.get("format", "csv" if accepted == exporting.MEDIA_TYPE else "json") == "csv":
            return exporting.answer(TABLES[table], rows)
        wanted = page_request(query)

        before = number_after(wanted)
        behind = rows if before is None else rows.filter(pk__lt=before)
        found = behind.select_related("run").order_by("-pk")[: wanted.items_max + 1]

        items, next_cursor = page_of(list(found), wanted, key=lambda row: str(row.pk))
        return Response(
            {
                **listing([rendered_row(TABLES[table], row) for row in items], next_cursor),
                "runs": len(scope.runs),
                "window_start": rfc3339_or_none(scope.start),
                "window_end": rfc3339_or_none(scope.end),
            },
            content_type="application/json",
        )
