"""Pulling queues: which one next, and what its answer means. Pure: knows no sockets or threads."""

import logging
from collections.abc import Callable
from typing import Protocol

from mqclient.consuming.errands import RETRY_S
from mqclient.consuming.push.locks import LockKeeper
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.subscriptions import tags_of
from mqclient.errors import Busy, LockLost, MqError, StaleGeneration
from mqclient.protocol.backoff import told_s
from mqclient.protocol.calls import Call, Calls
from mqclient.values import PullStatus, Reader, TopicQueue
from mqclient.wire.batches import Pulled
from mqclient.wire.filters import matching
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# RocketMQ's pauses: the cache is full, the broker has too much to do, anything else went wrong.
_FULL_PAUSE_S = 0.05
_BUSY_PAUSE_S = 0.02
# With more queues than pulls may be under way, a long hold of one would starve another.
_SHORT_HOLD_MS = 50
# A pull that brought nothing long before its hold was over is not repeated at once.
_EARLY_PAUSE_S = 0.05


class Owner(Protocol):
    """Who is told that a queue cannot be read on as it was."""

    def lock_lost(self, snapshot: Snapshot) -> None:
        """Take that the broker refused the epoch of a queue's lock."""

    def stale(self, snapshot: Snapshot) -> None:
        """Take that the queue is another member's by now."""

    def replace(self, snapshot: Snapshot, offset: int) -> None:
        """Take that the queue ends before what was read of it; go on at the offset."""


class Reading:
    """At most one pull a queue, `pulls_max` in all."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        snapshots: dict[TopicQueue, Snapshot],
        locks: LockKeeper | None,
        generation: Callable[[], int],
        owner: Owner,
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._snapshots = snapshots
        self._locks = locks
        self._generation = generation
        self._owner = owner
        self._wanted = {item.topic: item.filter for item in settings.wanted}
        self._tags = {item.topic: tags_of(item.filter) for item in settings.wanted}
        self._sent_s: dict[object, float] = {}
        self.is_paused = False

    def next_s(self, now_s: float) -> float | None:
        """Return the moment of the next pull, None for not before an event."""
        if self.is_paused or len(self._sent_s) >= self._settings.pulls_max:
            return None
        moments = [
            snapshot.not_before_s
            for snapshot in self._snapshots.values()
            if self._is_hungry(snapshot, now_s)
        ]
        return min(moments, default=None)

    def next(self, now_s: float) -> Snapshot | None:
        """Return the queue to pull, behind which the others have their turn."""
        if self.is_paused or len(self._sent_s) >= self._settings.pulls_max:
            return None
        for place, snapshot in self._snapshots.items():
            if snapshot.not_before_s <= now_s and self._is_hungry(snapshot, now_s):
                self._snapshots[place] = self._snapshots.pop(place)
                return snapshot
        return None

    def begin(self, snapshot: Snapshot, now_s: float) -> tuple[Call[Pulled], object]:
        """Make the pull of a queue; its answer is told by the ticket."""
        settings, place = self._settings, snapshot.place
        is_crowded = len(self._snapshots) > settings.pulls_max
        reader = None
        if not settings.is_broadcasting:
            reader = Reader(
                group=settings.group,
                client_id=settings.client_id,
                generation=self._generation(),
                epoch=snapshot.epoch,
            )
        call = self._calls.pull(
            place.topic,
            place.queue,
            snapshot.position or 0,
            messages_max=settings.pull_messages_max,
            bytes_max=settings.pull_bytes_max,
            wait_ms=min(settings.hold_ms, _SHORT_HOLD_MS) if is_crowded else settings.hold_ms,
            wanted=self._wanted[place.topic],
            reader=reader,
        )
        snapshot.ticket = object()
        self._sent_s[snapshot.ticket] = now_s
        return call, snapshot.ticket

    def done(
        self,
        snapshot: Snapshot,
        ticket: object,
        pulled: Pulled | None,
        error: MqError | None,
        now_s: float,
    ) -> bool:
        """Take what came of a pull; return whether it brought messages."""
        held_s = now_s - self._sent_s.pop(ticket)
        if snapshot.ticket is not ticket:
            return False
        snapshot.ticket = None
        if pulled is None:
            self._failed(snapshot, error or MqError("no answer"), now_s)
            return False
        snapshot.pull_attempt = 0
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            self._corrected(snapshot, pulled, now_s)
            return False
        is_still = pulled.next_offset == snapshot.position
        messages = self.wanted(snapshot.place, pulled.messages)
        snapshot.arrive(messages, pulled.next_offset)
        if is_still and held_s < self._settings.hold_ms / 2000:
            snapshot.not_before_s = now_s + _EARLY_PAUSE_S
        elif self._is_full(snapshot):
            snapshot.not_before_s = now_s + _FULL_PAUSE_S
        return bool(messages)

    def wanted(self, place: TopicQueue, messages: list[Message]) -> list[Message]:
        """Return the messages that are wanted, and not only of a tag with the same hash."""
        return matching(messages, self._tags[place.topic])

    def is_waiting_for_room(self, snapshot: Snapshot) -> bool:
        """Tell whether nothing but what is read ahead keeps a queue from being pulled."""
        return snapshot.ticket is None and self._is_full(snapshot)

    def _is_hungry(self, snapshot: Snapshot, now_s: float) -> bool:
        if snapshot.ticket is not None or snapshot.position is None or self._is_full(snapshot):
            return False
        if self._locks is None:
            return True
        epoch = self._locks.trusted_epoch(snapshot.place, now_s)
        return epoch is not None and epoch == snapshot.epoch

    def _is_full(self, snapshot: Snapshot) -> bool:
        settings = self._settings
        return (
            len(snapshot.unfinished) >= settings.cached_messages_max
            or snapshot.bytes >= settings.cached_bytes_max
            or (not settings.ordered and snapshot.span > settings.span_max)
        )

    def _corrected(self, snapshot: Snapshot, pulled: Pulled, now_s: float) -> None:
        logger.warning(
            "%s: offset %s is not between %d and %d; going on at %d",
            snapshot.place, snapshot.position, pulled.min_offset, pulled.max_offset,
            pulled.next_offset,
        )  # fmt: skip
        if pulled.next_offset < (snapshot.position or 0):
            # What was read beyond the end is not in the queue any more.
            self._owner.replace(snapshot, pulled.next_offset)
        else:
            # What was read before it was deleted is still worth a listener.
            snapshot.arrive([], pulled.next_offset)
            snapshot.not_before_s = now_s + RETRY_S

    def _failed(self, snapshot: Snapshot, error: MqError, now_s: float) -> None:
        if isinstance(error, LockLost):
            self._owner.lock_lost(snapshot)
            return
        if isinstance(error, StaleGeneration):
            self._owner.stale(snapshot)
            return
        snapshot.pull_attempt += 1
        if snapshot.pull_attempt == 1:
            logger.warning("%s cannot be read, trying on: %s", snapshot.place, error)
        doubled_s = _BUSY_PAUSE_S * 2 ** min(snapshot.pull_attempt - 1, 16)
        pause_s = min(doubled_s, RETRY_S) if isinstance(error, Busy) else RETRY_S
        snapshot.not_before_s = now_s + max(pause_s, told_s(error))
