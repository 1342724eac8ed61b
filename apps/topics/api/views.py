"""REST views of topics: translate, call one service or selector, translate back."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import asking
from apps.access.policy import Action, Kind, Resource
from apps.audit.models import REASON_CHARACTERS_MAX
from apps.core.actors import actor_of
from apps.core.pagination import cursor_at, listing, page_of, page_request
from apps.core.queries import asked_text, asked_truth
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.engine.types import Cleanup, TopicType
from apps.topics import lites, selectors, services
from apps.topics.api.serializers import (
    LiteTopicList,
    TopicChange,
    TopicDocument,
    TopicList,
    rendered,
    rendered_lite,
)


class TopicListView(APIView):
    """All topics."""

    @extend_schema(
        operation_id="list_topics",
        parameters=[
            *page_parameters("topics"),
        ],
        responses={200: TopicList, **PROBLEM_RESPONSES},
        tags=["topics"],
    )
    def get(self, request: Request) -> Response:
        """List topics by name, with what each queue holds."""
        wanted = page_request(request.query_params)

        found = selectors.topic_states(
            after=wanted.after,
            topics_max=wanted.items_max + 1,
            is_shown=asking.shown_to(request._request, Kind.TOPIC) if asking.is_on() else None,
        )

        states, next_cursor = page_of(found, wanted, key=lambda state: state.name)
        return Response(listing([rendered(state) for state in states], next_cursor))


class TopicView(APIView):
    """One topic."""

    @extend_schema(
        operation_id="get_topic",
        responses={200: TopicDocument, **PROBLEM_RESPONSES},
        tags=["topics"],
    )
    def get(self, _request: Request, topic: str) -> Response:
        """Return a topic and what each of its queues holds."""
        return Response(rendered(selectors.topic_state(topic)))

    @extend_schema(
        operation_id="put_topic",
        request=TopicChange,
        responses={200: TopicDocument, 201: TopicDocument, **PROBLEM_RESPONSES},
        tags=["topics"],
    )
    def put(self, request: Request, topic: str) -> Response:
        """Make a topic, or change the given values of one that exists."""
        services.check_name(topic)
        if asking.is_on():
            action = Action.UPDATE if selectors.exists(topic) else Action.CREATE
            asking.require(request._request, action, Resource(Kind.TOPIC, topic))
        change = TopicChange(data=request.data)
        change.is_valid(raise_exception=True)
        values = change.validated_data

        changed = services.create_or_change_topic(
            name=topic,
            queue_count=values.get("queue_count"),
            type=TopicType(values["type"]) if "type" in values else None,
            perm=values.get("perm"),
            expires_ms=values.get("expires_ms", services.UNSAID),
            retention_ms=values.get("retention_ms", services.UNSAID),
            cleanup=Cleanup(values["cleanup"]) if "cleanup" in values else None,
            lite_ttl_minutes=values.get("lite_ttl_minutes", services.UNSAID),
            drain=values.get("drain"),
            by=actor_of(request),
        )

        return Response(
            rendered(selectors.topic_state(topic)),
            status=status.HTTP_201_CREATED if changed.is_new else status.HTTP_200_OK,
        )

    @extend_schema(
        operation_id="delete_topic",
        parameters=[
            OpenApiParameter("reason", str, description="why; kept in the audit log"),
            OpenApiParameter(
                "even_in_use", bool, description="also where groups read it; false without it"
            ),
        ],
        responses={204: None, **PROBLEM_RESPONSES},
        tags=["topics"],
    )
    def delete(self, request: Request, topic: str) -> HttpResponse:
        """Remove a topic from the catalog; 409 `conflict` where groups read it."""
        query = request.query_params
        services.delete_topic(
            name=topic,
            by=actor_of(request),
            reason=asked_text(query, "reason", characters_max=REASON_CHARACTERS_MAX),
            even_in_use=asked_truth(query, "even_in_use"),
        )

        return Response(status=status.HTTP_204_NO_CONTENT)


class LiteTopicListView(APIView):
    """The lite topics of one topic."""

    @extend_schema(
        operation_id="list_lite_topics",
        parameters=[
            *page_parameters("lite topics"),
        ],
        responses={200: LiteTopicList, **PROBLEM_RESPONSES},
        tags=["topics"],
    )
    def get(self, request: Request, topic: str) -> Response:
        """List the lite topics of a topic of type LITE by name, with what each holds."""
        wanted = page_request(request.query_params)

        found = lites.lite_topics(topic, after=wanted.after, topics_max=wanted.items_max)

        next_cursor = cursor_at(found.topics[-1].name) if found.has_more else None
        items = [rendered_lite(lite) for lite in found.topics]
        return Response({**listing(items, next_cursor), "total": found.total})
