"""A topic at a RocketMQ 5 endpoint, to send to or to receive from. Knows the protocol's requests.

Blocking, for threads. Nothing is tried twice here: whoever calls knows what a repeat would mean.
"""

import itertools
import socket
from collections.abc import Callable, Sequence
from typing import Self

from google.protobuf.duration_pb2 import Duration

from mqclient.clock import Clock, SystemClock
from mqclient.errors import MessageIllegal, MqError, NotPermitted, ProtocolViolation
from mqclient.rocketmq.address import PeerSettings
from mqclient.rocketmq.connections import Link, Links
from mqclient.rocketmq.lites import LiteSet
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.statuses import check
from mqclient.rocketmq.translation import message_there
from mqclient.wire.records import Message

_LANGUAGE = pb.PYTHON
_VERSION = "5.0.0"
_MASTER = 0
_ATTEMPTS = 3


class _Place:
    """One topic and its queues as they are there."""

    def __init__(
        self,
        settings: PeerSettings,
        topic: str,
        hello: pb.Settings,
        clock: Clock,
        *,
        on_lite_lost: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self.resource = pb.Resource(resource_namespace=settings.namespace, name=topic)
        self._settings = settings
        self._links = Links(settings, hello, clock=clock, on_lite_lost=on_lite_lost)
        self._turns = itertools.count()
        self._queues: tuple[pb.MessageQueue, ...] = ()

    def queues(self, permissions: frozenset[int]) -> tuple[pb.MessageQueue, ...]:
        """Return the queues of masters that permit something; raise MqError where none does."""
        if not self._queues:
            self.refresh()
        found = tuple(queue for queue in self._queues if queue.permission in permissions)
        if not found:
            raise NotPermitted(f"no queue of topic {self.resource.name} there permits that")
        return found

    def refresh(self) -> None:
        """Ask again where the topic is; raise MqError."""
        request = pb.QueryRouteRequest(topic=self.resource, endpoints=self._settings.endpoints)
        answer = self.access().call("QueryRoute", request, pb.QueryRouteResponse)
        check(answer.status, f"topic {self.resource.name} there")
        self._queues = tuple(q for q in answer.message_queues if q.broker.id == _MASTER)

    def next_of(self, queues: Sequence[pb.MessageQueue]) -> pb.MessageQueue:
        """Return one after the other."""
        return queues[next(self._turns) % len(queues)]

    def access(self) -> Link:
        """Return the link to the access point."""
        return self._links.to(self._settings.endpoints)

    def link_of(self, queue: pb.MessageQueue) -> Link:
        """Return the link to where a queue is."""
        return self._links.to(queue.broker.endpoints)

    def close(self) -> None:
        """Close the links."""
        self._links.close()


class PeerTopic:
    """Sends messages to a topic there. Any number of threads may use it."""

    _PERMITS = frozenset({pb.WRITE, pb.READ_WRITE})

    def __init__(self, settings: PeerSettings, topic: str, *, clock: Clock | None = None) -> None:
        """Connect when the first message is sent."""
        resource = pb.Resource(resource_namespace=settings.namespace, name=topic)
        hello = _hello(settings, pb.PRODUCER)
        hello.publishing.topics.append(resource)
        hello.publishing.validate_message_type = True
        self._place = _Place(settings, topic, hello, clock or SystemClock())
        self._settings = settings
        self._host = socket.gethostname()[:128]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, message: Message, *, is_ranked: bool = False) -> None:
        """Store one message there under the id it has here; raise MqError.

        `is_ranked` says that it is of a topic of priorities here.

        The other side puts messages of one group into one queue, whichever queue is asked.
        """
        wanted = message_there(message, self._place.resource, self._host, is_ranked=is_ranked)
        kind = wanted.system_properties.message_type
        queue = self._place.next_of(self._place.queues(self._PERMITS))
        if kind not in queue.accept_message_types:
            taken = ", ".join(pb.MessageType.Name(one) for one in queue.accept_message_types)
            raise MessageIllegal(
                f"message {message.message_id} is {pb.MessageType.Name(kind)}, and topic"
                f" {self._place.resource.name} there takes {taken or 'nothing'}"
            )
        request = pb.SendMessageRequest(messages=[wanted])
        answer = self._place.link_of(queue).call("SendMessage", request, pb.SendMessageResponse)
        what = f"message {message.message_id}"
        check(answer.status, what)
        for entry in answer.entries:
            check(entry.status, what)

    def look_again(self) -> None:
        """Ask again where the topic is; raise MqError."""
        self._place.refresh()

    def close(self) -> None:
        """Take leave and end."""
        self._place.close()


