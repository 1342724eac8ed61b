"""What a consumer wants of which topic. Knows text only; SQL92 is read by the broker alone."""

from collections.abc import Iterable, Mapping

from mqclient.errors import InvalidArgument, InvalidFilter
from mqclient.names import checked_name
from mqclient.values import Filter, Sql, Subscription
from mqclient.wire.filters import EVERYTHING, wanted_tags


def tags_of(wanted: Filter) -> frozenset[str] | None:
    """Return the tags to compare here, None for none; raise InvalidFilter."""
    if isinstance(wanted, Sql):
        if not wanted.expression.strip():
            raise InvalidFilter("an SQL filter needs an expression")
        return None
    return wanted_tags(wanted)


def subscriptions_of(
    topics: str | Iterable[str], wanted: Mapping[str, Filter]
) -> tuple[Subscription, ...]:
    """Join topics read whole and topics with a filter, by name; at least one is needed.

    Raise InvalidArgument, also for a topic named in both, InvalidFilter and InvalidName.
    """
    whole = (topics,) if isinstance(topics, str) else tuple(topics)
    filters: dict[str, Filter] = dict.fromkeys(whole, EVERYTHING)
    for topic, text in wanted.items():
        if topic in filters:
            raise InvalidArgument(f"topic {topic} is subscribed twice")
        filters[topic] = text
    if not filters:
        raise InvalidArgument("a consumer needs a topic")
    for topic, text in filters.items():
        checked_name(topic, "topic")
        tags_of(text)
    return tuple(Subscription(topic=topic, filter=filters[topic]) for topic in sorted(filters))
