"""What queues hold, told again and again: a value is made anew only where its queue has changed.

Whoever watches thousands of queues asks every second, and most of them are still. Knows queues.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from apps.engine.codec.litenames import is_lite
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.types import QueueRange, TopicTotal

# All that a range is made of: two looks that find the same need no second value.
_seen_of = attrgetter("visible", "min_offset", "kept")


@dataclass(slots=True)
class _Told:
    """The last answer for a topic, and what its queues looked like then."""

    queues: list[ConsumeQueue]
    seen: Sequence[object]
    ranges: list[QueueRange]
    total: TopicTotal


class Ranges:
    """The last answer for each queue. One that is told twice as the same object has not changed.

    The same holds for the answers for topics, which callers therefore leave as they are.
    """

    def __init__(self, queues: QueueSet) -> None:
        """Know of nothing yet."""
        self._queues = queues
        self._told: dict[tuple[str, int], QueueRange] = {}
        self._topics: dict[str, _Told] = {}

    def of_topic(self, topic: str, queue_count: int) -> list[QueueRange]:
        """Return what the first `queue_count` queues of a topic hold."""
        return self._look(topic, queue_count).ranges

    def total(self, topic: str, queue_count: int) -> TopicTotal:
        """Return what the first `queue_count` queues of a topic have in sum."""
        return self._look(topic, queue_count).total

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

    def _lite(self, topic: str) -> _Told:
        """Return what a lite topic holds; one that is not there holds nothing."""
        queue = self._queues.find(topic, 0)
        high = 0 if queue is None else queue.visible
        low = 0 if queue is None else min(queue.min_offset, high)
        held = QueueRange(topic=topic, queue=0, min_offset=low, max_offset=high)
        return _Told([], (), [held], TopicTotal(sent=high, held=high - low))

    def _look(self, topic: str, queue_count: int) -> _Told:
        if is_lite(topic):
            # They come and go, and nobody asks about all of them again and again.
            return self._lite(topic)
        told = self._topics.get(topic)
        if told is None or len(told.queues) != queue_count:
            queue = self._queues.queue
            queues = [queue(topic, number) for number in range(queue_count)]
        else:
            queues = told.queues
        seen = list(map(_seen_of, queues))
        if told is not None and seen == told.seen:
            return told
        ranges = [self.of(queue) for queue in queues]
        total = TopicTotal(
            sent=sum(held.max_offset for held in ranges),
            held=sum(held.max_offset - held.min_offset for held in ranges),
        )
        told = _Told(queues, seen, ranges, total)
        self._topics[topic] = told
        return told
