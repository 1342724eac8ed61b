"""REST views of transactions: translate, call one service or selector, translate back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import topic
from apps.core.actors import actor_of
from apps.core.pagination import cursor_at, listing, number_after, page_request
from apps.core.queries import asked_name
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.core.serializers import StrictSerializer
from apps.transactions import permitted, selectors, services
from apps.transactions.api.serializers import (
    TransactionDocument,
    TransactionList,
    TransactionStatusDocument,
    rendered_status,
    rendered_transaction,
)

# As many messages as no log will ever hold.
_HALF_OFFSET_MAX = 10**18 - 1


class TransactionListView(APIView):
    """Undecided transactions."""

    @extend_schema(
        operation_id="list_transactions",
        parameters=[
            OpenApiParameter("producer_group", str, description="only this producer group"),
            *page_parameters("transactions"),
        ],
        responses={200: TransactionList, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def get(self, request: Request) -> Response:
        """List the transactions nobody has decided yet, oldest first.

        As far as the caller may see their topics; a page may be shorter than `limit`, and go on.
        """
        wanted = page_request(request.query_params)
        after = number_after(wanted, highest=_HALF_OFFSET_MAX)

        sight = sight_of(request._request)
        found, behind = selectors.shown_pending(
            sight,
            producer_group=asked_name(request.query_params, "producer_group"),
            after=-1 if after is None else after,
            transactions_max=wanted.items_max,
        )

        rows = [rendered_transaction(one, peeks=sight.peeks(topic(one.topic))) for one in found]
        return Response(listing(rows, None if behind is None else cursor_at(str(behind))))


class TransactionStatusView(APIView):
    """Counters of transactions."""

    @extend_schema(
        operation_id="get_transaction_status",
        responses={200: TransactionStatusDocument, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def get(self, _request: Request) -> Response:
        """Return what is pending, and how transactions ended since the broker started."""
        return Response(rendered_status(selectors.status()))


class TransactionCheckView(APIView):
    """A check before its time."""

    @extend_schema(
        operation_id="check_transaction_now",
        parameters=[OpenApiParameter("transaction_id", str, OpenApiParameter.PATH)],
        request=None,
        responses={200: TransactionDocument, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def post(self, request: Request, transaction_id: str) -> Response:
        """Have the producers of a transaction asked at once; it is written down who asked."""
        StrictSerializer(data=request.data or {}).is_valid(raise_exception=True)

        permitted.check_by_id(request._request, transaction_id)

        found = services.check_now(transaction_id=transaction_id, by=actor_of(request._request))

        peeks = sight_of(request._request).peeks(topic(found.topic))
        return Response(rendered_transaction(found, peeks=peeks))
