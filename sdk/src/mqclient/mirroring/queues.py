"""The queues of a topic here, read for a mirror's group. Knows the reader, nothing of there."""

from mqclient.clock import Clock
from mqclient.consuming.lite import LitePullConsumer
from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings
from mqclient.mirroring.sources import LOOK_S, Source
from mqclient.names import lite_parts
from mqclient.values import TopicInfo, TopicQueue
from mqclient.wire.records import Message

# How late a topic's new queues are noticed.
_QUEUES_S = 30.0


class QueueSource(Source):
    """Batches of one queue each, in its order; the messages of a key share a lane."""

    def __init__(
        self,
        reader: LitePullConsumer,
        topic: TopicInfo,
        settings: MirrorSettings,
        pace: Pace,
        *,
        clock: Clock,
    ) -> None:
        """Read nothing yet; with `once` it ends where the topic does as described."""
        super().__init__(settings, pace)
        self._reader = reader
        self._clock = clock
        self._ends = _ends_of(topic) if settings.once else None
        self._looked_s = 0.0

    def begin(self) -> None:
        """Read every queue, and the ones without a position from where settings say."""
        reader, start = self._reader, self._settings.start
        self._looked_s = self._clock.steady_s()
        queues = self._pace.persist(
            lambda: reader.fetch_queues(self._settings.topic), after=lambda: None
        )
        known = set(reader.assignment())
        if known == set(queues):
            return
        reader.assign(queues)
        # A queue that was added later is copied from its beginning, whatever the start was.
        if known or start in (None, "earliest"):
            return
        for queue in queues:
            if reader.committed(queue) is not None:
                continue
            if isinstance(start, int):
                reader.seek(queue, reader.offset_for_time(queue, start))
            else:
                reader.seek_to_end(queue)
        # The next run goes on from here also where this one copies nothing of a queue.
        self._pace.persist(reader.commit, after=lambda: None)

    def take(self) -> list[Message] | None:
        """Return the next messages of one queue; see Source."""
        ends = self._ends
        if ends is None:
            if self._clock.steady_s() - self._looked_s >= _QUEUES_S:
                self.begin()
        elif all(self._reader.position(at) >= end for at, end in ends.items()):
            return None
        return self._pace.persist(lambda: self._reader.poll(LOOK_S), after=lambda: None)

    def lane_of(self, message: Message) -> str | None:
        """Return the key of a message; of one in a lite topic that topic, which is in order."""
        return message.sharding_key if lite_parts(message.topic) is None else message.topic

    def commit(self) -> None:
        """Move the group behind what was taken; see Source."""
        self._pace.persist(self._reader.commit, after=lambda: None)


def _ends_of(topic: TopicInfo) -> dict[TopicQueue, int]:
    return {
        TopicQueue(topic.topic, queue.queue): queue.max_offset
        for queue in topic.queues
        if queue.max_offset is not None
    }
