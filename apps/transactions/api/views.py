"""REST views of transactions: translate, call one service or selector, translate back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.actors import actor_of
from apps.core.pagination import PageRequest, listing, page_of, page_request
from apps.core.queries import asked_name
from apps.core.schema import PROBLEM_RESPONSES
from apps.core.serializers import StrictSerializer
from apps.transactions import selectors, services
from apps.transactions.api.serializers import (
    TransactionDocument,
    TransactionList,
    TransactionStatusDocument,
    rendered_status,
    rendered_transaction,
)


class TransactionListView(APIView):
    """Undecided transactions."""

    @extend_schema(
        operation_id="list_transactions",
        parameters=[
            OpenApiParameter("producer_group", str, description="only this producer group"),
            OpenApiParameter("cursor", str, description="`next_cursor` of the page before"),
            OpenApiParameter("limit", int, description="transactions on a page, 1 to 1000"),
        ],
        responses={200: TransactionList, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def get(self, request: Request) -> Response:
        """List the transactions nobody has decided yet, oldest first."""
        wanted = page_request(request.query_params)

        found = selectors.pending(
            producer_group=asked_name(request.query_params, "producer_group"),
            after=_half_offset_after(wanted),
            transactions_max=wanted.items_max + 1,
        )

        shown, next_cursor = page_of(found, wanted, key=lambda one: str(one.half_offset))
        return Response(listing([rendered_transaction(one) for one in shown], next_cursor))


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

        found = services.check_now(transaction_id=transaction_id, by=actor_of(request._request))

        return Response(rendered_transaction(found))


def _half_offset_after(wanted: PageRequest) -> int:
    """Return the half offset a page comes after; -1 for the first page."""
    if not wanted.after:
        return -1
    if not (wanted.after.isascii() and wanted.after.isdigit() and len(wanted.after) <= 18):
        raise ValidationError({"cursor": ["was not handed out by this server"]})
    return int(wanted.after)
