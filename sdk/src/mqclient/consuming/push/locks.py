"""Locks of an ordered consumer's queues: asking, renewing, and how long each is trusted.

Pure: knows no sockets or threads, and takes the time it is told. A lock is trusted from before its
request was sent, so that whatever happens to the answer or to this process, trust ends before the
broker's lease does. Who was paused for longer finds that nothing is trusted any more.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mqclient.clock import Clock
from mqclient.consuming.errands import again_s
from mqclient.consuming.push.settings import PushSettings
from mqclient.errors import MqError
from mqclient.protocol.calls import Call, Calls
from mqclient.values import LockAnswer, LockGrant, TopicQueue

logger = logging.getLogger("mqclient")

# Of the broker's lease: half is trusted, and renewed after a third, so that one renewal may fail.
_TRUSTED_PART = 1 / 2
_RENEWED_PART = 1 / 3


@dataclass(slots=True)
class _Lock:
    """A queue whose lock is wanted; `epoch` None is not held."""

    ask_s: float
    epoch: int | None = None
    trusted_until_s: float = 0.0


class LockKeeper:
    """The errand of locks. `on_granted` is called with a new epoch, `on_lost` when one is gone."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        clock: Clock,
        on_granted: Callable[[TopicQueue, int], None],
        on_lost: Callable[[TopicQueue], None],
        on_renewed: Callable[[TopicQueue], None],
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._on_granted = on_granted
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._locks: dict[TopicQueue, _Lock] = {}
        # With its lock: one that was forgotten meanwhile is not granted by an old answer.
        self._asked: dict[TopicQueue, _Lock] = {}
        self._sent_s = 0.0

    def want(self, place: TopicQueue) -> None:
        """Ask for a queue's lock until it is had, and keep it."""
        if place not in self._locks:
            self._locks[place] = _Lock(self._clock.steady_s())

    def forget(self, place: TopicQueue) -> None:
        """Ask no more, and trust the lock no more."""
        self._locks.pop(place, None)

    def trusted_epoch(self, place: TopicQueue, now_s: float) -> int | None:
        """Return the epoch of a lock that is surely this member's, None without one."""
        lock = self._locks.get(place)
        return lock.epoch if lock is not None and now_s < lock.trusted_until_s else None

    def lose(self, place: TopicQueue) -> None:
        """Trust a lock no more, since the broker refused its epoch; ask for a new one."""
        lock = self._locks.get(place)
        if lock is not None:
            self._drop(place, lock, self._clock.steady_s() + self._settings.lock_ask_s)

    def next_s(self) -> float | None:
        """Return the moment of the next request, None while one is under way."""
        if self._asked or not self._locks:
            return None
        return min(lock.ask_s for lock in self._locks.values())

    def begin(self, now_s: float) -> Call[LockAnswer] | None:
        """Ask for what is due; with a renewal all held ones are renewed."""
        due = {place for place, lock in self._locks.items() if lock.ask_s <= now_s}
        if any(self._locks[place].epoch is not None for place in due):
            due |= {place for place, lock in self._locks.items() if lock.epoch is not None}
        if not due:
            return None
        self._asked = {place: self._locks[place] for place in sorted(due)}
        self._sent_s = now_s
        settings = self._settings
        return self._calls.acquire_locks(settings.group, settings.client_id, self._asked)

    def done(self, answer: LockAnswer | None, error: MqError | None, now_s: float) -> None:
        """Take what was granted and refused; without an answer what is held runs down."""
        asked = {
            place: lock for place, lock in self._asked.items() if self._locks.get(place) is lock
        }
        self._asked = {}
        if answer is None:
            if error is not None and not error.retriable:
                logger.warning("locks are refused, asking again: %s", error)
            ask_s = again_s(now_s, error)
            for lock in asked.values():
                lock.ask_s = ask_s
            return
        granted = {grant.place: grant for grant in answer.locked}
        for place, lock in asked.items():
            if place in granted:
                self._grant(place, lock, granted[place])
            else:
                self._drop(place, lock, now_s + self._settings.lock_ask_s)

    def _grant(self, place: TopicQueue, lock: _Lock, grant: LockGrant) -> None:
        lease_s = grant.expires_in_ms / 1000
        settings = self._settings
        lock.trusted_until_s = self._sent_s + min(settings.lock_valid_s, lease_s * _TRUSTED_PART)
        lock.ask_s = self._sent_s + min(settings.lock_renew_s, lease_s * _RENEWED_PART)
        if lock.epoch == grant.epoch:
            self._on_renewed(place)
            return
        lock.epoch = grant.epoch
        self._on_granted(place, grant.epoch)

    def _drop(self, place: TopicQueue, lock: _Lock, ask_s: float) -> None:
        was_held = lock.epoch is not None
        lock.epoch, lock.trusted_until_s, lock.ask_s = None, 0.0, ask_s
        if was_held:
            self._on_lost(place)
