"""How lite topics end: hidden after a time without messages, forgotten when the log has none of it.

Knows their times, queues, state and the log's front; not when it is asked. The order makes a power
cut between any two steps harmless. A lite topic is gone once that is in the log; its number of
messages is kept until neither the log nor a file on the disk has any trace of it, so that meanwhile
a message that comes again is numbered on.
"""

from collections.abc import Callable, Iterable, Set

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.liteevents import LiteExpired, LiteForgotten
from apps.engine.broker.litelags import LiteLags
from apps.engine.broker.litesets import LiteSets
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.broker.recorder import EVENTS_OF_FRAME_MAX, Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.codec.litenames import is_lite
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import QueueDamaged
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import Unreadable

# In one go, so that nobody waits for more than some milliseconds.
_AT_ONCE = EVENTS_OF_FRAME_MAX


class LiteEnds:
    """The ends of one store's lite topics."""

    def __init__(
        self,
        topics: LiteTopics,
        sets: LiteSets,
        lags: LiteLags,
        *,
        log: CommitLog,
        queues: QueueSet,
        state: ConsumerState,
        recorder: Recorder,
        catalog: Catalog,
        times: StoreTimes,
        now_ms: Callable[[], int],
        begins_listed: Callable[[], Set[str]],
    ) -> None:
        """Bind to a store, and let go of the queues of what was gone before.

        `now_ms` is a wall time that no clock set ahead can move; `begins_listed` are the topics of
        which the front of the log says where they begin.
        """
        self._topics = topics
        self._sets = sets
        self._lags = lags
        self._log = log
        self._queues = queues
        self._state = state
        self._recorder = recorder
        self._catalog = catalog
        self._times = times
        self._now_ms = now_ms
        self._begins_listed = begins_listed
        self.expired_count = 0
        self.forgotten_count = 0
        for topic in state.gone_lites:
            self._restore(topic)
        self._leave_again()

    def _restore(self, topic: str) -> None:
        """Let numbers go on where the queues were made anew, and the log had no record of it."""
        end = self._state.floors.get((topic, 0), 0)
        queue = self._queues.queue(topic, 0)
        if queue.end < end:
            queue.resume(min_offset=end, end=end)

    # --- steps ---------------------------------------------------------------------------------

    def step(self, *, wait: bool) -> bool:
        """Do some of what is to be done; return whether there is more.

        Raises StoreFull, and ColdRead when `wait` is false and the disk would have to be waited
        for: call again when it is warm.
        """
        self._sets.forget_silent()
        if self._find_times(wait=wait) or self._lags.complete(wait=wait):
            return True
        expired = self._expired()
        self.hide(expired)
        if len(expired) >= _AT_ONCE:
            return True
        self._leave_again()
        self._leave_unused()
        self._forget_passed()
        return False

    def hide_deleted(self) -> None:
        """Hide the lite topics of parents that are not there any more."""
        for parent in self._topics.parents():
            if parent in self._catalog.snapshot.topics:
                continue
            topics = self._topics.of_parent(parent)
            for first in range(0, len(topics), _AT_ONCE):
                self.hide(topics[first : first + _AT_ONCE], is_synced=False)

    def hide(self, topics: Iterable[str], *, is_synced: bool = True) -> None:
        """Let lite topics be gone, whatever their groups have yet to read. Raises StoreFull.

        One with a message that is not synced is left as it is, unless that is said to be right.
        """
        found: list[ConsumeQueue] = []
        for topic in topics:
            queue = self._queues.find(topic, 0)
            if queue is None:
                self._topics.drop(topic)
            elif queue.end == queue.visible or not is_synced:
                found.append(queue)
        if not found:
            return
        self._recorder.commit(
            [
                LiteExpired(
                    topic=queue.topic, min_offset=queue.end, log_offset=self._records_end(queue)
                )
                for queue in found
            ]
        )
        for queue in found:
            held = queue.held
            queue.begin_at(queue.end)
            self._topics.drop(queue.topic)
            if queue.end == queue.visible:
                self._queues.leave(queue)
            self._lags.hidden(queue.topic, held)
        self.expired_count += len(found)

    # --- inside --------------------------------------------------------------------------------

    def _records_end(self, queue: ConsumeQueue) -> int:
        """Return a log offset that no record of a queue lies behind."""
        if queue.end <= queue.min_offset:
            return self._log.log_start
        try:
            last = queue.read(queue.end - 1, 1, wait=False)[0]
        except (ColdRead, QueueDamaged):
            return self._log.written_offset
        if not last["size_bytes"]:
            return self._log.written_offset  # It was damaged, and nobody knows where it lay.
        return int(last["log_offset"]) + int(last["size_bytes"])

    def _find_times(self, *, wait: bool) -> bool:
        """Look up when lite topics had their last message that no checkpoint tells of."""
        untimed = self._topics.untimed()
        found: list[tuple[str, int]] = []
        try:
            # What was found before a ColdRead is kept.
            for topic in untimed[:_AT_ONCE]:
                found.append((topic, self._time_of(topic, wait=wait)))  # noqa: PERF401
        finally:
            self._topics.timed(found)
        return len(untimed) > len(found) > 0

    def _time_of(self, topic: str, *, wait: bool) -> int:
        queue = self._queues.find(topic, 0)
        if queue is None or queue.end <= queue.min_offset:
            # Retention took its messages, so it is as old as anything here.
            return 0
        try:
            return self._times.of(queue, queue.end - 1, wait=wait)
        except (QueueDamaged, Unreadable):
            # Nobody can tell: it begins its time anew.
            return self._now_ms()

    def _expired(self) -> list[str]:
        found: list[str] = []
        now_ms = self._now_ms()
        for parent in self._topics.parents():
            spec = self._catalog.snapshot.topics.get(parent)
            if spec is None or spec.lite_ttl_ms is None:
                continue
            for topic in self._topics.older(parent, now_ms - spec.lite_ttl_ms):
                found.append(topic)
                if len(found) >= _AT_ONCE:
                    return found
        return found

    def _leave_again(self) -> None:
        """Let go of the queues of what is gone, where somebody has asked for them since."""
        for topic in self._state.gone_lites:
            queue = self._queues.find(topic, 0)
            if queue is not None and queue.end == queue.visible == self._floor(topic):
                self._queues.leave(queue)

    def _leave_unused(self) -> None:
        """Let go of queues that somebody has asked for and that never had a message."""
        for queue in self._queues:
            if not queue.end and is_lite(queue.topic):
                self._queues.leave(queue)

    def _forget_passed(self) -> None:
        """Let names be free of which nothing is left anywhere."""
        listed = self._begins_listed()
        passed = [
            topic
            for topic, log_offset in self._state.gone_lites.items()
            if log_offset <= self._log.log_start
            and topic not in listed
            and self._queues.left_end(topic, 0) is not None
        ]
        free = [topic for topic in passed if self._queues.is_omitted(topic, 0)]
        if free:
            self._times.forget_topics(set(free))
        for first in range(0, len(free), _AT_ONCE):
            some = free[first : first + _AT_ONCE]
            self._recorder.commit([LiteForgotten(topic=topic) for topic in some])
            for topic in some:
                self._queues.drop(topic, 0)
            self.forgotten_count += len(some)
        # Those are asked about again once a checkpoint without them is on the disk.
        for topic in passed:
            self._queues.omit(topic, 0)

    def _floor(self, topic: str) -> int:
        return self._state.floors.get((topic, 0), 0)
