"""Listening without order: several listeners a queue, failed messages are sent back."""

import logging

from mqclient.consuming.push.dispatch import Dispatch
from mqclient.consuming.push.listening import Delivery
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.errors import MqError
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")


class ConcurrentDispatch(Dispatch):
    """Gives out batches as fast as listeners take them.

    A failed message is unfinished, and so holds back its queue's commit, until the broker has it
    for a later try. When that cannot be reached it comes again here.
    """

    def may_begin(self, snapshot: Snapshot, _now_s: float) -> bool:
        """Tell whether the queue is still this member's."""
        return not snapshot.is_dropped

    def give_back(self, delivery: Delivery) -> None:
        """Take messages back; they are the next of their queue."""
        delivery.snapshot.running -= 1
        if not delivery.snapshot.is_dropped:
            delivery.snapshot.retries.appendleft(delivery.messages)
            self.line_up(delivery.snapshot)

    def settle(
        self, delivery: Delivery, done_count: int, failure: str, now_s: float
    ) -> Delivery | None:
        """Forget what is done; send the rest back, or drop it where nobody else has it."""
        snapshot = delivery.snapshot
        failed = self._finish(delivery, done_count)
        if not failed:
            return None
        if delivery.is_untried:
            self._again_later(snapshot, failed, now_s)
            return None
        if self._settings.is_broadcasting:
            self._drop(snapshot, failed, failure)
            return None
        if not snapshot.is_dropped:
            context = delivery.context
            reason = context.reason or failure
            self._send_back(snapshot, failed, level=context.delay_level, reason=reason)
        return None

    def kept(
        self, snapshot: Snapshot, messages: list[Message], error: MqError, now_s: float
    ) -> None:
        """Have messages come again here after a while."""
        logger.warning(
            "%d messages of %s are not taken back and stay here, from %r on: %s",
            len(messages), snapshot.place, messages[0], error,
        )  # fmt: skip
        snapshot.fail(messages)
        snapshot.blocked_reason = str(error)
        self._again_later(snapshot, messages, now_s)

    def _take(self, snapshot: Snapshot, _now_s: float) -> Delivery | None:
        if snapshot.is_dropped:
            return None
        if snapshot.retries:
            messages = snapshot.retries.popleft()
        else:
            messages = snapshot.take_fresh(self._settings.consume_batch_max)
        if snapshot.retries or snapshot.fresh:
            self.line_up(snapshot)
        return self._delivery(snapshot, messages) if messages else None

    def _again_later(self, snapshot: Snapshot, messages: list[Message], now_s: float) -> None:
        moment_s = now_s + self._settings.retry_delay_ms / 1000
        self._timers.at(moment_s, lambda: self._again(snapshot, messages))

    def _again(self, snapshot: Snapshot, messages: list[Message]) -> None:
        if not snapshot.is_dropped:
            snapshot.retries.append(messages)
            self.line_up(snapshot)
