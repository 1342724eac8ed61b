"""From a topic here to one at a RocketMQ 5 endpoint. Knows what is read here, and the topic there.

A batch is read, stored there, and only then the group's offsets move on: after a crash at most the
last batch is there twice, under the same ids. What shares a lane, as messages of one key or of one
lite topic do, goes one after the other, so its order is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mqclient.admin import Admin
from mqclient.consuming.lite import LitePullConsumer
from mqclient.errors import InvalidArgument, MqError
from mqclient.mirroring.lanes import Lanes
from mqclient.mirroring.lites import LiteSource
from mqclient.mirroring.mirror import Mirror
from mqclient.mirroring.pace import Stopped
from mqclient.mirroring.queues import QueueSource
from mqclient.mirroring.sources import Source
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience
from mqclient.rocketmq.peers import PeerTopic
from mqclient.transport.blocking import Pool
from mqclient.values import TopicInfo
from mqclient.wire.records import Message

# Beyond that the mirror's own patience counts.
_ANSWER_S = 10.0


class OutwardMirror(Mirror):
    """Copies one topic, or the lite topics of one parent, from here to there."""

    def run(self) -> None:
        """Copy; raise MqError. What was not copied is copied by the next run of the group."""
        with PeerTopic(self._peer, self._settings.topic_there, clock=self._clock) as there:
            self._there = there
            topic = self.pace.persist(self._described, after=lambda: None)
            self._is_ranked = topic.has_priorities
            with (
                self._source_of(topic) as source,
                Lanes(
                    self._carry, key_of=source.lane_of, in_flight=self._settings.in_flight
                ) as lanes,
            ):
                try:
                    source.begin()
                    self._copy(source, lanes)
                except Stopped:
                    # Nothing that was not committed counts as copied.
                    return
                finally:
                    # Nobody is to wait for a side that is away, also after a signal.
                    self.pace.stop.set()

    @contextmanager
    def _source_of(self, topic: TopicInfo) -> Iterator[Source]:
        settings = self._settings
        if topic.is_parent:
            endpoint = Endpoint.of(self._server, self._token)
            pool = Pool(endpoint, clock=self._clock)
            patience = Patience(clock=self._clock, backoff=Backoff(), timeout_s=_ANSWER_S)
            try:
                yield LiteSource(pool, Calls(endpoint), settings, self.pace, patience=patience)
            finally:
                pool.close()
            return
        if settings.lites:
            raise InvalidArgument(f"topic {topic.topic} is {topic.type} and has no lite topics")
        with LitePullConsumer(
            self._server,
            token=self._token,
            clock=self._clock,
            group=settings.group,
            is_auto_commit=False,
            poll_messages_max=settings.batch,
        ) as reader:
            yield QueueSource(reader, topic, settings, self.pace, clock=self._clock)

    def _copy(self, source: Source, lanes: Lanes[Message]) -> None:
        while not self.pace.stop.is_set():
            messages = source.take()
            if messages is None:
                return
            if messages:
                self.pace.keep(len(messages))
                lanes.carry_out(messages)
                source.commit()
                size_bytes = sum(len(message.body) for message in messages)
                self._settings.on_copied(len(messages), size_bytes)

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
            if not self.pass_over(f"{message.message_id} at {place}", error):
                raise _placed(error, place) from error


def _placed(error: MqError, place: str) -> MqError:
    """Return the error with where the mirror stands."""
    error.args = (f"{error} (the mirror stands at {place})",)
    return error
