"""REST views of groups: translate, call one selector, translate back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import listing, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES
from apps.groups import selectors
from apps.groups.api.serializers import (
    GroupDocument,
    GroupList,
    LagList,
    OffsetList,
    rendered_group,
    rendered_lag,
    rendered_offset,
)


class GroupListView(APIView):
    """All groups."""

    @extend_schema(
        operation_id="list_groups",
        parameters=[
            OpenApiParameter("cursor", str, description="`next_cursor` of the page before"),
            OpenApiParameter("limit", int, description="groups on a page, 1 to 1000"),
        ],
        responses={200: GroupList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request) -> Response:
        """List the groups that have received or committed anything, with members, by name."""
        wanted = page_request(request.query_params)

        found = [state for state in selectors.group_states() if state.group > wanted.after]

        states, next_cursor = page_of(found, wanted, key=lambda state: state.group)
        return Response(listing([rendered_group(state) for state in states], next_cursor))


class GroupView(APIView):
    """One group."""

    @extend_schema(
        operation_id="get_group",
        responses={200: GroupDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, _request: Request, group: str) -> Response:
        """Return a group's progress over all its queues, and its members."""
        return Response(rendered_group(selectors.group_state(group)))


class GroupOffsetsView(APIView):
    """Offsets of one group."""

    @extend_schema(
        operation_id="get_group_offsets",
        responses={200: OffsetList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, _request: Request, group: str) -> Response:
        """Return committed and delivered offsets by queue; an unknown group has none."""
        progress = selectors.queue_progress(group)

        return Response(listing([rendered_offset(row) for row in progress], None))


class GroupLagView(APIView):
    """Backlog of one group."""

    @extend_schema(
        operation_id="get_group_lag",
        responses={200: LagList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, _request: Request, group: str) -> Response:
        """Return what is left to do by queue; an unknown group has no queue."""
        progress = selectors.queue_progress(group)

        return Response(listing([rendered_lag(row) for row in progress], None))
