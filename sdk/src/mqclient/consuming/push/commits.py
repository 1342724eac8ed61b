"""Telling the broker how far the group is. Pure: knows no sockets or threads.

What is committed is always true: everything below is done. So the last word on a queue that is lost
is said without a generation; the broker lets it move the group forward only.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqclient.consuming.errands import again_s
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.errors import MqError, Refused, StaleGeneration
from mqclient.protocol.calls import Call, Calls
from mqclient.values import QueueOffset, TopicQueue

logger = logging.getLogger("mqclient")


@dataclass(frozen=True, slots=True)
class Entry:
    """How far one queue is. The last word on a queue is repeated until it is settled."""

    snapshot: Snapshot
    offset: int
    is_last: bool


class Committer:
    """The errand of commits.

    A request is carried out whole or not at all, so after a refusal each queue is tried by itself:
    `on_refused` is told which it was. `on_last` is told when the last word on a queue was said,
    `on_told` when any request is through.
    """

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        snapshots: Mapping[TopicQueue, Snapshot],
        generation: Callable[[], int],
        on_refused: Callable[[Snapshot, MqError], None],
        on_last: Callable[[Snapshot], None],
        on_told: Callable[[], None],
        now_s: float,
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._snapshots = snapshots
        self._generation = generation
        self._on_refused = on_refused
        self._on_last = on_last
        self._on_told = on_told
        self._due_s = now_s + settings.commit_s
        self._singles: list[Entry] = []
        self._lasts: dict[Snapshot, Entry] = {}
        self._sent: list[Entry] = []
        self._not_before_s = 0.0

    def say_last(self, snapshot: Snapshot) -> None:
        """Commit a queue that is being given up."""
        offset = snapshot.commit_offset
        if offset is None or offset == snapshot.committed:
            self._on_last(snapshot)
        else:
            self._lasts[snapshot] = Entry(snapshot, offset, is_last=True)

    def is_telling(self, place: TopicQueue) -> bool:
        """Tell whether a commit of a queue is under way: the broker's offset may still move."""
        return any(entry.snapshot.place == place for entry in self._sent)

    def uncommitted(self) -> list[Entry]:
        """Return the queues of this member that got on since they were committed."""
        return [
            Entry(snapshot, offset, is_last=False)
            for snapshot in self._snapshots.values()
            if (offset := snapshot.commit_offset) is not None and offset != snapshot.committed
        ]

    def next_s(self) -> float | None:
        """Return the moment of the next request, None while one is under way."""
        if self._sent:
            return None
        return self._not_before_s if self._singles or self._lasts else self._due_s

    def begin(self, now_s: float) -> Call[None] | None:
        """Commit single queues first, then last words, then whatever got on."""
        # What was read under a lock that is gone is not told: the queue may have begun anew.
        self._singles = [
            entry for entry in self._singles if entry.is_last or not entry.snapshot.is_dropped
        ]
        if self._singles:
            self._sent = [self._singles.pop(0)]
        elif self._lasts:
            self._sent, self._lasts = list(self._lasts.values()), {}
        else:
            self._due_s = now_s + self._settings.commit_s
            self._sent = self.uncommitted()
        if not self._sent:
            return None
        return self.call(self._sent)

    def call(self, entries: list[Entry]) -> Call[None]:
        """Make a request of entries that are all of one kind."""
        settings = self._settings
        offsets = [
            QueueOffset(
                topic=entry.snapshot.place.topic,
                queue=entry.snapshot.place.queue,
                committed=entry.offset,
            )
            for entry in entries
        ]
        epochs = {
            entry.snapshot.place: entry.snapshot.epoch
            for entry in entries
            if entry.snapshot.epoch is not None
        }
        return self._calls.commit(
            settings.group,
            offsets,
            client_id=settings.client_id,
            generation=None if entries[0].is_last else self._generation(),
            epochs=epochs,
        )

    def done(self, _answer: None, error: MqError | None, now_s: float) -> None:
        """Take what became of a request."""
        sent, self._sent = self._sent, []
        if error is None:
            for entry in sent:
                entry.snapshot.committed = entry.offset
                self._settle(entry)
        elif not isinstance(error, Refused):
            self._not_before_s = again_s(now_s, error)
            self._due_s = min(self._due_s, self._not_before_s)
            # An ordinary commit is overtaken by the next; a last word has no next.
            for entry in sent:
                if entry.is_last:
                    self._lasts.setdefault(entry.snapshot, entry)
        elif len(sent) > 1:
            self._singles += sent
        else:
            self._refuse(sent[0], error)
        self._on_told()

    def _refuse(self, entry: Entry, error: MqError) -> None:
        place = entry.snapshot.place
        logger.warning("%s cannot be committed at %d: %s", place, entry.offset, error)
        # The same would be refused again; only what gets further is worth another request. What is
        # another's by now is still worth a last word.
        if entry.is_last or not isinstance(error, StaleGeneration):
            entry.snapshot.committed = entry.offset
        if not entry.is_last:
            self._on_refused(entry.snapshot, error)
        self._settle(entry)

    def _settle(self, entry: Entry) -> None:
        if entry.is_last:
            self._on_last(entry.snapshot)
