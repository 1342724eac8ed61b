"""REST views of the locks of queues."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import asking
from apps.access.policy import Kind
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.engine.grouptypes import QueueLockState
from apps.groups import selectors, services
from apps.groups.api.serializers.history import (
    LockList,
    RefusalList,
    ReleaseDocument,
    ReleaseRequest,
    TransitionList,
    rendered_lock,
    rendered_refusal,
    rendered_transition,
)

_PAGE = [
    *page_parameters("lines"),
]
_LOCK = OpenApiParameter(
    "lock", str, OpenApiParameter.PATH, description="`group~topic~queue`, as `GET /locks` names it"
)


class LockListView(APIView):
    """All locks."""

    @extend_schema(
        operation_id="list_locks",
        parameters=[
            OpenApiParameter("group", str, description="only this group"),
            OpenApiParameter("topic", str, description="only this topic"),
            *_PAGE,
        ],
        responses={200: LockList, **PROBLEM_RESPONSES},
        tags=["locks"],
    )
    def get(self, request: Request) -> Response:
        """List the locks in the broker's table, held and expired, by group, topic and queue."""
        wanted = page_request(request.query_params)
        query = request.query_params

        found = selectors.locks(group=query.get("group"), topic=query.get("topic"))

        is_shown = asking.shown_to(request._request, Kind.GROUP)
        behind = [lock for lock in found if _key(lock) > wanted.after and is_shown(lock.group)]
        locks, next_cursor = page_of(behind, wanted, key=_key)
        return Response(listing([rendered_lock(lock) for lock in locks], next_cursor))


class LockTransitionsView(APIView):
    """The history of one lock."""

    @extend_schema(
        operation_id="get_lock_transitions",
        parameters=[_LOCK, *_PAGE],
        responses={200: TransitionList, **PROBLEM_RESPONSES},
        tags=["locks"],
    )
    def get(self, request: Request, lock: str) -> Response:
        """List how a lock went from hand to hand in the last 30 days, newest first."""
        group, place = selectors.lock_place(lock)
        wanted = page_request(request.query_params)

        found = selectors.transitions(
            group,
            place.topic,
            place.queue,
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_transition(row) for row in rows], next_cursor))


class LockRefusalsView(APIView):
    """How often one lock was refused."""

    @extend_schema(
        operation_id="get_lock_refusals",
        parameters=[_LOCK, *_PAGE],
        responses={200: RefusalList, **PROBLEM_RESPONSES},
        tags=["locks"],
    )
    def get(self, request: Request, lock: str) -> Response:
        """List to whom a lock was refused how often in the last 7 days, by minute, newest first."""
        group, place = selectors.lock_place(lock)
        wanted = page_request(request.query_params)

        found = selectors.refusals(
            group,
            place.topic,
            place.queue,
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_refusal(row) for row in rows], next_cursor))


class LockReleaseView(APIView):
    """Forced release of one lock."""

    @extend_schema(
        operation_id="release_lock",
        parameters=[_LOCK],
        request=ReleaseRequest,
        responses={200: ReleaseDocument, **PROBLEM_RESPONSES},
        tags=["locks"],
    )
    def post(self, request: Request, lock: str) -> Response:
        """Take a lock from whoever holds it; 409 `lock_lost` when that is not the one expected."""
        group, place = selectors.lock_place(lock)
        wanted = ReleaseRequest(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data

        released = services.release_lock(
            group=group,
            place=place,
            reason=values["reason"],
            expected_owner=values.get("expected_owner"),
            by=actor_of(request),
        )

        return Response(
            {
                "id": selectors.lock_id(group, place.topic, place.queue),
                "is_released": released is not None,
                "transition": None if released is None else rendered_transition(released),
            }
        )


def _key(lock: QueueLockState) -> str:
    # As locks are sorted: the space is below every character of a name.
    return f"{lock.group} {lock.topic} {lock.queue:05}"
