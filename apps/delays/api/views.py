"""REST views of delayed messages: read the query, call one selector, translate back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import topic
from apps.core.pagination import ITEMS_DEFAULT, ITEMS_MAX, listing
from apps.core.queries import asked_name, asked_number, asked_time_ms
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.delays import selectors
from apps.delays.api.serializers import (
    DelayedList,
    DelayLevelList,
    DelayStatusDocument,
    rendered_level,
    rendered_message,
    rendered_status,
)
from apps.engine import limits
from apps.engine.clock import SystemClock


class DelayedListView(APIView):
    """Messages that wait for their time."""

    @extend_schema(
        operation_id="list_delayed",
        parameters=[
            OpenApiParameter(
                "level", int, description="this delay level; without it, delays of their own"
            ),
            OpenApiParameter("topic", str, description="only messages for this topic"),
            OpenApiParameter(
                "from", str, description="first due time, RFC 3339 or milliseconds since 1970"
            ),
            OpenApiParameter("to", str, description="due times before this one"),
            *page_parameters("messages"),
        ],
        responses={200: DelayedList, **PROBLEM_RESPONSES},
        tags=["delays"],
    )
    def get(self, request: Request) -> Response:
        """List delayed messages by due time, as far as the caller may see their topics.

        A page may be shorter than `limit`, and go on all the same.
        """
        query = request.query_params
        from_ms, to_ms = asked_time_ms(query, "from"), asked_time_ms(query, "to")
        if from_ms is not None and to_ms is not None and from_ms >= to_ms:
            raise ValidationError({"from": ["must be before `to`"]})

        sight = sight_of(request._request)
        found = selectors.shown_page(
            sight,
            level=asked_number(query, "level", lowest=1, highest=limits.DELAY_LEVELS_MAX),
            topic=asked_name(query, "topic"),
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=query.get("cursor") or None,
            messages_max=asked_number(query, "limit", lowest=1, highest=ITEMS_MAX) or ITEMS_DEFAULT,
        )

        return Response(
            listing(
                [
                    rendered_message(message, peeks=sight.peeks(topic(message.topic)))
                    for message in found.messages
                ],
                found.cursor,
            )
        )


class DelayLevelsView(APIView):
    """The delay levels."""

    @extend_schema(
        operation_id="list_delay_levels",
        responses={200: DelayLevelList, **PROBLEM_RESPONSES},
        tags=["delays"],
    )
    def get(self, _request: Request) -> Response:
        """Return each level with what waits in it, and how late it is."""
        now_ms = SystemClock().wall_ms()
        levels = selectors.delays().levels
        return Response(listing([rendered_level(level, now_ms=now_ms) for level in levels], None))


class DelayStatusView(APIView):
    """Counters of delayed messages."""

    @extend_schema(
        operation_id="get_delay_status",
        responses={200: DelayStatusDocument, **PROBLEM_RESPONSES},
        tags=["delays"],
    )
    def get(self, _request: Request) -> Response:
        """Return what waits, what was done, and the histogram of due times."""
        return Response(rendered_status(selectors.delays()))
