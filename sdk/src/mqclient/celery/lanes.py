"""Lanes: Celery queues that consumers share, each a topic with one queue a priority step.

Knows topics and priorities; not who consumes. A higher number is more urgent, as in AMQP.
"""

from bisect import bisect_right

from mqclient.celery.ahead import Ahead
from mqclient.celery.client import Client
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.consuming.handles import runs_of
from mqclient.errors import UnknownQueue, UnknownTopic
from mqclient.limits import HANDLES_MAX
from mqclient.protocol.calls import Call
from mqclient.wire.records import Message

_PURGE_MESSAGES_MAX = 4_096
_PURGE_INVISIBLE_MS = 60_000
# The broker's limits for the life of an unused topic.
_EXPIRES_MS_MIN = 1_000
_EXPIRES_MS_MAX = 31_536_000_000


class Lanes:
    """Creates, fills, counts, empties and deletes lanes. Any thread may use it."""

    def __init__(self, client: Client, names: Names) -> None:
        """Know of no lane yet."""
        self._client = client
        self._names = names
        self._steps = client.options.priority_steps
        # Lanes seen to exist, with the life they were declared with.
        self._known: dict[str, int | None] = {}
        self._ahead = Ahead(client, self._put)

    def topic(self, lane: str) -> str:
        """Return the topic of a lane."""
        return self._names.lane(lane)

    def declare(self, lane: str, *, expires_ms: int | None = None) -> bool:
        """Create a lane that does not exist; return whether it was created.

        One that nobody uses for `expires_ms` is deleted by the broker.
        """
        if lane in self._known:
            return False
        if expires_ms is not None:
            expires_ms = max(_EXPIRES_MS_MIN, min(expires_ms, _EXPIRES_MS_MAX))
        self._known[lane] = expires_ms
        return self.restore(lane)

    def restore(self, lane: str) -> bool:
        """Create a lane that is missing, or has too few queues for our priorities."""
        try:
            self._client.end_offset(self.topic(lane), len(self._steps) - 1)
        except UnknownQueue:
            self._create(lane)
        except UnknownTopic:
            self._create(lane)
            return True
        return False

    def exists(self, lane: str) -> bool:
        """Tell whether there is such a lane."""
        try:
            self._client.end_offset(self.topic(lane))
        except UnknownTopic:
            return False
        return True

    def put(
        self, lane: str, message: Packed, priority: object, *, timeout_s: float | None = None
    ) -> None:
        """Store a message in a lane, which is created when it does not exist.

        With `publish_ahead` it leaves some milliseconds later at the latest, and an error is that
        of an earlier message.
        """
        client, topic, queue = self._client, self.topic(lane), self.queue_of(priority)
        record = client.record(topic, queue, message.body, tag=message.tag, key=message.key)
        if client.options.publish_ahead and timeout_s is None:
            self._ahead.put(lane, topic, queue, record)
            return
        # Nothing overtakes what was published before.
        self._ahead.settle()
        call = client.storing(topic, queue, [record], ack=client.options.ack)
        self._put(lane, call, timeout_s=timeout_s)

    def end(self) -> None:
        """Wait until what was published ahead is stored; no more is published."""
        self._ahead.end()

    def queue_of(self, priority: object) -> int:
        """Return the queue of a priority; what is no number counts as the lowest."""
        if not isinstance(priority, (int, float)):
            return 0
        return max(0, bisect_right(self._steps, priority) - 1)

    def size(self, lane: str) -> int:
        """Return how many messages wait, those handed out not counted; raise UnknownTopic."""
        topic = self.topic(lane)
        backlog = self._client.run(self._client.calls.group_lag(self._client.options.group))
        found = [row for row in backlog.queues if row.topic == topic]
        if found:
            return sum(row.lag if row.ready is None else row.ready for row in found)
        # Nobody of the group has read this lane yet.
        info = self._client.run(self._client.calls.describe_topic(topic))
        return sum((queue.max_offset or 0) - (queue.min_offset or 0) for queue in info.queues)

    def purge(self, lane: str) -> int:
        """Drop the messages that wait, and return how many; those handed out stay."""
        count = 0
        while messages := self.receive(
            lane, messages_max=_PURGE_MESSAGES_MAX, invisible_ms=_PURGE_INVISIBLE_MS
        ):
            runs = runs_of(messages)
            for start in range(0, len(runs), HANDLES_MAX):
                handles = [run.handle for run in runs[start : start + HANDLES_MAX]]
                self._client.run(self._client.calls.ack(self._client.options.group, handles))
            count += len(messages)
        return count

    def receive(self, lane: str, *, messages_max: int, invisible_ms: int) -> list[Message]:
        """Take messages of one lane without waiting; raise UnknownTopic."""
        call = self._client.calls.receive(
            self._client.options.group,
            [self.topic(lane)],
            messages_max=messages_max,
            wait_ms=0,
            invisible_ms=invisible_ms,
            high_queue_first=True,
        )
        return self._client.run(call).messages

    def delete(self, lane: str) -> int:
        """Delete a lane, and return how many messages waited in it.

        They are dropped first: a topic made again under the name would have them again.
        """
        self._known.pop(lane, None)
        try:
            count = self.purge(lane)
            self._client.run(self._client.calls.delete_topic(self.topic(lane), even_in_use=True))
        except UnknownTopic:
            return 0
        return count

    def _put(self, lane: str, call: Call[object], *, timeout_s: float | None = None) -> None:
        for is_first in (True, False):
            try:
                self._client.run(call, timeout_s=timeout_s)
            except (UnknownTopic, UnknownQueue):
                if not is_first:
                    raise
                self._create(lane)
            else:
                return

    def _create(self, lane: str) -> None:
        self._client.run(
            self._client.calls.create_topic(
                self.topic(lane), queue_count=len(self._steps), expires_ms=self._known.get(lane)
            )
        )
