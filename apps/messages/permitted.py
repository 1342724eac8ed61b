"""What whoever asks may know of a message's life: what their topics and groups tell of it.

Knows who asks, and events; asks no broker.
"""

from collections.abc import Collection
from dataclasses import replace

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import CLUSTER, Action, Resource, group, topic
from apps.messages import selectors
from apps.messages.life import Event, Gap, Life, Source


def life_for(request: HttpRequest, message_id: str, *, only: str = "") -> Life | None:
    """Return what whoever asks may know of a message's life, and say where that is not all of it.

    None for a message of a topic they may not even know of. `only` is the one topic to look
    at; empty is whichever has the id. Raises PermissionDenied for a topic whose messages they may
    not look into, and what `life_of` raises.
    """
    found = selectors.life_of(message_id, topic=only)
    access = asking.access_of(request)
    homes = {found.topic} if found.head is None else {found.topic, found.head.topic}
    if not found.topic:
        # A refusal would tell an id that is somebody's from one that is nobody's.
        return found if access.may(Action.PEEK, CLUSTER).is_allowed else None
    if not all(asking.permitted(request, Action.PEEK, topic(one)) for one in homes):
        return None
    shown = tuple(
        event
        for event in found.events
        if all(access.may(Action.PEEK, one).is_allowed for one in _told_by(event, homes))
    )
    if len(shown) == len(found.events):
        return found
    return replace(found, events=shown, gaps=found.gaps | {Gap.NOT_SHOWN})


def _told_by(event: Event, homes: Collection[str]) -> list[Resource]:
    """Return whose matter an event is, besides the topics that the message lies in."""
    resources = []
    if event.topic and event.topic not in homes:
        resources.append(topic(event.topic))
    # A decision is the producer's: its topic's matter, and no group's that reads.
    if event.group and event.source is not Source.DECISIONS:
        resources.append(group(event.group))
    return resources
