"""What waits for one queue, and what waits for a topic's queues to be known. Knows no clock."""

from collections import deque

from mqclient.producing.parcels import Parcel
from mqclient.producing.settings import ProducerSettings
from mqclient.wire.records import topic_part


class Waiter:
    """Something that is looked at again at a moment; a later call of `arm` replaces it."""

    __slots__ = ("due_s",)

    def __init__(self) -> None:
        self.due_s: float | None = None


class Topic(Waiter):
    """A topic's queues, and the parcels that came before these were known."""

    __slots__ = (
        "attempt",
        "fetched_s",
        "has_priorities",
        "is_asking",
        "lanes",
        "name",
        "next_sequence",
        "not_before_s",
        "packed_name",
        "queue_count",
        "sticky",
        "waiting",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.packed_name = topic_part(name)
        self.lanes: dict[int, Lane] = {}
        self.next_sequence = 0
        self.queue_count = 0
        self.has_priorities = False
        self.fetched_s = 0.0
        self.is_asking = False
        self.not_before_s = 0.0
        self.attempt = 0
        self.sticky = 0
        self.waiting: deque[Parcel] = deque()

    def lane(self, queue: int) -> "Lane":
        """Return the lane of a queue."""
        lane = self.lanes.get(queue)
        if lane is None:
            lane = self.lanes[queue] = Lane(self, queue)
        return lane


class Lane(Waiter):
    """The parcels of one queue, in order. At most one request carries some of them."""

    __slots__ = (
        "attempt", "flying", "is_busy", "is_ready", "is_urgent", "linger_until_s", "message_count",
        "messages_max", "not_before_s", "parcels", "queue", "repeat_count", "size_bytes", "topic",
    )  # fmt: skip

    def __init__(self, topic: Topic, queue: int) -> None:
        super().__init__()
        self.topic = topic
        self.queue = queue
        self.parcels: deque[Parcel] = deque()
        self.flying: list[Parcel] = []
        self.message_count = 0
        self.size_bytes = 0
        self.is_busy = False
        self.is_ready = False
        self.is_urgent = False
        self.linger_until_s = 0.0
        self.not_before_s = 0.0
        self.attempt = 0
        self.messages_max: int | None = None
        # So many parcels, the first ones, must go exactly as they went before: they are numbered,
        # and the broker may have them.
        self.repeat_count = 0

    def push(self, parcel: Parcel) -> None:
        """Add a parcel behind the others."""
        self.parcels.append(parcel)
        self.message_count += len(parcel.ids)
        self.size_bytes += parcel.size_bytes

    def push_back(self, parcels: list[Parcel]) -> None:
        """Put parcels before the others again, in their order."""
        self.parcels.extendleft(reversed(parcels))
        for parcel in parcels:
            self.message_count += len(parcel.ids)
            self.size_bytes += parcel.size_bytes

    def pop(self) -> Parcel:
        """Take the first parcel, whatever it belongs to."""
        parcel = self.parcels.popleft()
        self.message_count -= len(parcel.ids)
        self.size_bytes -= parcel.size_bytes
        return parcel

    def is_full(self, settings: ProducerSettings) -> bool:
        """Tell whether the parcels make a whole batch."""
        return (
            self.message_count >= settings.batch_messages_max
            or self.size_bytes >= settings.batch_bytes_max
        )

    def next_batch(self, settings: ProducerSettings) -> list[Parcel]:
        """Take the parcels of the next batch: of one kind, at least one parcel.

        One batch has one acknowledge mode, and a delay in every message or in none.
        """
        if self.repeat_count:
            repeated = [self.pop() for _ in range(self.repeat_count)]
            self.repeat_count = 0
            return repeated
        messages_max = self.messages_max or settings.batch_messages_max
        batch = [self.pop()]
        messages, size_bytes = len(batch[0].ids), batch[0].size_bytes
        while self.parcels:
            parcel = self.parcels[0]
            messages += len(parcel.ids)
            size_bytes += parcel.size_bytes
            if (
                messages > messages_max
                or size_bytes > settings.batch_bytes_max
                or parcel.ack is not batch[0].ack
                or parcel.is_delayed is not batch[0].is_delayed
            ):
                break
            batch.append(self.pop())
        return batch
