"""REST views of what groups have done and have left to do."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import group as resource
from apps.core.pagination import listing
from apps.core.schema import PROBLEM_RESPONSES
from apps.engine.clock import SystemClock
from apps.groups import selectors
from apps.groups.api.serializers.backlog import (
    BlockedList,
    LagList,
    OffsetList,
    rendered_backlog,
    rendered_blocked,
    rendered_offset,
)
from apps.groups.blocked import hushed


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
        """Return what is left to do by queue, and in all; an unknown group has no queue."""
        return Response(rendered_backlog(selectors.backlog(group, clock=SystemClock())))


class GroupBlockedView(APIView):
    """Queues of one group that do not get on."""

    @extend_schema(
        operation_id="get_group_blocked",
        responses={200: BlockedList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """Return queues whose first message fails again and again, or whose owner stands still."""
        found = selectors.blocked(group, clock=SystemClock())

        peeks = sight_of(request._request).peeks(resource(group))
        shown = found if peeks else [hushed(queue) for queue in found]
        return Response(listing([rendered_blocked(queue) for queue in shown], None))
