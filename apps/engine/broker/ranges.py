"""What queues hold, told again and again: a value is made anew only where its queue has changed.

Whoever watches thousands of queues asks every second, and most of them are still. Knows queues.
"""

from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.types import QueueRange


class Ranges:
    """The last answer for each queue. One that is told twice as the same object has not changed."""

    def __init__(self, queues: QueueSet) -> None:
        """Know of nothing yet."""
        self._queues = queues
        self._told: dict[tuple[str, int], QueueRange] = {}

    def of_topic(self, topic: str, queue_count: int) -> list[QueueRange]:
        """Return what the first `queue_count` queues of a topic hold."""
        queue, of = self._queues.queue, self.of
        return [of(queue(topic, number)) for number in range(queue_count)]

    def of(self, queue: ConsumeQueue) -> QueueRange:
        """Return what a queue holds."""
        key = (queue.topic, queue.queue)
        told = self._told.get(key)
        visible, kept = queue.visible, queue.kept
        low = min(queue.min_offset, visible)
        if (
            told is not None
            and kept is None
            and told.kept_messages is None
            and told.max_offset == visible
            and told.min_offset == low
        ):
            return told
        found = self._told[key] = QueueRange(
            topic=queue.topic,
            queue=queue.queue,
            min_offset=low,
            max_offset=visible,
            covered=queue.covered,
            kept_messages=None if kept is None else kept.message_count,
            compacted_ms=None if kept is None else kept.written_ms,
        )
        return found