class PeerGroup:
    """Receives a topic's messages there as a member of a group. One thread may use it.

    Of a parent it receives the messages of the lite topics that are named, and of no others.
    """

    _PERMITS = frozenset({pb.READ, pb.READ_WRITE})

    def __init__(
        self,
        settings: PeerSettings,
        topic: str,
        group: str,
        *,
        wait_ms: int,
        lites: Sequence[str] = (),
        lite_begin: pb.OffsetOption | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Connect when it is first asked for messages; one receive waits for `wait_ms`.

        `lite_begin` is where the group is to begin in the lite topics; without it that is the
        group's own business.
        """
        clock = clock or SystemClock()
        self._group = pb.Resource(resource_namespace=settings.namespace, name=group)
        resource = pb.Resource(resource_namespace=settings.namespace, name=topic)
        hello = _hello(settings, pb.LITE_SIMPLE_CONSUMER if lites else pb.SIMPLE_CONSUMER)
        hello.subscription.group.CopyFrom(self._group)
        hello.subscription.long_polling_timeout.CopyFrom(_duration(wait_ms))
        hello.subscription.subscriptions.append(
            pb.SubscriptionEntry(topic=resource, expression=_everything())
        )
        self._lites = LiteSet(self._group, resource, lites, begin=lite_begin, clock=clock)
        self._place = _Place(settings, topic, hello, clock, on_lite_lost=self._lites.lost)
        self._settings = settings
        self._wait_ms = wait_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place_count(self) -> int:
        """Return how many brokers have the topic: so many receives ask all of them once."""
        queues = self._place.queues(self._PERMITS)
        return len({queue.broker.name for queue in queues})

    def receive(
        self, messages_max: int, *, invisible_ms: int
    ) -> tuple[pb.MessageQueue, list[pb.Message]]:
        """Return messages of the next broker, and what to settle them by; raise MqError.

        They are this member's for `invisible_ms`; none where the wait ended without one. Raises
        InvalidArgument where lite topics are named of a topic that has none, or none of a parent;
        and Conflict where one of them is another client's.
        """
        queues = self._place.queues(self._PERMITS)
        self._lites.check_parent(queues)
        self._lites.say_if_due(self._place.access)
        # A receive is answered from all queues of a broker.
        firsts = {queue.broker.name: queue for queue in reversed(queues)}
        queue = self._place.next_of(list(firsts.values()))
        request = pb.ReceiveMessageRequest(
            group=self._group,
            message_queue=queue,
            filter_expression=_everything(),
            batch_size=messages_max,
            invisible_duration=_duration(invisible_ms),
            auto_renew=False,
            long_polling_timeout=_duration(self._wait_ms),
        )
        timeout_s = self._wait_ms / 1000 + self._settings.timeout_s
        link = self._place.link_of(queue)
        status, messages = None, []
        for frame in link.frames(
            "ReceiveMessage", request, pb.ReceiveMessageResponse, timeout_s=timeout_s
        ):
            content = frame.WhichOneof("content")
            if content == "status":
                status = frame.status
            elif content == "message":
                messages.append(frame.message)
        if status is None:
            raise ProtocolViolation("an answer without a status")
        if status.code != pb.MESSAGE_NOT_FOUND:
            check(status, f"group {self._group.name} there")
        return queue, messages

    def ack(self, queue: pb.MessageQueue, messages: Sequence[pb.Message]) -> list[MqError]:
        """Settle messages for good; return what went wrong, message by message; raise MqError."""
        request = pb.AckMessageRequest(
            group=self._group,
            topic=self._place.resource,
            entries=[
                pb.AckMessageEntry(
                    message_id=message.system_properties.message_id,
                    receipt_handle=message.system_properties.receipt_handle,
                    lite_topic=message.system_properties.lite_topic or None,
                )
                for message in messages
            ],
        )
        answer = self._place.link_of(queue).call("AckMessage", request, pb.AckMessageResponse)
        refused = []
        for entry in answer.entries:
            try:
                check(entry.status, f"message {entry.message_id}")
            except MqError as error:
                refused.append(error)
        if not refused:
            check(answer.status, "acknowledgement")
        return refused

    def look_again(self) -> None:
        """Ask again where the topic is; raise MqError."""
        # Who came back may have forgotten everybody's lite topics.
        self._lites.is_said = False
        self._place.refresh()

    def close(self) -> None:
        """Take leave and end."""
        self._place.close()


def _hello(settings: PeerSettings, kind: pb.ClientType) -> pb.Settings:
    return pb.Settings(
        client_type=kind,
        access_point=settings.endpoints,
        backoff_policy=pb.RetryPolicy(
            max_attempts=_ATTEMPTS,
            exponential_backoff=pb.ExponentialBackoff(
                initial=_duration(100), max=_duration(5_000), multiplier=2.0
            ),
        ),
        request_timeout=_duration(int(settings.timeout_s * 1000)),
        user_agent=pb.UA(
            language=_LANGUAGE,
            version=_VERSION,
            platform="mqclient",
            hostname=socket.gethostname()[:128],
        ),
    )


def _everything() -> pb.FilterExpression:
    return pb.FilterExpression(type=pb.TAG, expression="*")


def _duration(time_ms: int) -> Duration:
    return Duration(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)
