"""Hand messages out for a while: which, and until when. Knows groups' state, queues and the log.

What was given back or timed out goes first; then messages nobody of the group has seen. A group's
retry topic is read with whatever it asks for; its messages have passed the filter before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from apps.engine.broker.burying import Burying
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fetch import check_amounts
from apps.engine.broker.handles import Handles
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.journal import FRESH, Deliver, Runs, Settle, runs_of
from apps.engine.broker.lockevents import ReadInOrder
from apps.engine.broker.namedreceives import NamedReceives
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.owntopics import retry_topic
from apps.engine.broker.progress import QueueProgress
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.selection import Looks, Selection, choose, load, pick, without
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.windows import window
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.sparse import gone
from apps.engine.errors import InvalidArgument, QueueDamaged
from apps.engine.filters.subscription import Filter, compile_filter
from apps.engine.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    FETCH_MESSAGES_MAX,
    INVISIBLE_MS_MAX,
    INVISIBLE_MS_MIN,
)
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import Unreadable
from apps.engine.types import (
    FilterType,
    Lease,
    MessageBlock,
    ReceiveRequest,
    ReceiveResult,
    TopicType,
)

_Item = TypeVar("_Item")
_EVERYTHING = compile_filter("*", FilterType.TAG)
# Where a record keeps how often it has failed.
_RECONSUME_TIMES_AT = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A hand-out that is not recorded yet, of messages nobody else is given meanwhile."""

    event: Deliver
    block: MessageBlock

    def is_last_of(self, queue: ConsumeQueue) -> bool:
        """Say whether the queue has nothing more behind it."""
        return self.event.source == FRESH and self.event.cursor_after >= queue.visible


