"""Giving up queues: wait for the listeners, commit, release the lock. Pure: no sockets or threads.

A lock is not released under a listener that still runs. When that takes too long nothing is
released: the broker's lease then decides when another may begin.
"""

import logging
from collections.abc import Callable

from mqclient.consuming.errands import again_s
from mqclient.consuming.push.commits import Committer, Entry
from mqclient.consuming.push.locks import LockKeeper
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.consuming.push.timers import Timers
from mqclient.errors import MqError
from mqclient.protocol.calls import Call, Calls
from mqclient.values import LockAnswer, TopicQueue

logger = logging.getLogger("mqclient")


class Farewells:
    """The errand of releases. `on_gone` is called when a queue may begin here anew."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        committer: Committer,
        locks: LockKeeper | None,
        timers: Timers,
        on_gone: Callable[[TopicQueue], None],
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._committer = committer
        self._locks = locks
        self._timers = timers
        self._on_gone = on_gone
        self._leaving: dict[TopicQueue, Snapshot] = {}
        self._given_up: set[Snapshot] = set()
        # With how often a release failed.
        self._to_release: dict[TopicQueue, int] = {}
        # A release that arrives late must not take a lock that was taken anew by then.
        self._epochs: dict[TopicQueue, int] = {}
        self._asked: tuple[TopicQueue, ...] = ()
        self._not_before_s = 0.0

    def __contains__(self, place: TopicQueue) -> bool:
        return place in self._leaving or place in self._to_release or place in self._asked

    def add(self, snapshot: Snapshot, now_s: float) -> None:
        """Give up a queue, whose snapshot is dropped, as soon as no listener has it."""
        self._leaving[snapshot.place] = snapshot
        if snapshot.running:
            deadline_s = now_s + self._settings.loss_wait_s
            self._timers.at(deadline_s, lambda: self._give_up(snapshot))
        # Said at once also where listeners still run: another may begin there at any moment.
        self._committer.say_last(snapshot)

    def settled(self, snapshot: Snapshot) -> None:
        """Take that no listener has messages of a queue any more."""
        if self._leaving.get(snapshot.place) is snapshot:
            self._committer.say_last(snapshot)

    def committed(self, snapshot: Snapshot) -> None:
        """Take that the last word on a queue was said."""
        place = snapshot.place
        if self._leaving.get(place) is not snapshot:
            return
        if snapshot not in self._given_up:
            if snapshot.running:
                return
            if snapshot.commit_offset not in (None, snapshot.committed):
                # A listener ended while the last word was on its way.
                self._committer.say_last(snapshot)
                return
        del self._leaving[place]
        self._given_up.discard(snapshot)
        if self._locks is None:
            self._on_gone(place)
            return
        self._locks.forget(place)
        if snapshot.running or snapshot.epoch is None:
            self._on_gone(place)
        else:
            self._to_release[place] = 0
            self._epochs[place] = snapshot.epoch

    def uncommitted(self) -> list[Entry]:
        """Return the queues on which the last word is still to be said."""
        return [
            Entry(snapshot, offset, is_last=True)
            for snapshot in self._leaving.values()
            if (offset := snapshot.commit_offset) is not None and offset != snapshot.committed
        ]

    def next_s(self) -> float | None:
        """Return the moment of the next release, None while one is under way."""
        return self._not_before_s if self._to_release and not self._asked else None

    def begin(self, _now_s: float) -> Call[LockAnswer]:
        """Release the locks of queues that are given up."""
        self._asked = tuple(self._to_release)
        epochs = {place: self._epochs[place] for place in self._asked}
        return self._calls.release_locks(
            self._settings.group, self._settings.client_id, self._asked, epochs=epochs
        )

    def done(self, _answer: LockAnswer | None, error: MqError | None, now_s: float) -> None:
        """Take that locks were released; a second request is made, not a third."""
        asked, self._asked = self._asked, ()
        later_s = again_s(now_s, error)
        for place in asked:
            if error is not None and error.retriable and not self._to_release[place]:
                self._to_release[place] += 1
                self._not_before_s = later_s
                continue
            if error is not None:
                logger.warning("%s is not released and waits for its lease: %s", place, error)
            del self._to_release[place], self._epochs[place]
            self._on_gone(place)

    def _give_up(self, snapshot: Snapshot) -> None:
        if self._leaving.get(snapshot.place) is snapshot and snapshot.running:
            logger.warning(
                "%s is lost and a listener still runs after %.0f s; its lock is not released",
                snapshot.place, self._settings.loss_wait_s,
            )  # fmt: skip
            self._given_up.add(snapshot)
            self._committer.say_last(snapshot)
