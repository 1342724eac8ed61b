"""Topics on the way to another number of queues: rows, and what the engine says of the queues.

What the numbers mean is in `queuecounts`. A step looks at all topics that are on their way, and
carries out what has become possible since.
"""

import logging
from functools import partial

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.bridge import engine as bridge
from apps.topics import queuecounts, snapshot
from apps.topics.draining import Look, look_at
from apps.topics.models import MessageQueue, Topic
from apps.topics.queuecounts import QueueCounts

_log = logging.getLogger("mqweb.topics")


def counts_of(topic: Topic) -> QueueCounts:
    """Return the counts of a row."""
    return QueueCounts(
        write=topic.write_queue_count,
        target=topic.target_queue_count,
        queue_count=topic.queue_count,
    )


def resize(topic: Topic, counts: QueueCounts) -> None:
    """Give a row its counts and its queues; the caller saves it and publishes the catalog."""
    before = topic.queue_count
    topic.write_queue_count = counts.write
    topic.target_queue_count = counts.target
    topic.queue_count = counts.queue_count
    # The engine has yet to be seen to obey these.
    topic.obeyed_at = topic.obeyed_log_offset = None
    if counts.queue_count > before:
        snapshot.add_queue_rows(topic, first=before)
    else:
        MessageQueue.objects.filter(topic=topic, number__gte=counts.queue_count).delete()


def go_on() -> int:
    """Let queues take messages, or go, where nobody has anything left to read.

    Return how many topics changed. Raises Busy while the engine cannot be asked; without a topic
    on its way it is not asked.
    """
    looked_at = {topic.name: counts_of(topic) for topic in _on_the_way()}
    if not looked_at:
        return 0
    looks = bridge.call(partial(look_at, names=sorted(looked_at)))
    with transaction.atomic():
        snapshot.lock()
        # One that somebody has changed meanwhile is looked at again in the next step.
        moved = [
            topic
            for topic in _on_the_way()
            if looked_at.get(topic.name) == counts_of(topic) and _go_on(topic, looks[topic.name])
        ]
        if moved:
            snapshot.raise_version()
            snapshot.publish_after_commit()
    for topic in moved:
        counts = counts_of(topic)
        extra = {
            "topic": topic.name,
            "queue_count": counts.queue_count,
            "write_queue_count": counts.write,
        }
        _log.info("topic_queues_changed", extra=extra)
    return len(moved)


def _on_the_way() -> list[Topic]:
    apart = Topic.objects.exclude(write_queue_count=F("queue_count"))
    return list(apart.order_by("name"))


def _go_on(topic: Topic, look: Look) -> bool:
    """Carry out what a look allows; say whether the counts have changed."""
    if not _is_obeyed(topic, look):
        return False
    before = counts_of(topic)
    counts = queuecounts.settled(
        before,
        is_drained=look.is_drained(),
        is_closed=_has_seen_all(topic, look) and look.is_empty_from(before.target),
    )
    if counts != before:
        resize(topic, counts)
        topic.save()
        return True
    if topic.obeyed_at is None:
        topic.obeyed_at = timezone.now()
    elif (topic.obeyed_log_offset or look.written_log_offset + 1) > look.written_log_offset:
        # The second look; or the log has become shorter, and so is that of another store.
        topic.obeyed_log_offset = look.written_log_offset
    topic.save(update_fields=["obeyed_at", "obeyed_log_offset"])
    return False


def _is_obeyed(topic: Topic, look: Look) -> bool:
    spec = look.spec
    return (
        spec is not None
        and spec.queue_count == topic.queue_count
        and (spec.write_queue_count or spec.queue_count) == topic.write_queue_count
    )


def _has_seen_all(topic: Topic, look: Look) -> bool:
    """Say whether a message taken before the engine obeyed cannot have been overlooked.

    A send that was checked before may have been written after the first look that saw the engine
    obey, but before the second; and it is visible once it is synced.
    """
    end = topic.obeyed_log_offset
    return end is not None and look.synced_log_offset >= end