class Pop:
    """Receive for groups whose members share every queue."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        handles: Handles,
        locks: QueueLocks,
        burying: Burying,
        clock: Clock,
    ) -> None:
        """Bind to a store."""
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._handles = handles
        self._locks = locks
        self._burying = burying
        self._clock = clock
        self._turn = 0
        self._named = NamedReceives(
            log=log, queues=queues, state=state, recorder=recorder, handles=handles, clock=clock
        )
        self.message_count = 0

    def check(self, request: ReceiveRequest) -> None:
        """Raise InvalidName, InvalidArgument, InvalidFilter, UnknownTopic or NotPermitted."""
        check_group_name(request.group)
        check_client_id(request.client_id)
        self._catalog.usable_group(request.group)
        check_amounts(request.messages_max, request.bytes_max, request.wait_ms)
        if not INVISIBLE_MS_MIN <= request.invisible_ms <= INVISIBLE_MS_MAX:
            raise InvalidArgument(
                f"invisible_ms must be {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}, "
                f"not {request.invisible_ms}"
            )
        if not request.topics:
            raise InvalidArgument("a receive names at least one topic")
        if len(request.attempt_id) > CLIENT_ID_CHARACTERS_MAX:
            raise InvalidArgument(f"attempt_id is over {CLIENT_ID_CHARACTERS_MAX} characters")
        compile_filter(request.filter, request.filter_type)
        for topic in request.topics:
            self._catalog.readable(topic)

    def receive(
        self,
        request: ReceiveRequest,
        *,
        wait: bool,
        queues: Iterable[ConsumeQueue] | None = None,
    ) -> ReceiveResult:
        """Hand out what is there now, from as many queues as it takes.

        Those are the ones of the topics and of the group's retries, or the `queues` that are given,
        as far as it needs them.

        A queue whose lock another client has is answered as blocked, and so is a suspended one.
        What a filter does not take is passed over, and settled for the group; the answer says
        where there is more to look at than one receive may.

        Raises ColdRead, with nothing handed out of that queue, when `wait` is false and the disk
        would have to be waited for; StoreFull when the hand-out cannot be recorded; QueueDamaged
        where there is nothing else to hand out.
        """
        if request.ordered:
            again = self._named.again(request, wait=wait)
            if again:
                return ReceiveResult(leases=again)
        wanted = compile_filter(request.filter, request.filter_type)
        looks = Looks(wanted)
        retries = retry_topic(request.group)
        leases: list[Lease] = []
        # What the queues give is recorded together: a frame for each would be most of the work.
        planned: list[_Planned] = []
        blocked = []
        messages_left, bytes_left = request.messages_max, request.bytes_max
        damaged: QueueDamaged | None = None
        for queue in self._queues_in_turn(request) if queues is None else queues:
            if queues is not None and (messages_left <= 0 or bytes_left <= 0):
                break
            where = (request.group, queue.topic, queue.queue)
            is_suspended = where in self._state.operators.suspensions
            if is_suspended or self._locks.is_anothers(*where, request.client_id):
                blocked.append((queue.topic, queue.queue))
                continue
            progress = self._state.peek(
                request.group, queue.topic, queue.queue, start=queue.min_offset
            )
            if request.ordered and self._has_handed_out(progress):
                blocked.append((queue.topic, queue.queue))
                continue
            while messages_left > 0 and bytes_left > 0:
                has_some = bool(leases or planned)
                plan = None
                try:
                    plan = self._next_planned(
                        progress,
                        queue,
                        request,
                        wanted=_EVERYTHING if queue.topic == retries else wanted,
                        looks=looks,
                        messages_max=messages_left,
                        bytes_max=bytes_left,
                        wait=wait or has_some,
                    )
                except Unreadable:
                    # It is left for a later receive once there is something to answer.
                    if not has_some:
                        raise
                except QueueDamaged as error:
                    # What other queues have is not held up by it.
                    damaged = error
                if plan is None:
                    break
                planned.append(plan)
                messages_left -= len(plan.block)
                bytes_left -= len(plan.block.payload)
                if request.ordered or plan.is_last_of(queue):
                    break
                # What comes next of the same queue depends on what is recorded of it.
                leases += self._handed_out(planned, request.group)
                progress = self._state.of(
                    request.group, queue.topic, queue.queue, start=queue.min_offset
                )
        if request.ordered and planned and not self.was_ordered(request.group):
            # Once for a group: who looks after its queues must know also after a restart.
            self._recorder.record(ReadInOrder(group=request.group))
        leases += self._handed_out(planned, request.group)
        if damaged is not None and not leases:
            raise damaged
        if request.ordered and request.attempt_id and leases:
            self._named.note(request, leases)
        self.message_count += sum(len(lease.block) for lease in leases)
        return ReceiveResult(leases=tuple(leases), blocked=tuple(blocked), has_more=looks.is_over)

    def places(self, request: ReceiveRequest) -> list[tuple[str, int]]:
        """Return the queues a receive looks at, also what is not there yet of its retries."""
        topics = [topic for topic in request.topics if topic != retry_topic(request.group)]
        found = [(topic, number) for topic in topics for number in self._numbers(topic)]
        return [*found, (retry_topic(request.group), 0)]

    def has_ready(self, progress: QueueProgress, queue: ConsumeQueue) -> bool:
        """Say whether a receive in order would be handed something of a queue now."""
        if self._has_handed_out(progress):
            return False
        return progress.cursor < queue.visible or self._first_ready(progress) is not None

    def was_ordered(self, group: str) -> bool:
        """Say whether a group was ever handed messages in order, as far as that is remembered."""
        return group in self._state.in_order

    def _queues_in_turn(self, request: ReceiveRequest) -> Iterator[ConsumeQueue]:
        # Each receive begins one queue further on, so that none starves behind a busy one.
        self._turn += 1
        # Each queue once: what is planned of it is not recorded when the next one is looked at.
        topics: Sequence[str] = tuple(dict.fromkeys(request.topics))
        retries = retry_topic(request.group)
        if retries not in topics and self._queues.find(retries, 0) is not None:
            topics = (*topics, retries)
        falling = {topic for topic in topics if self._falls(topic, request)}
        if falling:
            # Waiting behind a higher queue is what was asked for, behind another topic is not.
            # Each topic is first in its turn, and then each of its queues in theirs.
            rounds, turn = divmod(self._turn, len(topics))
            names = [
                (topic, number)
                for topic in _turned(topics, turn)
                for number in (
                    reversed(self._numbers(topic))
                    if topic in falling
                    else _turned(self._numbers(topic), rounds)
                )
            ]
        else:
            in_order = [(topic, n) for topic in topics for n in self._numbers(topic)]
            names = _turned(in_order, self._turn)
        for topic, number in names:
            yield self._queues.queue(topic, number)

    def _falls(self, topic: str, request: ReceiveRequest) -> bool:
        """Say whether a topic is emptied from its highest queue down."""
        return request.high_queue_first or self._catalog.topic(topic).type is TopicType.PRIORITY

    def _numbers(self, topic: str) -> range:
        return range(self._catalog.topic(topic).queue_count)

    def _has_handed_out(self, progress: QueueProgress) -> bool:
        entries = map(self._state.leases.get, progress.leases)
        return any(entry is not None and not entry.is_ready for entry in entries)

    def _next_planned(
        self,
        progress: QueueProgress,
        queue: ConsumeQueue,
        request: ReceiveRequest,
        *,
        wanted: Filter,
        looks: Looks,
        messages_max: int,
        bytes_max: int,
        wait: bool,
    ) -> _Planned | None:
        source = self._first_ready(progress)
        while source is not None and (lost := _lost_of(source, queue, wait)) is not None:
            # Nobody can try them again, nor needs to where a newer one has replaced them: they are
            # done for the group.
            self._recorder.record(Settle(lease=source.lease, runs=lost))
            source = self._first_ready(progress)
        if source is not None:
            near = source.offsets[source.offsets < source.offsets[0] + FETCH_MESSAGES_MAX]
            if request.is_lite:
                near = near[near < self._first_behind(progress, source)]
            chosen = pick(queue, near[:messages_max], bytes_max=bytes_max, wait=wait)
            return self._planned(progress, queue, request, chosen, source=source, wait=wait)
        while progress.cursor < queue.visible and not looks.is_over:
            chosen = choose(
                self._log,
                queue,
                progress.cursor,
                wanted=wanted,
                messages_max=messages_max,
                bytes_max=bytes_max,
                wait=wait,
            )
            looks.take(chosen.next_offset - progress.cursor)
            sent_back = self._state.failures.sent_back(request.group, queue.topic, queue.queue)
            chosen = without(chosen, sent_back)
            plan = self._planned(progress, queue, request, chosen, source=None, wait=wait)
            if len(plan.block):
                return plan
            # Nothing matched the filter; the group has passed over what was looked at.
            self._recorder.record(plan.event)
            progress = self._state.of(
                request.group, queue.topic, queue.queue, start=queue.min_offset
            )
        return None

    def _first_ready(self, progress: QueueProgress) -> LeaseEntry | None:
        ready = [
            entry
            for lease in progress.leases
            if (entry := self._state.leases.get(lease)) is not None
            and entry.is_ready
            and not self._burying.takes(entry)
        ]
        return min(ready, key=lambda entry: int(entry.offsets[0])) if ready else None

    def _first_behind(self, progress: QueueProgress, source: LeaseEntry) -> int:
        """Return the first message behind the begin of a lease that is in another one.

        What lies behind it waits for it: the messages were handed out in order, and given back
        one by one.
        """
        entries = map(self._state.leases.get, progress.leases)
        return min(
            (
                int(entry.offsets[0])
                for entry in entries
                if entry is not None and entry.offsets[0] > source.offsets[0]
            ),
            default=progress.cursor,
        )

    def _planned(
        self,
        progress: QueueProgress,
        queue: ConsumeQueue,
        request: ReceiveRequest,
        chosen: Selection,
        *,
        source: LeaseEntry | None,
        wait: bool,
    ) -> _Planned:
        block = load(self._log, queue, chosen, wait=wait)
        failures_before = 0
        if source is not None:
            failures_before = source.failures_before
        elif len(chosen.sizes) and queue.topic == retry_topic(request.group):
            failures_before, chosen, block = _of_one_count(chosen, block)
        event = Deliver(
            group=request.group,
            topic=queue.topic,
            queue=queue.queue,
            cursor_after=progress.cursor if source is not None else chosen.next_offset,
            source=FRESH if source is None else source.lease,
            attempt=1 if source is None else source.attempt + 1,
            epoch=self._log.epoch,
            until_ms=self._clock.wall_ms() + request.invisible_ms,
            runs=runs_of(chosen.offsets),
            failures_before=failures_before,
            client_id=request.client_id,
        )
        return _Planned(event=event, block=block)

    def _handed_out(self, planned: list[_Planned], group: str) -> list[Lease]:
        """Record what was planned, forget the plans, and return the leases."""
        numbers = self._recorder.record_all([plan.event for plan in planned])
        leases = [
            Lease(
                token=self._handles.token(group, number, self._log.epoch),
                attempt=plan.event.attempt,
                invisible_until_ms=plan.event.until_ms,
                block=plan.block,
            )
            for plan, number in zip(planned, numbers, strict=True)
        ]
        planned.clear()
        return leases


def _lost_of(source: LeaseEntry, queue: ConsumeQueue, wait: bool) -> Runs | None:
    """Return the messages of a lease that cannot be read any more; None where all can."""
    if not len(queue.lost) and source.offsets[0] >= queue.covered:
        return None
    lost = source.offsets[gone(queue, source.offsets, wait=wait)]
    return runs_of(lost) if len(lost) else None


def _of_one_count(chosen: Selection, block: MessageBlock) -> tuple[int, Selection, MessageBlock]:
    """Return how often the first messages have failed, and those that have as often as the first.

    A lease has one count, so that nothing has to be read again to know which attempt is the last.
    """
    counts = window(block.payload, ">i4")[starts_of(block.sizes) + _RECONSUME_TIMES_AT]
    is_other = counts != counts[0]
    if not is_other.any():
        return int(counts[0]), chosen, block
    count = int(np.argmax(is_other))
    first = Selection(
        offsets=chosen.offsets[:count],
        log_offsets=chosen.log_offsets[:count],
        sizes=chosen.sizes[:count],
        next_offset=int(chosen.offsets[count]),
    )
    size_bytes = int(block.sizes[:count].sum(dtype=np.int64))
    cut = replace(block, payload=block.payload[:size_bytes], sizes=block.sizes[:count])
    return int(counts[0]), first, cut


def _turned(items: Sequence[_Item], turn: int) -> list[_Item]:
    """Return the items in order from number `turn` on, round and round."""
    first = turn % len(items)
    return [*items[first:], *items[:first]]
