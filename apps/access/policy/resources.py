"""What a decision is about, and whom the product's own topics belong to. Knows names only."""

from typing import NamedTuple

from apps.access.policy.actions import Kind
from apps.engine.codec.layout import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    LITE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    TRACE_TOPIC,
)

__all__ = [
    "CLUSTER",
    "RESERVED_PREFIXES",
    "TRACES",
    "Resource",
    "group",
    "is_lite",
    "is_own",
    "owner",
    "topic",
    "topic_or_cluster",
]

_SYSTEM = frozenset({GIVEN_UP_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, SCHEDULE_TOPIC})
_OF_GROUPS = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
RESERVED_PREFIXES = (SYSTEM_PREFIX, *_OF_GROUPS, LITE_PREFIX)


class Resource(NamedTuple):
    """One thing, by kind and name; the cluster's name is empty."""

    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        """Return it as sentences name it."""
        return f"{self.kind.value} {self.name!r}" if self.name else self.kind.value


CLUSTER = Resource(Kind.CLUSTER)
TRACES = Resource(Kind.TOPIC, TRACE_TOPIC)


def topic(name: str) -> Resource:
    """Return a topic."""
    return Resource(Kind.TOPIC, name)


def topic_or_cluster(name: str) -> Resource:
    """Return a topic; the cluster for what no longer says which topic it was for."""
    return topic(name) if name else CLUSTER


def group(name: str) -> Resource:
    """Return a group, of consumers or of producers."""
    return Resource(Kind.GROUP, name)


def is_own(resource: Resource) -> bool:
    """Say whether it is a topic of the product's, which no grant can name."""
    name = resource.name
    return resource.kind is Kind.TOPIC and (name.startswith(RESERVED_PREFIXES) or name in _SYSTEM)


def is_lite(resource: Resource) -> bool:
    """Say whether it is a lite topic, which is a part of its parent and no more."""
    return resource.kind is Kind.TOPIC and resource.name.startswith(LITE_PREFIX)


def owner(resource: Resource) -> Resource:
    """Return whose right counts for a topic of the product's: its group's or its parent's.

    For all others it is the cluster's.
    """
    if is_lite(resource):
        parent, mark, _ = resource.name.removeprefix(LITE_PREFIX).rpartition("|")
        return topic(parent) if mark and not parent.startswith(LITE_PREFIX) else CLUSTER
    for prefix in _OF_GROUPS:
        if resource.name.startswith(prefix):
            return group(resource.name.removeprefix(prefix))
    return CLUSTER
