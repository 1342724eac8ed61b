"""Leases that failed for the last time: never handed out again, but made dead letters.

Knows leases, groups' settings and the records of dead letters; not when it is asked. A burial is a
frame of the dead letters and the event that takes the messages from the group. Until then they are
in their lease: what a full disk or a restart holds up is only late.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import SentBack
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.failedrecords import dead_letter_properties
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.journal import runs_of
from apps.engine.broker.owntopics import dead_letter_topic
from apps.engine.broker.readback import ReadBack, batch_of, read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.retrypolicy import is_over
from apps.engine.broker.state import ConsumerState
from apps.engine.codec.copies import copy_record
from apps.engine.codec.properties import TAGS
from apps.engine.codec.tags import tag_hash
from apps.engine.derived.queueset import QueueSet
from apps.engine.failuretypes import Attempt
from apps.engine.log.commitlog import CommitLog


@dataclass(slots=True, kw_only=True, eq=False)
class Burial:
    """Messages of a lease that are to be dead letters: `offsets` int64[n], what is left of them.

    `past` are their failed attempts, the last one too.
    """

    entry: LeaseEntry
    offsets: NDArray[np.int64]
    past: tuple[Attempt, ...]


class Burying:
    """Says which leases are over, remembers them, and makes dead letters of their messages."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        bytes_max: int,
    ) -> None:
        """Bind to a store; one frame has dead letters of up to about `bytes_max`."""
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._bytes_max = bytes_max
        self._over: dict[int, None] = {}
        self._listener: Callable[[], None] | None = None
        self.message_count = 0

    def on_work(self, listener: Callable[[], None]) -> None:
        """Call back whenever there is something to bury."""
        self._listener = listener

    def is_over(self, entry: LeaseEntry) -> bool:
        """Say whether a lease's attempt, once it has failed, was the last its messages get."""
        spec = self._catalog.group(entry.progress.group)
        return is_over(spec, entry.failures)

    def takes(self, entry: LeaseEntry) -> bool:
        """Say whether a lease whose attempt has failed is to be buried, and remember it then."""
        if not self.is_over(entry):
            return False
        if entry.lease not in self._over:
            self._over[entry.lease] = None
            if self._listener is not None:
                self._listener()
        return True

    def look(self, groups: Iterable[str]) -> None:
        """Look at all leases of groups that have other settings now."""
        changed = set(groups)
        for entry in self._state.leases:
            if entry.is_ready and entry.progress.group in changed:
                self.takes(entry)

    def next(self) -> Burial | None:
        """Return what is to be buried next; None when there is nothing.

        A lease that is gone, or whose group allows more failures now, is forgotten.
        """
        while self._over:
            lease = next(iter(self._over))
            entry = self._state.leases.get(lease)
            if entry is not None and entry.is_ready and self.is_over(entry):
                return Burial(entry=entry, offsets=entry.offsets, past=entry.past())
            del self._over[lease]
        return None

    def postpone(self, burial: Burial) -> None:
        """Let others go first."""
        lease = burial.entry.lease
        if lease in self._over:
            del self._over[lease]
            self._over[lease] = None

    def read(self, burial: Burial, *, wait: bool) -> ReadBack:
        """Read the next messages of a burial. Raises ColdRead or StoreDamaged."""
        progress = burial.entry.progress
        queue = self._queues.queue(progress.topic, progress.queue)
        return read_back(self._log, queue, burial.offsets, bytes_max=self._bytes_max, wait=wait)

    def bury(self, burial: Burial, read: ReadBack) -> NDArray[np.int64]:
        """Make dead letters of messages that were read; return the offsets of those it made.

        Messages that left the lease since they were read are none of them. Those that cannot be
        read any more end without a dead letter. Raises StoreFull, with nothing changed.
        """
        entry, progress = burial.entry, burial.entry.progress
        burial.offsets = burial.offsets[read.looked :]
        if self._state.leases.get(entry.lease) is not entry:
            return read.offsets[:0]
        is_held = np.isin(read.offsets, entry.offsets)
        offsets = read.offsets[is_held]
        ended = np.sort(np.concatenate([offsets, read.lost[np.isin(read.lost, entry.offsets)]]))
        if not len(ended):
            return offsets
        topic = dead_letter_topic(progress.group)
        copies, hashes = [], []
        for record, held in zip(read.records, is_held.tolist(), strict=True):
            if held:
                copies.append(
                    copy_record(
                        record,
                        topic=topic,
                        queue=0,
                        properties=dead_letter_properties(record, progress.group, burial.past),
                        reconsume_times=entry.failures,
                    )
                )
                hashes.append(tag_hash(record.properties.get(TAGS, "")))
        taken = SentBack(
            group=progress.group,
            topic=progress.topic,
            queue=progress.queue,
            runs=runs_of(ended),
        )
        batches = [batch_of(topic, 0, copies, hashes)] if copies else []
        self._recorder.commit([taken], batches, is_internal=False)
        self.message_count += len(offsets)
        return offsets
