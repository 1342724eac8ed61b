"""Which lite topics there are, and when each had its last message. Knows names, times and queues.

A lite topic is there from its first message until it is gone; how it goes is `liteends`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.codec.litenames import is_lite, lite_parts
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import LiteTopicsExhausted


class LiteTopics:
    """The lite topics of a store by parent, those without a message for longest first."""

    def __init__(self, queues: QueueSet, *, topics_max: int) -> None:
        """Know of none; a store has up to `topics_max`."""
        self._queues = queues
        self._topics_max = topics_max
        # By prefix and parent, so that finding it takes no parsing: own topic and wall time.
        self._parents: dict[str, OrderedDict[str, int]] = {}
        # Those of which only the log knows the time.
        self._untimed: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many there are, of all parents."""
        return sum(map(len, self._parents.values())) + len(self._untimed)

    def __contains__(self, topic: str) -> bool:
        """Say whether a lite topic is there."""
        return topic in self._untimed or topic in self._parents.get(_parent_key(topic), ())

    def load(self, rows: Iterable[Sequence[Any]], *, gone: Mapping[str, int]) -> None:
        """Take up what the queues hold; `rows` are what `dump` of the last checkpoint returned.

        Of those that are `gone` only the ones that had a message behind that end.

        Raises KeyError, TypeError or ValueError for other rows.
        """
        known = {str(topic): (int(end), int(last_ms)) for topic, end, last_ms in rows}
        timed: list[tuple[int, str]] = []
        for queue in self._queues:
            is_gone = gone.get(queue.topic, 0) >= queue.end
            if is_gone or lite_parts(queue.topic) is None:
                continue
            end, last_ms = known.get(queue.topic, (-1, 0))
            if end == queue.end:
                timed.append((last_ms, queue.topic))
            else:
                self._untimed[queue.topic] = None
        for last_ms, topic in sorted(timed):
            self._parents.setdefault(_parent_key(topic), OrderedDict())[topic] = last_ms

    def dump(self) -> list[list[object]]:
        """Return each lite topic whose time is known, its end and its time, for the checkpoint."""
        return [
            [topic, queue.end, last_ms]
            for topics in self._parents.values()
            for topic, last_ms in topics.items()
            if (queue := self._queues.find(topic, 0)) is not None
        ]

    def check(self, topic: str) -> None:
        """Raise LiteTopicsExhausted where the topic would be one too many.

        Sends of one turn are checked before any is stored, and may together pass the limit.
        """
        if topic not in self and len(self) >= self._topics_max:
            raise LiteTopicsExhausted(f"a store has up to {self._topics_max} lite topics")

    def stored(self, topic: str, time_ms: int) -> None:
        """Note that a lite topic had a message at a wall time; it may be its first."""
        key = _parent_key(topic)
        topics = self._parents.get(key)
        if topics is None:
            topics = self._parents[key] = OrderedDict()
        if topic in topics:
            topics[topic] = time_ms
            topics.move_to_end(topic)
        else:
            # The queue has the same text: one copy of it is enough.
            queue = self._queues.find(topic, 0)
            topics[topic if queue is None else queue.topic] = time_ms
            self._untimed.pop(topic, None)

    def untimed(self) -> list[str]:
        """Return the lite topics whose last time is to be found in the log."""
        return list(self._untimed)

    def timed(self, found: Iterable[tuple[str, int]]) -> None:
        """Take the times that were found for some of them."""
        changed: dict[str, list[tuple[int, str]]] = {}
        for topic, time_ms in found:
            if topic in self._untimed:
                del self._untimed[topic]
                changed.setdefault(_parent_key(topic), []).append((time_ms, topic))
        for key, added in changed.items():
            before = self._parents.setdefault(key, OrderedDict())
            merged = sorted([*((time_ms, topic) for topic, time_ms in before.items()), *added])
            self._parents[key] = OrderedDict((topic, time_ms) for time_ms, topic in merged)

    def last_ms(self, topic: str) -> int | None:
        """Return the wall time of the last message; None where that is not known."""
        topics = self._parents.get(_parent_key(topic))
        return None if topics is None else topics.get(topic)

    def older(self, parent: str, before_ms: int) -> Iterator[str]:
        """Iterate over the lite topics of a parent without a message since a wall time."""
        for topic, last_ms in self._parents.get(LITE_PREFIX + parent, {}).items():
            if last_ms > before_ms:
                return
            yield topic

    def of_parent(self, parent: str) -> list[str]:
        """Return all lite topics of a parent, in no order."""
        key = LITE_PREFIX + parent
        untimed = [topic for topic in self._untimed if _parent_key(topic) == key]
        return [*self._parents.get(key, ()), *untimed]

    def parents(self) -> list[str]:
        """Return the parents that have lite topics."""
        keys = {*map(_parent_key, self._untimed), *(k for k, t in self._parents.items() if t)}
        return [key.removeprefix(LITE_PREFIX) for key in sorted(keys)]

    def page(self, parent: str, after: str, count: int) -> tuple[int, list[str]]:
        """Return how many lite topics a parent has, and the first so many behind a name."""
        topics = self.of_parent(parent)
        behind = f"{LITE_PREFIX}{parent}|{after}"
        return len(topics), nsmallest(count, (topic for topic in topics if topic > behind))

    def drop(self, topic: str) -> None:
        """Forget a lite topic that is gone."""
        self._untimed.pop(topic, None)
        topics = self._parents.get(_parent_key(topic))
        if topics is not None:
            topics.pop(topic, None)


def _parent_key(topic: str) -> str:
    assert is_lite(topic)
    return topic.rpartition("|")[0]
