"""Who still needs which part of the log. Knows consumer state, queues and what waits; no segments.

Each holder says the lowest log offset it needs, None for nothing. What is read at the next start
counts as needed until a checkpoint on the disk needs it no more, so that a crash right after a
deletion finds all it reads.
"""

from collections.abc import Callable, Iterable, Iterator

from apps.engine.broker.burying import Burying
from apps.engine.broker.compaction import Compaction
from apps.engine.broker.delays import Delays
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.schedule import Schedule
from apps.engine.broker.state import ConsumerState
from apps.engine.codec.layout import HALF_TOPIC, JOURNAL_TOPIC
from apps.engine.derived.queueset import QueueSet
from apps.engine.log.commitlog import CommitLog

Place = tuple[str, int]
NeededFrom = Callable[[bool], int | None]
"""Called with whether it may wait for the disk; raises ColdRead where it may not and would."""


class Holders:
    """The parts of one broker that need the log."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        state: ConsumerState,
        burying: Burying,
        schedule: Schedule,
        delays: Delays,
        compaction: Compaction,
        journal_offset: int,
    ) -> None:
        """Bind to a store; the checkpoint of consumer state reaches up to `journal_offset`."""
        self.journal_offset = journal_offset
        self._log = log
        self._queues = queues
        self._state = state
        self._burying = burying
        self._schedule = schedule
        self._delays = delays
        self._compaction = compaction

    def checkpoints(self) -> dict[str, NeededFrom]:
        """Return those that need less as soon as a checkpoint is taken."""
        return {
            "log checkpoint": lambda _: self._log.checkpointed_offset,
            "consume queues": lambda _: self._queues.durable_offset,
            "consumer state": lambda wait: self._at(
                (JOURNAL_TOPIC, 0), self.journal_offset, wait=wait
            ),
            "delayed messages": lambda wait: self._delays.waiting.needed_from(wait=wait),
        }

    def others(self) -> dict[str, NeededFrom]:
        """Return those that need less when messages are delivered, settled, decided or copied."""
        return {
            "delay levels": self._levels,
            "transactions": self._halves,
            "leases": self._leases,
            "compaction": self._compaction.needed_from,
        }

    def held(self, entries: Iterable[LeaseEntry] | None = None) -> dict[Place, int]:
        """Return the first offset of each queue that is in flight or is to be a dead letter.

        In flight is what somebody has a good handle of, and what was given back with a delay. What
        is ready for anybody is not: like what was never handed out it waits for its readers.
        """
        found: dict[Place, int] = {}
        for entry in self._state.leases if entries is None else entries:
            if entry.is_ready and not self._burying.is_over(entry):
                continue
            place = (entry.progress.topic, entry.progress.queue)
            first = int(entry.offsets[0])
            found[place] = min(found.get(place, first), first)
        return found

    def _levels(self, wait: bool) -> int | None:
        return _lowest(
            self._at((queue.topic, queue.queue), self._schedule.start(queue), wait=wait)
            for queue in self._schedule.queues()
        )

    def _halves(self, wait: bool) -> int | None:
        # They are kept in the order in which they were begun.
        first = next(iter(self._state.transactions.pending), None)
        return None if first is None else self._at((HALF_TOPIC, 0), first, wait=wait)

    def _leases(self, wait: bool) -> int | None:
        return _lowest(self._at(*held, wait=wait) for held in self.held().items())

    def _at(self, place: Place, queue_offset: int, *, wait: bool) -> int | None:
        queue = self._queues.queue(*place)
        if queue_offset >= queue.end or queue_offset < queue.covered:
            return None
        return int(queue.read(queue_offset, 1, wait=wait)["log_offset"][0])


def _lowest(offsets: Iterator[int | None]) -> int | None:
    return min((offset for offset in offsets if offset is not None), default=None)
