"""Locks as the broker's table has them, and their names. Knows the engine's verbs, no row."""

import re

from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.engine import limits
from apps.engine.grouptypes import QueueLockState, QueuePlace

# No name of a group or topic has this character, and no address has to escape it.
_SEPARATOR = "~"
_QUEUE = re.compile(r"[0-9]{1,4}")


def lock_id(group: str, topic: str, queue: int) -> str:
    """Return the name of a lock; it is the same whoever holds it."""
    return _SEPARATOR.join((group, topic, str(queue)))


def lock_place(lock: str) -> tuple[str, QueuePlace]:
    """Return the group and the queue of a lock's name; refuse any other text as `not_found`."""
    parts = lock.split(_SEPARATOR)
    if len(parts) == 3:
        group, topic, queue = parts
        names_are_good = all(limits.NAME_PATTERN.fullmatch(name) for name in (group, topic))
        if names_are_good and _QUEUE.fullmatch(queue):
            return group, QueuePlace(topic=topic, queue=int(queue))
    raise ProblemError(
        "not_found", sentence("a lock's id is that of GET /locks: group~topic~queue")
    )


def locks(*, group: str | None = None, topic: str | None = None) -> list[QueueLockState]:
    """Return the locks of a group and a topic, or of all, by group, topic and queue."""
    found = bridge.call(lambda engine: engine.queue_locks(group))
    return sorted(
        (lock for lock in found if topic in (None, lock.topic)),
        key=lambda lock: (lock.group, lock.topic, lock.queue),
    )
