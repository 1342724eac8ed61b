"""How many messages the lite topics of a parent took and hold, as running sums.

Knows queues of lite topics and what changes what readers see of them; no group and no clock. Who
asks every second is answered alike whether there are ten lite topics or a hundred thousand.
"""

from dataclasses import dataclass

from apps.engine.broker.litetopics import LiteTopics
from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.litetypes import LiteTotal
from apps.engine.types import TopicTotal


@dataclass(slots=True)
class _Sum:
    """What one parent's lite topics have; they held `before` messages when the store was opened."""

    before: int = 0
    came: int = 0
    held: int = 0


_NOTHING = _Sum()


class LiteCounts:
    """Sums by parent."""

    def __init__(self, topics: LiteTopics, queues: QueueSet) -> None:
        """Count what is there, once."""
        # By prefix and parent, so that finding it takes no parsing.
        self._sums: dict[str, _Sum] = {}
        for parent in topics.parents():
            found = [queues.find(topic, 0) for topic in topics.of_parent(parent)]
            held = sum(queue.held for queue in found if queue is not None)
            self._sums[LITE_PREFIX + parent] = _Sum(before=held, held=held)

    def shown(self, key: str, queue: ConsumeQueue, before: int) -> None:
        """Note that readers see messages of a queue, the first at the offset `before`."""
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum()
        found.came += queue.visible - before
        # Some may be hidden already, when their lite topic went before they were synced.
        found.held += queue.visible - max(before, min(queue.min_offset, queue.visible))

    def hidden(self, key: str, count: int) -> None:
        """Note that readers see so many messages no more."""
        if count:
            self._sums[key].held -= count

    def arrived(self, key: str) -> int:
        """Return how many messages came, and were held when the store was opened."""
        found = self._sums.get(key, _NOTHING)
        return found.before + found.came

    def total(self, parent: str) -> LiteTotal:
        """Return the sums of a parent; of one without lite topics they are 0."""
        found = self._sums.get(LITE_PREFIX + parent, _NOTHING)
        return LiteTotal(came=found.came, held=found.held)

    def of_topic(self, parent: str) -> TopicTotal:
        """Return the sums of a parent as those of any topic are told."""
        found = self._sums.get(LITE_PREFIX + parent, _NOTHING)
        return TopicTotal(sent=found.before + found.came, held=found.held)
