"""REST views of series: translate, call one selector, translate back."""

from django.http import HttpRequest
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import asking
from apps.access.policy import CLUSTER, Action, group, topic
from apps.core.exceptions import ProblemError
from apps.core.pagination import listing
from apps.core.schema import PROBLEM_RESPONSES
from apps.engine.clock import SystemClock
from apps.metrics import selectors
from apps.metrics.api.queries import SeriesQuery, series_query
from apps.metrics.api.serializers import (
    SeriesDocument,
    SeriesList,
    rendered_description,
    rendered_series,
)
from apps.metrics.resolutions import POINTS_WANTED, RESOLUTIONS
from apps.metrics.series import SERIES

_TIME = "RFC 3339 with an offset, or milliseconds since 1970"


class SeriesListView(APIView):
    """All series."""

    @extend_schema(
        operation_id="list_series",
        responses={200: SeriesList, **PROBLEM_RESPONSES},
        tags=["series"],
    )
    def get(self, _request: Request) -> Response:
        """List the series there are, with what they count."""
        return Response(listing([rendered_description(series) for series in SERIES.values()], None))


class SeriesView(APIView):
    """One series."""

    @extend_schema(
        operation_id="get_series",
        parameters=[
            OpenApiParameter("topic", str, description="only this topic"),
            OpenApiParameter("group", str, description="only this group"),
            OpenApiParameter(
                "from", str, description=f"{_TIME}; an hour before `to` when left out"
            ),
            OpenApiParameter("to", str, description=f"{_TIME}, not included; now when left out"),
            OpenApiParameter(
                "resolution",
                int,
                enum=[resolution.seconds for resolution in RESOLUTIONS],
                description=f"seconds a point; the finest of {POINTS_WANTED} points when left out",
            ),
        ],
        responses={200: SeriesDocument, **PROBLEM_RESPONSES},
        tags=["series"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the points of a series; slots without a sample are missing.

        Sums over everything are for those who may see the installation.
        """
        series = SERIES.get(name)
        if series is None:
            raise ProblemError("not_found", f"there is no series {name!r}; /api/v1/series has all")
        wanted = series_query(series, request.query_params, now_ms=SystemClock().wall_ms())
        _require(request._request, wanted)

        points = selectors.points(
            series,
            topic=wanted.topic,
            group=wanted.group,
            resolution=wanted.resolution,
            from_ms=wanted.from_ms,
            to_ms=wanted.to_ms,
        )

        return Response(rendered_series(series, wanted, points))


def _require(request: HttpRequest, wanted: SeriesQuery) -> None:
    """Raise PermissionDenied or Http404 unless the caller may see what the points are of."""
    if not asking.is_on():
        return
    if wanted.topic is not None:
        asking.require(request, Action.GET, topic(wanted.topic))
    if wanted.group is not None:
        asking.require(request, Action.GET, group(wanted.group))
    if wanted.topic is None and wanted.group is None:
        asking.require(request, Action.GET, CLUSTER)
