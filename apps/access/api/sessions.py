"""REST views of an account's sessions and second factor, for who administers."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import factors, selectors, sessions
from apps.access.models import AccountSession
from apps.core.actors import actor_of
from apps.core.pagination import listing, rfc3339
from apps.core.schema import PROBLEM_RESPONSES
from apps.core.serializers import StrictSerializer


class SessionDocument(serializers.Serializer[Any]):
    """A session that is good."""

    id = serializers.CharField()
    begun_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(help_text="A minute old at most.")
    address = serializers.CharField()
    agent = serializers.CharField(help_text="What the program says it is.")


class SessionList(serializers.Serializer[Any]):
    """The sessions of an account, the last seen first; at most 100."""

    items = SessionDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class EndedDocument(serializers.Serializer[Any]):
    """How many sessions were ended."""

    ended = serializers.IntegerField()


class SessionListView(APIView):
    """Sessions of an account."""

    @extend_schema(
        operation_id="list_sessions",
        responses={200: SessionList, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def get(self, _request: Request, account: str) -> Response:
        """List the sessions of an account, the last seen first."""
        rows = sessions.of_account(selectors.account(account))

        return Response(listing([_rendered(row) for row in rows], None))


class SessionEndView(APIView):
    """The end of all sessions of an account."""

    @extend_schema(
        operation_id="end_sessions",
        request=None,
        responses={200: EndedDocument, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def post(self, request: Request, account: str) -> Response:
        """End all sessions of an account, with their live pages. Tokens stay."""
        StrictSerializer(data=request.data or {}).is_valid(raise_exception=True)
        user = selectors.account(account)

        ended = sessions.end_all(user=user, by=actor_of(request._request))

        return Response({"ended": ended})


class SecondFactorOffView(APIView):
    """The end of an account's second factor."""

    @extend_schema(
        operation_id="turn_second_factor_off",
        request=None,
        responses={204: None, **PROBLEM_RESPONSES},
        tags=["access"],
    )
    def post(self, request: Request, account: str) -> Response:
        """Have somebody who has lost their codes sign in with a password alone.

        409 `conflict` for an account without one, and for the caller's own, which is turned off by
        password and code.
        """
        StrictSerializer(data=request.data or {}).is_valid(raise_exception=True)
        asked = request._request

        factors.turn_off_another(
            user=selectors.account(account), asking_id=asked.user.pk, by=actor_of(asked)
        )

        return Response(status=status.HTTP_204_NO_CONTENT)


def _rendered(row: AccountSession) -> dict[str, object]:
    return {
        "id": str(row.pk),
        "begun_at": rfc3339(row.begun_at),
        "seen_at": rfc3339(row.seen_at),
        "address": row.address,
        "agent": row.agent,
    }
