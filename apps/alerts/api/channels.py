"""REST views of channels."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.alerts import selectors, services
from apps.alerts.api.asked import ChannelChange, ChannelRequest, number_of
from apps.alerts.api.documents import (
    ChannelDocument,
    ChannelList,
    DeliveryList,
    NotificationDocument,
    rendered_channel,
    rendered_delivery,
    rendered_notification,
)
from apps.core.actors import actor_of
from apps.core.pagination import listing
from apps.core.schema import PROBLEM_RESPONSES
from apps.engine.clock import SystemClock


class ChannelListView(APIView):
    """All channels."""

    @extend_schema(
        operation_id="list_alert_channels",
        responses={200: ChannelList, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, _request: Request) -> Response:
        """List the channels by name; there are 50 at most."""
        return Response(listing([rendered_channel(row) for row in selectors.channels()], None))

    @extend_schema(
        operation_id="create_alert_channel",
        request=ChannelRequest,
        responses={201: ChannelDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request) -> Response:
        """Make a channel. An address that is not allowed is refused here and at each sending."""
        asked = ChannelRequest(data=request.data)
        asked.is_valid(raise_exception=True)

        channel = services.create_channel(
            terms=asked.terms(), by=actor_of(request), now_ms=SystemClock().wall_ms()
        )

        return Response(rendered_channel(channel), status=201)


class ChannelView(APIView):
    """One channel."""

    @extend_schema(
        operation_id="get_alert_channel",
        responses={200: ChannelDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, _request: Request, channel: str) -> Response:
        """Return a channel."""
        return Response(rendered_channel(selectors.channel(number_of(channel, "channel"))))

    @extend_schema(
        operation_id="change_alert_channel",
        request=ChannelChange,
        responses={200: ChannelDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def put(self, request: Request, channel: str) -> Response:
        """Change a channel whole. 409 where somebody has changed it since `version`."""
        asked = ChannelChange(data=request.data)
        asked.is_valid(raise_exception=True)

        changed = services.change_channel(
            channel_id=number_of(channel, "channel"),
            terms=asked.terms(),
            version=asked.validated_data["version"],
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )

        return Response(rendered_channel(changed))

    @extend_schema(
        operation_id="delete_alert_channel",
        responses={204: None, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def delete(self, request: Request, channel: str) -> Response:
        """Delete a channel with what it was told and is to be told."""
        services.delete_channel(channel_id=number_of(channel, "channel"), by=actor_of(request))

        return Response(status=204)


class ChannelTestView(APIView):
    """A trial of a channel."""

    @extend_schema(
        operation_id="test_alert_channel",
        request=None,
        responses={202: NotificationDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request, channel: str) -> Response:
        """Have the channel be told that this is a test; its deliveries say what came of it."""
        told = services.try_channel(
            channel_id=number_of(channel, "channel"),
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )

        return Response(rendered_notification(told), status=202)


class DeliveryListView(APIView):
    """What came of a channel."""

    @extend_schema(
        operation_id="list_alert_deliveries",
        responses={200: DeliveryList, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, _request: Request, channel: str) -> Response:
        """List the last 50 attempts at a channel, the newest first."""
        found = selectors.channel(number_of(channel, "channel"))

        return Response(
            listing([rendered_delivery(row) for row in selectors.deliveries(found)], None)
        )
