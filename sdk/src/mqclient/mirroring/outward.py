"""From a topic here to one at a RocketMQ 5 endpoint. Knows the reader here and the topic there.

A batch is read, stored there, and only then the group's offsets move on: after a crash at most the
last batch is there twice, under the same ids. Batches are of one queue and in its order, and a
batch's messages of one key go one after the other, so the order of a key is kept.
"""

from collections.abc import Mapping

from mqclient.admin import Admin
from mqclient.consuming.lite import LitePullConsumer
from mqclient.errors import MqError
from mqclient.mirroring.lanes import Lanes
from mqclient.mirroring.mirror import Mirror
from mqclient.mirroring.pace import Stopped
from mqclient.rocketmq.peers import PeerTopic
from mqclient.values import TopicInfo, TopicQueue
from mqclient.wire.records import Message

# How late a signal or the end is noticed.
_LOOK_S = 0.5
# How late a topic's new queues are noticed.
_QUEUES_S = 30.0


class OutwardMirror(Mirror):
    """Copies one topic from here to there."""

    def run(self) -> None:
        """Copy; raise MqError. What was not copied is copied by the next run of the group."""
        with (
            self._reader() as reader,
            PeerTopic(self._peer, self._settings.topic_there, clock=self._clock) as there,
        ):
            self._there = there
            topic = self.pace.persist(self._described, after=lambda: None)
            self._is_ranked = topic.has_priorities
            ends = _ends_of(topic) if self._settings.once else None
            self._begin(reader)
            with Lanes(
                self._carry,
                key_of=lambda message: message.sharding_key,
                in_flight=self._settings.in_flight,
            ) as lanes:
                try:
                    self._copy(reader, lanes, ends)
                except Stopped:
                    # Nothing that was not committed counts as copied.
                    return
                finally:
                    # Nobody is to wait for a side that is away, also after a signal.
                    self.pace.stop.set()

    def _reader(self) -> LitePullConsumer:
        return LitePullConsumer(
            self._server,
            token=self._token,
            clock=self._clock,
            group=self._settings.group,
            is_auto_commit=False,
            poll_messages_max=self._settings.batch,
        )

    def _copy(
        self,
        reader: LitePullConsumer,
        lanes: Lanes[Message],
        ends: Mapping[TopicQueue, int] | None,
    ) -> None:
        looked_s = self._clock.steady_s()
        while not self.pace.stop.is_set():
            if ends is not None and all(reader.position(at) >= end for at, end in ends.items()):
                return
            messages = self.pace.persist(lambda: reader.poll(_LOOK_S), after=lambda: None)
            if messages:
                self.pace.keep(len(messages))
                lanes.carry_out(messages)
                self.pace.persist(reader.commit, after=lambda: None)
                size_bytes = sum(len(message.body) for message in messages)
                self._settings.on_copied(len(messages), size_bytes)
            if ends is None and self._clock.steady_s() - looked_s >= _QUEUES_S:
                looked_s = self._clock.steady_s()
                self._begin(reader)

    def _begin(self, reader: LitePullConsumer) -> None:
        """Read every queue, and the ones without a position from where settings say."""
        queues = self.pace.persist(
            lambda: reader.fetch_queues(self._settings.topic), after=lambda: None
        )
        known = set(reader.assignment())
        if known == set(queues):
            return
        reader.assign(queues)
        # A queue that was added later is copied from its beginning, whatever the start was.
        if known:
            return
        for queue in queues:
            if reader.committed(queue) is not None:
                continue
            if self._settings.start == "latest":
                reader.seek_to_end(queue)
            elif self._settings.start != "earliest":
                reader.seek(queue, reader.offset_for_time(queue, self._settings.start))
        if self._settings.start != "earliest":
            # The next run goes on from here also where this one copies nothing of a queue.
            self.pace.persist(reader.commit, after=lambda: None)

    def _described(self) -> TopicInfo:
        with Admin(self._server, token=self._token) as admin:
            return admin.describe_topic(self._settings.topic)

    def _carry(self, message: Message) -> None:
        try:
            self.pace.persist(
                lambda: self._there.send(message, is_ranked=self._is_ranked),
                after=self._there.look_again,
            )
        except MqError as error:
            place = f"{message.topic}/{message.queue}/{message.queue_offset}"
            if self._settings.on_refused is None or error.retriable:
                raise _placed(error, place) from error
            self._settings.on_refused(f"{message.message_id} at {place}", error)


def _ends_of(topic: TopicInfo) -> dict[TopicQueue, int]:
    return {
        TopicQueue(topic.topic, queue.queue): queue.max_offset
        for queue in topic.queues
        if queue.max_offset is not None
    }


def _placed(error: MqError, place: str) -> MqError:
    """Return the error with where the mirror stands."""
    error.args = (f"{error} (the mirror stands at {place})",)
    return error
