"""From a topic at a RocketMQ 5 endpoint to one here. Knows the group there and the producer here.

Messages are received for a while, stored here under their own ids, and only then acknowledged:
after a crash those of at most one receive come again. The messages of one key are stored one after
the other, and so are those of one lite topic. That those of a key are received so is the group's
business: it has to be one in order there.
"""

import threading
from collections.abc import Sequence

from mqclient.errors import MqError
from mqclient.mirroring.lanes import Lanes
from mqclient.mirroring.mirror import Mirror
from mqclient.mirroring.pace import Stopped
from mqclient.mirroring.settings import Start
from mqclient.producing.producer import Producer
from mqclient.rocketmq.peers import PeerGroup
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.translation import message_here
from mqclient.values import OutgoingMessage

# RocketMQ hands out no more at a time.
RECEIVE_MAX = 32
_WAIT_MS = 5_000


class InwardMirror(Mirror):
    """Copies one topic from there to here."""

    _one_alone = threading.Lock()

    def run(self) -> None:
        """Copy; raise MqError. What was not acknowledged comes to the next run of the group."""
        with (
            PeerGroup(
                self._peer,
                self._settings.topic_there,
                self._settings.group,
                wait_ms=_WAIT_MS,
                lites=self._settings.lites,
                lite_begin=_begin_of(self._settings.start),
                clock=self._clock,
            ) as there,
            self._sender() as producer,
            self._sender() as alone,
        ):
            self._producer = producer
            self._alone = alone
            with Lanes(
                self._carry,
                key_of=_lane_of,
                in_flight=self._settings.in_flight,
            ) as lanes:
                try:
                    self._copy(there, lanes)
                except Stopped:
                    # What was not acknowledged comes again.
                    return
                finally:
                    # Nobody is to wait for a side that is away, also after a signal.
                    self.pace.stop.set()

    def _sender(self) -> Producer:
        return Producer(
            self._server,
            token=self._token,
            clock=self._clock,
            timeout_s=self._settings.patience_s,
        )

    def _copy(self, there: PeerGroup, lanes: Lanes[pb.Message]) -> None:
        count = min(self._settings.batch, RECEIVE_MAX)
        lease_s = self._settings.lease_s
        found_s = self._clock.steady_s()
        while not self.pace.stop.is_set():
            queue, messages = self.pace.persist(
                lambda: there.receive(count, invisible_ms=int(lease_s * 1000)),
                after=there.look_again,
            )
            if messages:
                self.pace.keep(len(messages))
                lanes.carry_out(messages)
                self._acknowledge(there, queue, messages)
                found_s = self._clock.steady_s()
            elif self._settings.once:
                # What a reader that was killed had comes again when its lease is over.
                quiet_s = self._clock.steady_s() - found_s
                if quiet_s >= lease_s + there.place_count * _WAIT_MS / 1000:
                    return

    def _acknowledge(
        self, there: PeerGroup, queue: pb.MessageQueue, messages: Sequence[pb.Message]
    ) -> None:
        late = self.pace.persist(lambda: there.ack(queue, messages), after=lambda: None)
        # They are stored here and come again: each is a copy more, and known by its id.
        self.pace.repeats += len(late)
        size_bytes = sum(len(message.body) for message in messages)
        self._settings.on_copied(len(messages), size_bytes)

    def _carry(self, message: pb.Message) -> None:
        try:
            wanted = message_here(message, self._settings.topic)
            self._store(wanted)
        except MqError as error:
            system = message.system_properties
            queue = system.lite_topic or system.queue_id
            place = f"{message.topic.name}/{queue}/{system.queue_offset}"
            if self.pass_over(f"{system.message_id} at {place}", error):
                return
            error.args = (f"{error} (message {system.message_id} at {place})",)
            raise

    def _store(self, wanted: OutgoingMessage) -> None:
        """Store a message; raise MqError that is about this one, and none of its batch."""
        try:
            self._producer.send_message(wanted).result()
        except MqError as error:
            if error.retriable or error.outcome == "unknown":
                raise
            # A batch is refused as a whole, for whichever of its messages.
            with self._one_alone:
                self._alone.send_message(wanted).result()


def _lane_of(message: pb.Message) -> str | None:
    """Return what a message's order is kept among: its lite topic, or its key."""
    system = message.system_properties
    return system.lite_topic or system.message_group or None


def _begin_of(start: Start | None) -> pb.OffsetOption | None:
    """Return where a group is to begin in lite topics, as the protocol says it."""
    match start:
        case None:
            return None
        case "earliest":
            return pb.OffsetOption(policy=pb.OffsetOption.MIN)
        case "latest":
            return pb.OffsetOption(policy=pb.OffsetOption.MAX)
        case _:
            return pb.OffsetOption(timestamp=start)
