"""Which groups have a retry topic in use. Knows queues by their names, and who shares a group.

A group is given its retry topic without asking for it, by `receive` as well as by assignment, so it
counts as soon as it ever held a message, and whether or not anybody has read it.
"""

from apps.engine.broker.members import Members
from apps.engine.broker.owntopics import retry_topic
from apps.engine.codec.layout import RETRY_PREFIX
from apps.engine.derived.queueset import QueueSet
from apps.engine.types import MessageModel


class RetryQueues:
    """Finds them."""

    def __init__(self, queues: QueueSet, members: Members) -> None:
        """Bind to a store."""
        self._queues = queues
        self._members = members

    def pairs(self, group: str | None) -> set[tuple[str, str]]:
        """Return groups, one or all, with their retry topics; each has the one queue 0.

        Without those whose members are all broadcast to: they send nothing back and read none.
        """
        if group is None:
            names = [
                topic.removeprefix(RETRY_PREFIX)
                for topic in self._queues.topics_like(RETRY_PREFIX)
                if self._is_used(topic)
            ]
        else:
            names = [group] if self._is_used(retry_topic(group)) else []
        return {(name, retry_topic(name)) for name in names if not self._is_broadcast_to(name)}

    def _is_used(self, topic: str) -> bool:
        queue = self._queues.find(topic, 0)
        return queue is not None and queue.visible > 0

    def _is_broadcast_to(self, group: str) -> bool:
        members = self._members.of(group).values()
        return bool(members) and all(
            member.model is MessageModel.BROADCASTING for member in members
        )
