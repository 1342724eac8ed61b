"""Subscriptions of lite topics, as they are answered."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.engine.litetypes import LiteSubscription


class LiteSubscriptionDocument(serializers.Serializer[Any]):
    """A client and the lite topics it is subscribed to."""

    client_id = serializers.CharField()
    topic = serializers.CharField(help_text="The topic whose lite topics these are.")
    lite_topics = serializers.ListField(
        child=serializers.CharField(), help_text="The first hundred, by name."
    )
    count = serializers.IntegerField(help_text="How many there are.")
    lag = serializers.CharField(
        allow_null=True,
        help_text="Messages of these lite topics that the group has not settled; of clients that "
        "share a lite topic each has it. Null: too many lite topics to count.",
    )
    seen_at = serializers.DateTimeField()


class LiteSubscriptionList(serializers.Serializer[Any]):
    """A page of clients, by client id."""

    items = LiteSubscriptionDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_lite_subscription(found: LiteSubscription) -> dict[str, object]:
    """Build the JSON shape of a client's subscription."""
    return {
        "client_id": found.client_id,
        "topic": found.topic,
        "lite_topics": list(found.names),
        "count": found.count,
        "lag": None if found.lag is None else str(found.lag),
        "seen_at": rfc3339(moment(found.seen_ms)),
    }
