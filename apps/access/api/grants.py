"""REST views of grants."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import accounts, selectors
from apps.access.api.serializers import (
    GrantCreate,
    GrantDocument,
    GrantList,
    checked_query,
    number_of,
    rendered_grant,
    words,
)
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters


class GrantListView(APIView):
    """All grants."""

    @extend_schema(
        operation_id="list_grants",
        parameters=[
            OpenApiParameter("account", str, description="only this account's"),
            *page_parameters("grants"),
        ],
        responses={200: GrantList, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, request: Request) -> Response:
        """List grants in the order they were made."""
        wanted = page_request(request.query_params)

        found = selectors.grants(
            name=checked_query(request.query_params.get("account")),
            after=number_after(wanted) or 0,
            grants_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_grant(row) for row in rows], next_cursor))

    @extend_schema(
        operation_id="create_grant",
        request=GrantCreate,
        responses={201: GrantDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def post(self, request: Request) -> Response:
        """Allow or deny an account something; it holds at every door within a second."""
        wanted = GrantCreate(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = words(wanted.validated_data)

        row = accounts.add_grant(
            name=wanted.validated_data["account"],
            resource=values.pop("name"),
            effect=wanted.validated_data.get("effect", "allow"),
            by=actor_of(request._request),
            **values,
        )

        return Response(rendered_grant(row), status=status.HTTP_201_CREATED)


class GrantView(APIView):
    """One grant."""

    @extend_schema(
        operation_id="get_grant",
        responses={200: GrantDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, _request: Request, grant: str) -> Response:
        """Return a grant."""
        return Response(rendered_grant(selectors.grant(number_of(grant, "grant"))))

    @extend_schema(
        operation_id="delete_grant", responses={204: None, **PROBLEM_RESPONSES}, tags=["access"]
    )
    def delete(self, request: Request, grant: str) -> HttpResponse:
        """Take a grant back."""
        accounts.remove_grant(number=number_of(grant, "grant"), by=actor_of(request._request))

        return Response(status=status.HTTP_204_NO_CONTENT)
