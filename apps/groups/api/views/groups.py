"""REST views of groups and their assignments."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import asking
from apps.access.policy import Action, Kind, Resource
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.groups import decisions, selectors, services
from apps.groups.api.serializers.groups import GroupDocument, GroupList, rendered_group
from apps.groups.api.serializers.history import RebalanceList, rendered_rebalance
from apps.groups.api.serializers.settings import GroupChange


def _peeks(request: Request, group: str) -> bool:
    return asking.sight_of(request._request).peeks(Resource(Kind.GROUP, group))


class GroupListView(APIView):
    """All groups."""

    @extend_schema(
        operation_id="list_groups",
        parameters=[
            *page_parameters("groups"),
        ],
        responses={200: GroupList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request) -> Response:
        """List the groups that were decided about or have read anything, with members, by name."""
        wanted = page_request(request.query_params)

        sight = asking.sight_of(request._request)
        is_shown = asking.shown_to(request._request, Kind.GROUP)
        found = [
            state
            for state in selectors.group_states()
            if state.spec.name > wanted.after and is_shown(state.spec.name)
        ]

        states, next_cursor = page_of(found, wanted, key=lambda state: state.spec.name)
        shown = [
            rendered_group(state, peeks=sight.peeks(Resource(Kind.GROUP, state.spec.name)))
            for state in states
        ]
        return Response(listing(shown, next_cursor))


class GroupView(APIView):
    """One group."""

    @extend_schema(
        operation_id="get_group",
        responses={200: GroupDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """Return what was decided about a group, its progress, members and assignment."""
        peeks = _peeks(request, group)
        return Response(rendered_group(selectors.group_state(group), peeks=peeks))

    @extend_schema(
        operation_id="put_group",
        request=GroupChange,
        responses={200: GroupDocument, 201: GroupDocument, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def put(self, request: Request, group: str) -> Response:
        """Decide about a group; 201 where nobody had. It need not have members yet."""
        decisions.check_name(group)
        if asking.is_on():
            action = Action.UPDATE if selectors.is_decided(group) else Action.CREATE
            asking.require(request._request, action, Resource(Kind.GROUP, group))
        change = GroupChange(data=request.data)
        change.is_valid(raise_exception=True)

        changed = services.put_group(name=group, values=change.values(), by=actor_of(request))

        return Response(
            rendered_group(selectors.put_state(changed.spec), peeks=_peeks(request, group)),
            status=status.HTTP_201_CREATED if changed.is_new else status.HTTP_200_OK,
        )


class GroupRebalancesView(APIView):
    """What happened to the assignment of one group."""

    @extend_schema(
        operation_id="get_group_rebalances",
        parameters=[
            *page_parameters("assignments"),
        ],
        responses={200: RebalanceList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """List a group's assignments of the last 30 days, newest first: when, why, who got what."""
        wanted = page_request(request.query_params)

        found = selectors.rebalances(
            group, before=number_after(wanted), lines_max=wanted.items_max + 1
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_rebalance(row) for row in rows], next_cursor))
