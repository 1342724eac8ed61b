"""REST views of the care of a blocked queue: one address an act."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from apps.core.actors import actor_of
from apps.core.schema import PROBLEM_RESPONSES
from apps.engine.grouptypes import QueuePlace
from apps.groups import services
from apps.groups.api.serializers.care import (
    CareDocument,
    PassRequest,
    SuspendRequest,
    rendered_care,
)

_QUEUE = OpenApiParameter("queue", int, OpenApiParameter.PATH, description="number of the queue")
# By status, as drf-spectacular takes them.
_ANSWERS: dict[Any, Any] = {200: CareDocument, **PROBLEM_RESPONSES}


def _values(request: Request, kind: type[Serializer[Any]]) -> Mapping[str, Any]:
    """Return what a request says, checked, and who says it."""
    wanted = kind(data=request.data)
    wanted.is_valid(raise_exception=True)
    values: dict[str, Any] = wanted.validated_data
    return {"by": actor_of(request), **values}


class SuspendView(APIView):
    """Suspension of one queue."""

    @extend_schema(
        operation_id="suspend_queue",
        parameters=[_QUEUE],
        request=SuspendRequest,
        responses=_ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, group: str, topic: str, queue: int) -> Response:
        """Have a queue give the group nothing until it is resumed, also over restarts."""
        place = QueuePlace(topic=topic, queue=queue)

        result = services.suspend_queue(
            group=group, place=place, **_values(request, SuspendRequest)
        )

        return Response(rendered_care(result))


class ResumeView(APIView):
    """End of a suspension."""

    @extend_schema(
        operation_id="resume_queue",
        parameters=[_QUEUE],
        request=SuspendRequest,
        responses=_ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, group: str, topic: str, queue: int) -> Response:
        """Let a suspended queue give its messages again."""
        place = QueuePlace(topic=topic, queue=queue)

        result = services.resume_queue(group=group, place=place, **_values(request, SuspendRequest))

        return Response(rendered_care(result))


class SkipView(APIView):
    """Skipping of a head."""

    @extend_schema(
        operation_id="skip_head",
        parameters=[_QUEUE],
        request=PassRequest,
        responses=_ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, group: str, topic: str, queue: int) -> Response:
        """Settle the message at the head of an ordered queue; 409 where it is another by now."""
        place = QueuePlace(topic=topic, queue=queue)

        result = services.skip_head(group=group, place=place, **_values(request, PassRequest))

        return Response(rendered_care(result))


class ParkView(APIView):
    """Parking of a head."""

    @extend_schema(
        operation_id="park_head",
        parameters=[_QUEUE],
        request=PassRequest,
        responses=_ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, group: str, topic: str, queue: int) -> Response:
        """Make a dead letter of the head of an ordered queue; 409 where it is another by now."""
        place = QueuePlace(topic=topic, queue=queue)

        result = services.park_head(group=group, place=place, **_values(request, PassRequest))

        return Response(rendered_care(result))
