"""REST views of dead letters."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import group as resource
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.queries import asked_number
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.deadletters import exporting, selectors, services
from apps.deadletters.api.serializers.jobs import (
    DiscardDocument,
    DiscardRequest,
    JobDocument,
    ResendRequest,
    rendered_job,
)
from apps.deadletters.api.serializers.letters import (
    LetterList,
    WholeLetterDocument,
    rendered_body,
    rendered_letter,
)
from apps.deadletters.asked import asked_filter, check_contents, number_of
from apps.deadletters.models import State
from apps.deadletters.targets import check_target

_FILTER = [
    OpenApiParameter("state", str, enum=State.values),
    OpenApiParameter("origin_topic", str, description="the topic it came from"),
    OpenApiParameter("key", str, description="one of its keys, whole"),
    OpenApiParameter("message_id", str, description="the id it was first sent with"),
    OpenApiParameter("from", str, description="first moment of dying meant; RFC 3339 or ms"),
    OpenApiParameter("to", str, description="first moment not meant any more"),
    OpenApiParameter("reason", str, description="a part of the last failure's reason"),
]


class LetterListView(APIView):
    """The dead letters of a group."""

    @extend_schema(
        operation_id="list_dead_letters",
        parameters=[
            *_FILTER,
            *page_parameters("letters"),
        ],
        responses={200: LetterList, **PROBLEM_RESPONSES},
        tags=["dead letters"],
    )
    def get(self, request: Request, group: str) -> Response:
        """List a group's dead letters, the newest first, without their bodies.

        Who may not peek is shown no keys and no reasons, and may not search by them.
        """
        wanted = page_request(request.query_params)
        peeks = sight_of(request._request).peeks(resource(group))
        check_contents(request.query_params, peeks=peeks)
        before = number_after(wanted)

        found = asked_filter(request.query_params).letters(group)

        behind = found if before is None else found.filter(pk__lt=before)
        rows, next_cursor = page_of(
            list(behind[: wanted.items_max + 1]), wanted, key=lambda row: str(row.pk)
        )
        return Response(listing([rendered_letter(row, peeks=peeks) for row in rows], next_cursor))


class LetterView(APIView):
    """One dead letter."""

    @extend_schema(
        operation_id="get_dead_letter",
        responses={200: WholeLetterDocument, **PROBLEM_RESPONSES},
        tags=["dead letters"],
    )
    def get(self, _request: Request, group: str, letter: str) -> Response:
        """Return one dead letter with body and properties; these are read from the log."""
        found = selectors.letter(group, number_of(letter))

        body = selectors.body_of(found)

        return Response({**rendered_letter(found), **rendered_body(body)})


class ResendView(APIView):
    """Dead letters sent again, as a job."""

    @extend_schema(
        operation_id="resend_dead_letters",
        request=ResendRequest,
        responses={202: JobDocument, **PROBLEM_RESPONSES},
        tags=["dead letters"],
    )
    def post(self, request: Request, group: str) -> Response:
        """Make a job of the letters that wait; `Location` tells where it is.

        A letter is taken by one job only: 409 `conflict` where none of them waits.
        """
        wanted = ResendRequest(data=request.data)
        wanted.is_valid(raise_exception=True)

        wish = wanted.wish()
        check_target(request._request, group, wish.target)

        job = services.request_resend(
            group=group,
            letters=wanted.letters(group),
            criteria=wanted.criteria(),
            wish=wish,
            by=actor_of(request),
        )

        return Response(
            rendered_job(job, peeks=sight_of(request._request).peeks(resource(group))),
            status=status.HTTP_202_ACCEPTED,
            headers={"Location": f"/api/v1/jobs/{job.pk}"},
        )


class DiscardView(APIView):
    """Dead letters nobody wants any more."""

    @extend_schema(
        operation_id="discard_dead_letters",
        request=DiscardRequest,
        responses={200: DiscardDocument, **PROBLEM_RESPONSES},
        tags=["dead letters"],
    )
    def post(self, request: Request, group: str) -> Response:
        """Mark letters that wait as discarded, and count them; others are left alone."""
        wanted = DiscardRequest(data=request.data)
        wanted.is_valid(raise_exception=True)

        discarded = services.discard(
            letters=wanted.letters(group),
            reason=wanted.validated_data["reason"],
            by=actor_of(request),
            criteria=wanted.criteria(),
        )

        return Response({"discarded": discarded})


class ExportView(APIView):
    """Dead letters as a file."""

    @extend_schema(
        operation_id="export_dead_letters",
        parameters=[
            OpenApiParameter("format", str, required=True, enum=list(exporting.FORMATS)),
            OpenApiParameter("limit", int, description="at most so many letters; all without"),
            *_FILTER,
        ],
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.STR,
            (200, "text/csv"): OpenApiTypes.STR,
            **PROBLEM_RESPONSES,
        },
        tags=["dead letters"],
    )
    def get(self, request: Request, group: str) -> StreamingHttpResponse:
        """Stream letters with their bodies, the oldest first: JSON lines, or a CSV table.

        A cell of the table that a spreadsheet would take for a formula begins with an apostrophe.
        """
        query = request.query_params
        kind = exporting.FORMATS.get(query.get("format", ""))
        if kind is None:
            raise ProblemError(
                "invalid_argument", "format must be one of " + ", ".join(exporting.FORMATS)
            )
        rows_max = asked_number(query, "limit", lowest=1, highest=exporting.ROWS_MAX)
        letters = asked_filter(query).letters(group)

        return exporting.answer(kind, letters, group=group, rows_max=rows_max)
