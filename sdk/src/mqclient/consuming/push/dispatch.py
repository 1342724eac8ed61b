"""Which messages a listener gets next. Pure: knows no sockets or threads; its owner keeps the lock.

Queues with something to do stand in a line. What hinders a queue from being worked on takes it out
of the line; whatever ends the hindrance lines it up again.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from mqclient.consuming.push.listening import Delivery, ListenerContext
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.push.timers import Timers
from mqclient.errors import MqError
from mqclient.values import TopicQueue
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")


class SendBack(Protocol):
    """Takes messages that are to be sent back to the broker."""

    def __call__(
        self, snapshot: Snapshot, messages: list[Message], *, level: int | None, reason: str
    ) -> None:
        """Send messages back soon."""


class Dispatch(ABC):
    """The line, and what both kinds of listening have in common."""

    def __init__(
        self,
        settings: PushSettings,
        *,
        snapshots: Mapping[TopicQueue, Snapshot],
        timers: Timers,
        send_back: SendBack,
    ) -> None:
        self._send_back = send_back
        self._settings = settings
        self._snapshots = snapshots
        self._timers = timers
        self._line: deque[Snapshot] = deque()

    @property
    def has_line(self) -> bool:
        """Tell whether a queue stands in the line."""
        return bool(self._line)

    def line_up(self, snapshot: Snapshot | None) -> None:
        """Look at a queue when its turn comes."""
        if snapshot is not None and not snapshot.is_lined and not snapshot.is_dropped:
            snapshot.is_lined = True
            self._line.append(snapshot)

    def next(self, now_s: float) -> Delivery | None:
        """Take messages of the first queue in the line that has some and may be worked on."""
        while self._line:
            snapshot = self._line.popleft()
            snapshot.is_lined = False
            delivery = self._take(snapshot, now_s)
            if delivery is not None:
                return delivery
        return None

    @abstractmethod
    def may_begin(self, snapshot: Snapshot, now_s: float) -> bool:
        """Tell whether a listener may run at this moment with messages that were taken."""

    @abstractmethod
    def give_back(self, delivery: Delivery) -> None:
        """Take messages back that no listener has seen."""

    @abstractmethod
    def settle(
        self, delivery: Delivery, done_count: int, failure: str, now_s: float
    ) -> Delivery | None:
        """Take what a listener did; return what the same listener goes on with, if anything."""

    @abstractmethod
    def _take(self, snapshot: Snapshot, now_s: float) -> Delivery | None: ...

    def returned(self, snapshot: Snapshot, messages: list[Message]) -> None:
        """Take that the broker has messages that failed here; they are done."""
        snapshot.finish(messages)

    @abstractmethod
    def kept(
        self, snapshot: Snapshot, messages: list[Message], error: MqError, now_s: float
    ) -> None:
        """Take that the broker has not taken failed messages back; they are still this side's."""

    def _finish(self, delivery: Delivery, done_count: int) -> list[Message]:
        """Forget what a listener has done; return what it has not."""
        delivery.snapshot.running -= 1
        delivery.snapshot.finish(delivery.messages[:done_count])
        return delivery.messages[done_count:]

    def _drop(self, snapshot: Snapshot, failed: list[Message], failure: str) -> None:
        """Forget what failed: nobody else has what is broadcast to this member."""
        logger.error("%d messages are dropped, from %r on: %s", len(failed), failed[0], failure)
        snapshot.finish(failed)

    def _delivery(self, snapshot: Snapshot, messages: list[Message]) -> Delivery:
        snapshot.running += 1
        first = messages[0]
        attempt = first.reconsume_times + snapshot.attempts.get(first.queue_offset, 0) + 1
        context = ListenerContext(queue=snapshot.place, attempt=attempt, epoch=snapshot.epoch)
        return Delivery(snapshot=snapshot, messages=messages, context=context)
