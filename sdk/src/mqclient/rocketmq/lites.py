"""The lite topics one client there is subscribed to. Knows names, and the request that says them.

The other side has the set in memory only, so it is said again every half minute, as by any client.
"""

from collections.abc import Callable, Iterable, Sequence

from mqclient.clock import Clock
from mqclient.errors import Conflict, InvalidArgument
from mqclient.rocketmq.connections import Link
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.rocketmq.statuses import check

_AGAIN_S = 30.0


class LiteSet:
    """The set of one client of a group; empty for a client that reads no parent."""

    def __init__(
        self,
        group: pb.Resource,
        parent: pb.Resource,
        names: Sequence[str],
        *,
        begin: pb.OffsetOption | None,
        clock: Clock,
    ) -> None:
        """Say nothing yet. `begin` is said once, for each lite topic, before the set is."""
        self._group = group
        self._parent = parent
        self._names = tuple(dict.fromkeys(names))
        self._begin = begin
        self._clock = clock
        self._said_s = 0.0
        self.is_said = False
        """Whether the other side knows the set, as far as is known here."""
        self._lost: list[str] = []

    def check_parent(self, queues: Iterable[pb.MessageQueue]) -> None:
        """Raise InvalidArgument unless names go with a parent, and a parent with names."""
        is_parent = all(list(queue.accept_message_types) == [pb.LITE] for queue in queues)
        if is_parent and not self._names:
            raise InvalidArgument(
                f"topic {self._parent.name} there is of lite topics: only those are handed out"
                " that are named"
            )
        if self._names and not is_parent:
            raise InvalidArgument(f"topic {self._parent.name} there has no lite topics")

    def say_if_due(self, access: Callable[[], Link]) -> None:
        """Subscribe, or say again that this client is subscribed; raise MqError.

        Raises Conflict for a lite topic that is another client's now.
        """
        if self._lost:
            raise Conflict(
                f"lite topic {self._lost[0]} of {self._parent.name} there is another client's of"
                f" group {self._group.name}"
            )
        now_s = self._clock.steady_s()
        if not self._names or (self.is_said and now_s - self._said_s < _AGAIN_S):
            return
        if self._begin is not None:
            # One at a time: what is said of several is not taken alike everywhere.
            for name in self._names:
                self._say(access(), pb.PARTIAL_ADD, [name], self._begin)
            self._begin = None
        self._say(access(), pb.COMPLETE_ADD, self._names, None)
        self._said_s, self.is_said = now_s, True

    def lost(self, name: str) -> None:
        """Hear, in another thread, that a lite topic is another client's now."""
        self._lost.append(name)

    def _say(
        self,
        link: Link,
        action: pb.LiteSubscriptionAction,
        names: Sequence[str],
        begin: pb.OffsetOption | None,
    ) -> None:
        request = pb.SyncLiteSubscriptionRequest(
            action=action,
            topic=self._parent,
            group=self._group,
            lite_topic_set=names,
            offset_option=begin,
        )
        answer = link.call("SyncLiteSubscription", request, pb.SyncLiteSubscriptionResponse)
        check(answer.status, f"subscription of group {self._group.name} there")
