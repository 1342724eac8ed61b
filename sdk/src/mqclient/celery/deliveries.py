"""What a channel consumes, and what of it is on its way to the application or with it.

Knows counts and order; no threads, sockets or time. The link's lock guards it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mqclient.celery.holding import Held
from mqclient.celery.messages import Message
from mqclient.celery.private import Copy, PrivateQueue

Item = Held | Copy


@dataclass(slots=True, eq=False)
class Consumer:
    """One `basic_consume`: of a lane, or of a private queue."""

    queue: str
    callback: Callable[[Message], object]
    no_ack: bool
    private: PrivateQueue | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to hand to the application now."""

    consumer: Consumer
    item: Item
    tag: int


class Deliveries:
    """The consumers of a channel, its prefetch limit and its unsettled messages."""

    def __init__(self, tags: Iterator[int], *, ahead_max: int) -> None:
        """Take delivery tags from `tags`; without a limit receive at most `ahead_max` ahead."""
        self.consumers: dict[str, Consumer] = {}
        self.prefetch_count = 0
        self._tags = tags
        self._ahead_max = ahead_max
        self._ahead: deque[Held] = deque()
        self._unsettled: dict[int, Item] = {}

    @property
    def lanes(self) -> list[str]:
        """Return the lanes consumed, each once."""
        found = (one.queue for one in self.consumers.values() if one.private is None)
        return list(dict.fromkeys(found))

    @property
    def room(self) -> int:
        """Return how many messages may be received now."""
        if not self.prefetch_count:
            return max(0, self._ahead_max - len(self._ahead))
        return max(0, self.prefetch_count - len(self._unsettled) - len(self._ahead))

    @property
    def is_nearly_full(self) -> bool:
        """Tell whether there is room, but less than half of the limit."""
        return 0 < self.room * 2 < self.prefetch_count

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits to be delivered, if only for the limit."""
        return bool(self._ahead) or any(
            one.private is not None and one.private.inbox for one in self.consumers.values()
        )

    def arrive(self, items: Iterable[Held]) -> list[Held]:
        """Take messages that were received; return those of lanes nobody consumes any more."""
        lanes = set(self.lanes)
        unwanted = []
        for item in items:
            if item.lane in lanes:
                self._ahead.append(item)
            else:
                unwanted.append(item)
        return unwanted

    def next(self) -> Delivery | None:
        """Return the next message to deliver, None when there is none or the limit is reached.

        Broadcasts go first: a control command need not wait for the tasks before it.
        """
        has_credit = not self.prefetch_count or len(self._unsettled) < self.prefetch_count
        for consumer in self.consumers.values():
            if consumer.private is not None and (has_credit or consumer.no_ack):
                copy = consumer.private.take()
                if copy is not None:
                    return self._delivery(consumer, copy)
        if self._ahead:
            consumer = self._consumer_of(self._ahead[0].lane)
            if has_credit or consumer.no_ack:
                return self._delivery(consumer, self._ahead.popleft())
        return None

    def take_ahead(self, lane: str) -> Held | None:
        """Return a message of a lane that was received and not delivered."""
        for item in self._ahead:
            if item.lane == lane:
                self._ahead.remove(item)
                return item
        return None

    def remember(self, item: Item) -> int:
        """Give an unsettled message its tag."""
        tag = next(self._tags)
        self._unsettled[tag] = item
        return tag

    def settle(self, tag: int, *, multiple: bool = False) -> list[Item]:
        """Forget a message, with `multiple` all before it too; return them, none for unknown."""
        if not multiple:
            item = self._unsettled.pop(tag, None)
            return [] if item is None else [item]
        tags = [one for one in self._unsettled if one <= tag]
        return [self._unsettled.pop(one) for one in tags]

    def cancel(self, consumer_tag: str) -> tuple[Consumer | None, list[Held]]:
        """Forget a consumer; return it with what was received for its lane and not delivered."""
        consumer = self.consumers.pop(consumer_tag, None)
        if consumer is None or consumer.private is not None or consumer.queue in self.lanes:
            return consumer, []
        unwanted = [item for item in self._ahead if item.lane == consumer.queue]
        self._ahead = deque(item for item in self._ahead if item.lane != consumer.queue)
        return consumer, unwanted

    def recover(self) -> list[Item]:
        """Forget every unsettled message, and return them."""
        items = list(self._unsettled.values())
        self._unsettled.clear()
        return items

    def _consumer_of(self, lane: str) -> Consumer:
        return next(
            one for one in self.consumers.values() if one.queue == lane and one.private is None
        )

    def _delivery(self, consumer: Consumer, item: Item) -> Delivery:
        tag = next(self._tags) if consumer.no_ack else self.remember(item)
        return Delivery(consumer, item, tag)
