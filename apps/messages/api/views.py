"""REST views of messages: translate, call one selector, translate back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.exceptions import ProblemError
from apps.core.queries import asked_name
from apps.core.schema import PROBLEM_RESPONSES
from apps.messages import permitted, selectors
from apps.messages.api.serializers import LifeDocument, rendered_life
from apps.messages.api.storeserializers import StoreDocument, rendered_store
from apps.messages.life import Gap


class TraceView(APIView):
    """The life of one message."""

    @extend_schema(
        operation_id="get_message_trace",
        parameters=[
            OpenApiParameter("message_id", str, OpenApiParameter.PATH),
            OpenApiParameter("topic", str, description="only this topic, and what came of it"),
        ],
        responses={200: LifeDocument, **PROBLEM_RESPONSES},
        tags=["messages"],
    )
    def get(self, request: Request, message_id: str) -> Response:
        """Return what is known of a message's life, the earliest first, and what is not known."""
        topic = asked_name(request.query_params, "topic")

        found = permitted.life_for(request._request, message_id, only=topic or "")

        if found is None or (Gap.NOT_FOUND in found.gaps and not found.events):
            raise ProblemError("not_found", "nothing is known of a message with this id")
        return Response(rendered_life(found))


class StoreView(APIView):
    """The store and its broker."""

    @extend_schema(
        operation_id="get_store",
        responses={200: StoreDocument, **PROBLEM_RESPONSES},
        tags=["store"],
    )
    def get(self, _request: Request) -> Response:
        """Return sizes, offsets, marks of the disk, what keeps the log, and damage."""
        return Response(rendered_store(selectors.store()))
