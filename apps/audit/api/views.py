"""REST views of the audit log: read the query, call one selector, translate back."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.audit import exporting, selectors, services
from apps.audit.api.serializers import AuditEntryList, WholeAuditEntryDocument
from apps.audit.asked import FIELDS, asked_filter, number_of
from apps.audit.documents import rendered_entry
from apps.audit.models import Result
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.origins import Door
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.queries import asked_number
from apps.core.schema import PROBLEM_RESPONSES, page_parameters

_TIME = "RFC 3339 with an offset, or milliseconds since 1970"
_FILTER = [
    OpenApiParameter("by", str, description="a part of the name of who did it"),
    OpenApiParameter("act", str, description="an act, or the object before its dot"),
    OpenApiParameter("kind", str, description="kind of the object"),
    OpenApiParameter("name", str, description="name of the object, whole"),
    OpenApiParameter("result", str, enum=Result.values),
    OpenApiParameter("door", str, enum=[door.value for door in Door]),
    OpenApiParameter("from", str, description=f"at this time or later: {_TIME}"),
    OpenApiParameter("to", str, description=f"before this time: {_TIME}"),
]


class AuditListView(APIView):
    """All entries."""

    @extend_schema(
        operation_id="list_audit",
        parameters=[*_FILTER, *page_parameters("entries")],
        responses={200: AuditEntryList, **PROBLEM_RESPONSES},
        tags=["audit"],
    )
    def get(self, request: Request) -> Response:
        """List who did what, the newest first."""
        wanted = page_request(request.query_params)

        found = selectors.page(
            asked_filter(request.query_params),
            before=number_after(wanted),
            entries_max=wanted.items_max + 1,
        )

        entries, next_cursor = page_of(found, wanted, key=lambda entry: str(entry.number))
        return Response(listing([rendered_entry(entry) for entry in entries], next_cursor))


class AuditView(APIView):
    """One entry."""

    @extend_schema(
        operation_id="get_audit_entry",
        responses={200: WholeAuditEntryDocument, **PROBLEM_RESPONSES},
        tags=["audit"],
    )
    def get(self, _request: Request, number: str) -> Response:
        """Return one entry, and which other one says what came of it."""
        found = selectors.entry(number_of(number))

        outcome = selectors.outcome_of(found)

        return Response(
            {
                **rendered_entry(found),
                "outcome": None if outcome is None else str(outcome.number),
            }
        )


class AuditExportView(APIView):
    """Entries as a file."""

    @extend_schema(
        operation_id="export_audit",
        parameters=[
            OpenApiParameter("format", str, required=True, enum=list(exporting.FORMATS)),
            OpenApiParameter("limit", int, description="at most so many entries; all without"),
            *_FILTER,
        ],
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.STR,
            (200, "text/csv"): OpenApiTypes.STR,
            **PROBLEM_RESPONSES,
        },
        tags=["audit"],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Stream entries, the oldest first: JSON lines, or a CSV table.

        It is written down who asks. A cell of the table that a spreadsheet would take for a
        formula begins with an apostrophe.
        """
        query = request.query_params
        kind = exporting.FORMATS.get(query.get("format", ""))
        if kind is None:
            raise ProblemError(
                "invalid_argument", "format must be one of " + ", ".join(exporting.FORMATS)
            )
        rows_max = asked_number(query, "limit", lowest=1, highest=exporting.ROWS_MAX)
        entries = asked_filter(query).entries()
        chosen = {name: query[name] for name in FIELDS if name in query}

        services.note_export(chosen=chosen, by=actor_of(request))

        return exporting.answer(kind, entries, rows_max=rows_max)
