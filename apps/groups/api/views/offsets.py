"""REST views of resets of offsets: looked at, applied, undone, remembered; and of what-if."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.engine.clock import SystemClock
from apps.engine.limits import GROUP_MEMBERS_MAX
from apps.engine.types import Strategy
from apps.groups import selectors, services
from apps.groups.api.serializers.offsets import (
    ApplyRequest,
    PreviewDocument,
    PreviewRequest,
    ResetDocument,
    ResetList,
    UndoRequest,
    WhatIfDocument,
    rendered_preview,
    rendered_reset,
    rendered_what_if,
)


class PreviewView(APIView):
    """What a reset would do."""

    @extend_schema(
        operation_id="preview_offsets",
        request=PreviewRequest,
        responses={200: PreviewDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def post(self, request: Request, group: str) -> Response:
        """Return where the group is in each queue and where it would go on; changes nothing."""
        wanted = PreviewRequest(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data

        found = selectors.preview(
            group=group,
            target=wanted.wanted(),
            topic=values.get("topic"),
            queues=values.get("queues"),
            moved_max=values.get("moved_max"),
        )

        return Response(rendered_preview(found))


class ApplyView(APIView):
    """A reset."""

    @extend_schema(
        operation_id="apply_offsets",
        request=ApplyRequest,
        responses={200: ResetDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def post(self, request: Request, group: str) -> Response:
        """Have the group go on as previewed; 409 `offsets_moved` where it is elsewhere by now."""
        wanted = ApplyRequest(data=request.data)
        wanted.is_valid(raise_exception=True)

        row = services.apply_offsets(
            group=group, by=actor_of(request), clock=SystemClock(), **wanted.validated_data
        )

        return Response(rendered_reset(row))


class UndoView(APIView):
    """The undoing of a reset."""

    @extend_schema(
        operation_id="undo_offsets",
        request=UndoRequest,
        responses={200: ResetDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def post(self, request: Request, group: str) -> Response:
        """Have the group go on where it was before a reset; 409 where it is elsewhere by now."""
        wanted = UndoRequest(data=request.data)
        wanted.is_valid(raise_exception=True)

        row = services.undo_offsets(
            group=group, by=actor_of(request), clock=SystemClock(), **wanted.validated_data
        )

        return Response(rendered_reset(row))


class ResetListView(APIView):
    """The resets of a group."""

    @extend_schema(
        operation_id="list_offset_resets",
        parameters=[*page_parameters("resets")],
        responses={200: ResetList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """List who had the group go on elsewhere, and why, newest first."""
        wanted = page_request(request.query_params)

        found = selectors.resets(group, before=number_after(wanted), lines_max=wanted.items_max + 1)

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_reset(row) for row in rows], next_cursor))


class WhatIfView(APIView):
    """A sharing out that is not in force."""

    @extend_schema(
        operation_id="get_assignment_what_if",
        parameters=[
            OpenApiParameter(
                "strategy", str, enum=[one.value for one in Strategy], description="else as now"
            ),
            OpenApiParameter(
                "members", int, description=f"how many, 0 to {GROUP_MEMBERS_MAX}; else as now"
            ),
        ],
        responses={200: WhatIfDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """Return who would read what with another strategy or so many members."""
        wanted, members = (request.query_params.get(name) for name in ("strategy", "members"))

        found = selectors.what_if(
            group=group,
            strategy=None if wanted is None else strategy_of(wanted),
            member_count=None if members is None else count_of(members),
        )

        return Response(rendered_what_if(found))


def strategy_of(text: str) -> Strategy:
    """Return a strategy by name; raise ValidationError for anything else."""
    if text not in set(Strategy):
        raise ValidationError({"strategy": ["must be one of " + ", ".join(Strategy)]})
    return Strategy(text)


def count_of(text: str) -> int:
    """Return a number of members; raise ValidationError for anything else."""
    is_count = text.isascii() and text.isdigit() and len(text) <= 6
    if not is_count or int(text) > GROUP_MEMBERS_MAX:
        raise ValidationError({"members": [f"must be from 0 to {GROUP_MEMBERS_MAX}"]})
    return int(text)
