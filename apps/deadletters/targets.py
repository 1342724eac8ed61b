"""Whether whoever sends dead letters again may send them there. Knows the target; no letter."""

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Action, topic
from apps.deadletters.records import retry_topic_of


def check_target(request: HttpRequest, group: str, target: str | None) -> None:
    """Raise PermissionDenied for a topic that whoever asks may not send to.

    Each letter's own topic, and the retry topic of its group, are what the right to redrive is for.
    """
    if target not in (None, retry_topic_of(group)):
        asking.require(request, Action.PUB, topic(target))
