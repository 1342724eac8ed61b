"""REST views of jobs."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import group
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.queries import asked_name
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.deadletters import selectors, services
from apps.deadletters.api.serializers.jobs import (
    JobDocument,
    JobList,
    WholeJobDocument,
    rendered_job,
    rendered_troubles,
)
from apps.deadletters.asked import number_of
from apps.deadletters.permitted import job_to_cancel


class JobListView(APIView):
    """All jobs."""

    @extend_schema(
        operation_id="list_jobs",
        parameters=[
            OpenApiParameter("group", str, description="only this group's"),
            *page_parameters("jobs"),
        ],
        responses={200: JobList, **PROBLEM_RESPONSES},
        tags=["jobs"],
    )
    def get(self, request: Request) -> Response:
        """List jobs, the newest first."""
        wanted = page_request(request.query_params)

        sight = sight_of(request._request)
        found = selectors.jobs(
            sight=sight,
            group=asked_name(request.query_params, "group"),
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        shown = [rendered_job(row, peeks=sight.peeks(group(row.group))) for row in rows]
        return Response(listing(shown, next_cursor))


class JobView(APIView):
    """One job."""

    @extend_schema(
        operation_id="get_job",
        responses={200: WholeJobDocument, **PROBLEM_RESPONSES},
        tags=["jobs"],
    )
    def get(self, request: Request, job: str) -> Response:
        """Return how far a job is, and the letters it could not send."""
        sight = sight_of(request._request)
        found = selectors.job(number_of(job), sight)

        shown = rendered_job(found, peeks=sight.peeks(group(found.group)))
        return Response({**shown, "errors": rendered_troubles(selectors.troubles(found))})


class JobCancelView(APIView):
    """The end of a job before its time."""

    @extend_schema(
        operation_id="cancel_job",
        request=None,
        responses={200: JobDocument, **PROBLEM_RESPONSES},
        tags=["jobs"],
    )
    def post(self, request: Request, job: str) -> Response:
        """Call a job off; what it has not sent waits again. 409 for one that has ended."""
        wanted = job_to_cancel(request._request, number_of(job))

        found = services.cancel(job_id=wanted.pk, by=actor_of(request))

        peeks = sight_of(request._request).peeks(group(found.group))
        return Response(rendered_job(found, peeks=peeks))
