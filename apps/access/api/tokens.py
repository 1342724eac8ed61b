"""REST views of tokens."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import selectors, tokens
from apps.access.api.serializers import (
    IssuedDocument,
    TokenCreate,
    TokenDocument,
    TokenList,
    checked_query,
    number_of,
    rendered_token,
    words,
)
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters


class TokenListView(APIView):
    """All tokens."""

    @extend_schema(
        operation_id="list_tokens",
        parameters=[
            OpenApiParameter("account", str, description="only this account's"),
            *page_parameters("tokens"),
        ],
        responses={200: TokenList, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, request: Request) -> Response:
        """List tokens, the newest first, revoked ones among them; never a secret."""
        wanted = page_request(request.query_params)

        found = selectors.tokens(
            name=checked_query(request.query_params.get("account")),
            before=number_after(wanted),
            tokens_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_token(row) for row in rows], next_cursor))

    @extend_schema(
        operation_id="create_token",
        request=TokenCreate,
        responses={201: IssuedDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def post(self, request: Request) -> Response:
        """Issue a token; this answer is the only one that has its secret."""
        wanted = TokenCreate(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data

        issued = tokens.issue_token(
            name=values["account"],
            label=values["label"],
            scopes=[words(scope) for scope in values.get("scopes", [])],
            expires_at=values.get("expires_at"),
            by=actor_of(request._request),
        )

        return Response(
            {
                **rendered_token(issued.row),
                "secret": issued.secret,
                "access_key": issued.keys.access_key,
                "secret_key": issued.keys.secret_key,
            },
            status=status.HTTP_201_CREATED,
            headers={"Cache-Control": "no-store"},
        )


class TokenView(APIView):
    """One token."""

    @extend_schema(
        operation_id="get_token",
        responses={200: TokenDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, _request: Request, token: str) -> Response:
        """Return a token without its secret."""
        return Response(rendered_token(selectors.token(number_of(token, "token"))))

    @extend_schema(
        operation_id="delete_token", responses={204: None, **PROBLEM_RESPONSES}, tags=["access"]
    )
    def delete(self, request: Request, token: str) -> HttpResponse:
        """Revoke a token for good; streams open with it end within a second."""
        tokens.revoke_token(number=number_of(token, "token"), by=actor_of(request._request))

        return Response(status=status.HTTP_204_NO_CONTENT)
