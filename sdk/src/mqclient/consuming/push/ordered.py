"""Listening in order: one listener a queue, and nothing passes a message that failed.

Locks three and four of RocketMQ. The *object lock* of a queue belongs to a delivery from the moment
its messages are taken until they are settled and the offset has moved. It is kept by the queue's
name, so it also holds between a snapshot that was lost and the one that came after it. The *consume
lock* is the part of it in which the listener runs: it begins only if the queue is still this
member's and its lock is trusted at that moment, and giving up the queue waits for its end.
"""

import logging
from collections.abc import Callable, Mapping

from mqclient.consuming.push.dispatch import Dispatch, SendBack
from mqclient.consuming.push.listening import Delivery
from mqclient.consuming.push.locks import LockKeeper
from mqclient.consuming.push.returning import BURY
from mqclient.consuming.push.settings import SUSPEND_MS_MAX, SUSPEND_MS_MIN, PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.push.timers import Timers
from mqclient.errors import MqError
from mqclient.values import TopicQueue
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")


class OrderedDispatch(Dispatch):
    """Gives out one batch a queue at a time. `locks` None is a broadcasting member.

    `attempts_max` says after how many attempts a message is given up, None for never. It goes to
    the dead letters then, or is skipped, or its queue stands still, as the settings say.
    """

    def __init__(
        self,
        settings: PushSettings,
        *,
        snapshots: Mapping[TopicQueue, Snapshot],
        timers: Timers,
        locks: LockKeeper | None,
        attempts_max: Callable[[], int | None],
        send_back: SendBack,
    ) -> None:
        super().__init__(settings, snapshots=snapshots, timers=timers, send_back=send_back)
        self._locks = locks
        self._attempts_max = attempts_max
        self._object_locks: set[TopicQueue] = set()

    def may_begin(self, snapshot: Snapshot, now_s: float) -> bool:
        """Tell whether the queue is still this member's, and its lock trusted."""
        if snapshot.is_dropped:
            return False
        if self._locks is None:
            return True
        epoch = self._locks.trusted_epoch(snapshot.place, now_s)
        return epoch is not None and epoch == snapshot.epoch

    def give_back(self, delivery: Delivery) -> None:
        """Take messages back and open the object lock."""
        delivery.snapshot.running -= 1
        delivery.snapshot.put_back(delivery.messages)
        self._unlock(delivery.snapshot.place)

    def settle(
        self, delivery: Delivery, done_count: int, failure: str, now_s: float
    ) -> Delivery | None:
        """Move the offset; suspend the queue where something failed, else go on with it."""
        snapshot = delivery.snapshot
        failed = self._finish(delivery, done_count)
        if failed:
            self._failed(delivery, failed, failure, now_s)
        elif self._goes_on(snapshot, now_s):
            return self._delivery(snapshot, self._take_fresh(snapshot))
        self._unlock(snapshot.place)
        return None

    def returned(self, snapshot: Snapshot, messages: list[Message]) -> None:
        """Go on behind a message that is a dead letter."""
        snapshot.take_fresh(len(messages))
        snapshot.finish(messages)
        snapshot.is_returning = snapshot.is_exhausted = False
        self.line_up(snapshot)

    def kept(
        self, snapshot: Snapshot, messages: list[Message], error: MqError, now_s: float
    ) -> None:
        """Stand still, and try to bury the message again where that may help."""
        snapshot.blocked_reason = f"{snapshot.blocked_reason}; not taken as a dead letter: {error}"
        if not error.retriable:
            logger.error("%s stands still at %r: %s", snapshot.place, messages[0], error)
            snapshot.is_returning = False
            return
        logger.warning("%r is no dead letter yet: %s", messages[0], error)
        moment_s = now_s + self._settings.retry_delay_ms / 1000
        reason = snapshot.blocked_reason
        self._timers.at(moment_s, lambda: self._bury(snapshot, messages, reason))

    def _take(self, snapshot: Snapshot, now_s: float) -> Delivery | None:
        is_free = (
            snapshot.place not in self._object_locks
            and not snapshot.is_exhausted
            and now_s >= snapshot.suspended_until_s
            and self.may_begin(snapshot, now_s)
        )
        if not is_free or not snapshot.fresh:
            return None
        self._object_locks.add(snapshot.place)
        snapshot.continuous_since_s = now_s
        return self._delivery(snapshot, self._take_fresh(snapshot))

    def _take_fresh(self, snapshot: Snapshot) -> list[Message]:
        return snapshot.take_fresh(self._settings.consume_batch_max)

    def _goes_on(self, snapshot: Snapshot, now_s: float) -> bool:
        is_tired = now_s - snapshot.continuous_since_s >= self._settings.continuous_s
        return bool(snapshot.fresh) and not is_tired and self.may_begin(snapshot, now_s)

    def _unlock(self, place: TopicQueue) -> None:
        self._object_locks.discard(place)
        # Not always the snapshot that held it: that one may have been lost, and the queue be back.
        self.line_up(self._snapshots.get(place))

    def _failed(
        self, delivery: Delivery, failed: list[Message], failure: str, now_s: float
    ) -> None:
        snapshot = delivery.snapshot
        if delivery.is_untried:
            self._suspend(delivery, failed, now_s)
            return
        if self._settings.is_broadcasting:
            self._drop(snapshot, failed, failure)
            return
        attempts = snapshot.fail(failed)
        snapshot.blocked_reason = failure
        if snapshot.is_dropped:
            return
        attempts_max = self._attempts_max()
        level = delivery.context.delay_level
        is_over = attempts_max is not None and attempts >= attempts_max
        if is_over or (level is not None and level < 0):
            snapshot.put_back(failed)
            self._exhausted(snapshot, attempts, delivery.context.reason or failure)
            return
        self._suspend(delivery, failed, now_s)

    def _suspend(self, delivery: Delivery, messages: list[Message], now_s: float) -> None:
        """Have messages come again before the others of their queue, after a while."""
        snapshot = delivery.snapshot
        if snapshot.is_dropped:
            return
        snapshot.put_back(messages)
        suspend_ms = delivery.context.suspend_ms or self._settings.suspend_ms
        bounded_ms = max(SUSPEND_MS_MIN, min(suspend_ms, SUSPEND_MS_MAX))
        snapshot.suspended_until_s = now_s + bounded_ms / 1000
        self._timers.at(snapshot.suspended_until_s, lambda: self.line_up(snapshot))

    def _exhausted(self, snapshot: Snapshot, attempts: int, failure: str) -> None:
        head = snapshot.fresh[0]
        if self._settings.is_skipping:
            logger.error("%r is skipped after %d attempts: %s", head, attempts, failure)
            snapshot.finish(snapshot.take_fresh(1))
            return
        snapshot.is_exhausted = True
        if self._settings.is_burying:
            logger.error("%r is given up after %d attempts: %s", head, attempts, failure)
            snapshot.is_returning = True
            self._bury(snapshot, [head], failure)
        else:
            logger.error("%s stands still at %r: %s", snapshot.place, head, failure)

    def _bury(self, snapshot: Snapshot, messages: list[Message], reason: str) -> None:
        if not snapshot.is_dropped:
            self._send_back(snapshot, messages, level=BURY, reason=reason)
