"""Messages that were damaged on the disk: passed over by every reader, counted, and told of.

Knows the quarantine of the log and the consume queues; not how damage is found.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.derived.compacted.part import PartDamaged
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.timer.runfile import RunDamaged
from apps.engine.errors import QueueDamaged, StoreDamaged
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import Unreadable
from apps.engine.types import LostMessages, QuarantinedRange

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_LISTED_MAX = 100


class Damage:
    """What of one store cannot be read any more."""

    def __init__(self, log: CommitLog, queues: QueueSet) -> None:
        """Bind to a store; `mark` lets readers pass over what is known."""
        self._log = log
        self._queues = queues
        self.rebuild_runs: Callable[[RunDamaged], bool] = _cannot
        self.pass_over_kept: Callable[[PartDamaged], bool] = _cannot
        self._listeners: list[Callable[[set[tuple[str, int]]], None]] = []
        self._told: set[tuple[object, ...]] = set()

    def on_lost(self, listener: Callable[[set[tuple[str, int]]], None]) -> None:
        """Call back with the queues that lost messages."""
        self._listeners.append(listener)

    def mark(self) -> None:
        """Let readers pass over what is in quarantine, and tell of each new place."""
        for found in self._log.quarantine.ranges:
            if not found.is_complete:
                # Only consume queues can tell what was in a segment that is gone.
                whole = replace(found, lost=self._all_lost(found))
                self._log.quarantine.add(whole, is_copied=False)
        for found in self._log.quarantine.ranges:
            self._tell(found)
        self._mark()

    def guarded(self, read: Callable[[], _Answer]) -> _Answer:
        """Read; where that comes to damage, put it into quarantine and read again without it.

        Runs of delayed messages are made anew from the log instead.

        Raises StoreDamaged for damage that is known already: the reader needs what was there.
        """
        while True:
            try:
                return read()
            except Unreadable as error:
                if not self.isolate(error):
                    raise
            except RunDamaged as error:
                if not self.rebuild_runs(error):
                    raise
            except PartDamaged as error:
                if not self.pass_over_kept(error):
                    raise

    def isolate(self, error: Unreadable) -> bool:
        """Put what a reader came to into quarantine; False where all of it was there."""
        before = self._log.quarantine.ranges
        for found in error.ranges:
            whole = replace(found, lost=self._all_lost(found))
            if self._log.isolate(whole):
                self._tell(whole)
        self._mark()
        return self._log.quarantine.ranges != before

    @property
    def ranges(self) -> tuple[QuarantinedRange, ...]:
        """Return the first places of damage, in log order."""
        return self._log.quarantine.ranges[:_LISTED_MAX]

    @property
    def range_count(self) -> int:
        """Return how many places are damaged."""
        return len(self._log.quarantine)

    @property
    def message_count(self) -> int:
        """Return how many messages cannot be read any more, as far as that can be told."""
        return self._log.quarantine.message_count()

    def check_journal(self, start: int) -> None:
        """Raise StoreDamaged where consumer state from a journal offset on would not be whole.

        Every change of state is a record of the journal: without one, messages that were settled
        may come again, and others may never come. A person must decide to go on without them.
        """
        journal = self._queues.queue(JOURNAL_TOPIC, 0)
        # Up to here consume queues know all records, and state has those before its checkpoint.
        known_to = self._queues.checkpoint_offset
        if journal.end > journal.min_offset:
            last = max(journal.min_offset, min(start, journal.end - 1))
            known_to = max(known_to, int(journal.read(last, 1)["log_offset"][0]))
        for found in self._log.quarantine.ranges:
            lost = [one for one in found.lost if one.topic == JOURNAL_TOPIC and one.last >= start]
            is_unknown = not found.is_complete and found.end > known_to
            if (lost or is_unknown) and not found.is_accepted:
                what = f"{sum(map(len, lost))} records" if lost else "an unknown number of records"
                raise StoreDamaged(
                    f"{what} of consumer state are in {found.length_bytes} damaged bytes at log "
                    f"offset {found.log_offset}; `manage.py rebuild --accept-loss` lets the store "
                    "open without them"
                )

    def _all_lost(self, found: QuarantinedRange) -> tuple[LostMessages, ...]:
        """Return the messages of a range: what its bytes tell, and what consume queues know."""
        known = {(one.topic, one.queue): one for one in found.lost}
        for queue in self._queues:
            lost = None
            with suppress(QueueDamaged):  # What it has lost is found when it is made again.
                lost = _entries_within(queue, found)
            if lost is not None:
                known[queue.topic, queue.queue] = lost
        return tuple(known[key] for key in sorted(known))

    def _mark(self) -> None:
        quarantine = self._log.quarantine
        places = quarantine.queues()
        for topic, number in places:
            self._queues.queue(topic, number).lost = quarantine.lost(topic, number)
        for listener in self._listeners if places else ():
            listener(places)

    def _tell(self, found: QuarantinedRange) -> None:
        what = (found.log_offset, found.length_bytes, found.lost)
        if what in self._told:
            return
        self._told.add(what)
        _log.error(
            "log_quarantined",
            extra={
                "log_offset": found.log_offset,
                "length_bytes": found.length_bytes,
                "reason": found.reason,
                "lost": list(_places(found)),
            },
        )


def _cannot(_error: StoreDamaged) -> bool:
    return False


def _entries_within(queue: ConsumeQueue, found: QuarantinedRange) -> LostMessages | None:
    """Return the messages of a queue whose records lie in a range, by its entries; None for none.

    Two searches by halves, a cold page each at the worst: damage is rare.
    """
    first = _first_from(queue, found.log_offset)
    stop = _first_from(queue, found.end)
    if first >= stop:
        return None
    return LostMessages(topic=queue.topic, queue=queue.queue, first=first, last=stop - 1)


def _first_from(queue: ConsumeQueue, log_offset: int) -> int:
    low, high = queue.entries_from, queue.end
    while low < high:
        middle = (low + high) // 2
        if int(queue.read(middle, 1)["log_offset"][0]) < log_offset:
            low = middle + 1
        else:
            high = middle
    return low


def _places(found: QuarantinedRange) -> Iterator[str]:
    for one in found.lost:
        yield f"{one.topic}/{one.queue} {one.first}-{one.last}"
