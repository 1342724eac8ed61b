"""REST view of the lite topics that clients of a group are subscribed to."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import listing, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.groups import selectors
from apps.groups.api.serializers.lites import LiteSubscriptionList, rendered_lite_subscription


class LiteSubscriptionListView(APIView):
    """Clients of one group and their lite topics."""

    @extend_schema(
        operation_id="list_lite_subscriptions",
        parameters=[
            *page_parameters("clients"),
        ],
        responses={200: LiteSubscriptionList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, request: Request, group: str) -> Response:
        """List the clients of a group that are subscribed to lite topics, by client id."""
        wanted = page_request(request.query_params)

        found = [one for one in selectors.lite_subscriptions(group) if one.client_id > wanted.after]

        rows, next_cursor = page_of(found, wanted, key=lambda one: one.client_id)
        return Response(listing([rendered_lite_subscription(row) for row in rows], next_cursor))
