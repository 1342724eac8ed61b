"""REST views of accounts."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import accounts, policy, selectors
from apps.access.api.serializers import (
    AccountChange,
    AccountCreate,
    AccountDocument,
    AccountList,
    rendered_account,
)
from apps.core.actors import actor_of
from apps.core.pagination import listing, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters


class AccountListView(APIView):
    """All accounts."""

    @extend_schema(
        operation_id="list_accounts",
        parameters=[*page_parameters("accounts")],
        responses={200: AccountList, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, request: Request) -> Response:
        """List accounts by name."""
        wanted = page_request(request.query_params)

        found = selectors.accounts(after=wanted.after, accounts_max=wanted.items_max + 1)

        rows, next_cursor = page_of(found, wanted, key=lambda user: user.get_username())
        return Response(listing([rendered_account(user) for user in rows], next_cursor))

    @extend_schema(
        operation_id="create_account",
        request=AccountCreate,
        responses={201: AccountDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def post(self, request: Request) -> Response:
        """Make an account; 409 `conflict` where there is one of that name."""
        wanted = AccountCreate(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data

        user = accounts.create_account(
            name=values["account"],
            password=values.get("password"),
            role=policy.Role(values.get("role", policy.Role.NONE.value)),
            by=actor_of(request._request),
        )

        return Response(rendered_account(user), status=status.HTTP_201_CREATED)


class AccountView(APIView):
    """One account."""

    @extend_schema(
        operation_id="get_account",
        responses={200: AccountDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, _request: Request, account: str) -> Response:
        """Return an account."""
        return Response(rendered_account(selectors.account(account)))

    @extend_schema(
        operation_id="put_account",
        request=AccountChange,
        responses={200: AccountDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def put(self, request: Request, account: str) -> Response:
        """Change an account; 409 `conflict` where nobody could administer any more."""
        change = AccountChange(data=request.data)
        change.is_valid(raise_exception=True)
        values = change.validated_data

        user = accounts.change_account(
            name=account,
            role=policy.Role(values["role"]) if "role" in values else None,
            is_active=values.get("is_active"),
            password=values.get("password"),
            by=actor_of(request._request),
        )

        return Response(rendered_account(user))

    @extend_schema(
        operation_id="delete_account", responses={204: None, **PROBLEM_RESPONSES}, tags=["access"]
    )
    def delete(self, request: Request, account: str) -> HttpResponse:
        """Remove an account with its grants and tokens."""
        accounts.delete_account(name=account, by=actor_of(request._request))

        return Response(status=status.HTTP_204_NO_CONTENT)
