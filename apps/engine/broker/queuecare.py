"""Care of a blocked queue: suspend, resume, skip the head, park it. Waits for nothing.

Knows groups' state, locks and members. The head of a queue is the first message that a group has
neither settled nor sent back. A skip settles it for the group; a park makes it a dead letter, too.
Either fences whoever reads the queue: in the same frame its lock is taken and the group gets a new
generation. Its members are told that in two steps, so that what they had read ahead is forgotten
and a late word about the old head finds nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.assignment import Assigner
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.failedrecords import dead_letter_properties, failures_before
from apps.engine.broker.fences import Fences
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.journal import Event
from apps.engine.broker.members import Members
from apps.engine.broker.names import check_group_name
from apps.engine.broker.operatorevents import HeadPassed, QueueSuspended
from apps.engine.broker.owntopics import dead_letter_topic
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.readback import ReadBack, batch_of, read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.caretypes import CareAct, CareRequest, CareResult
from apps.engine.clock import Clock
from apps.engine.codec.copies import copy_record
from apps.engine.codec.properties import TAGS
from apps.engine.codec.record import Record
from apps.engine.codec.tags import tag_hash
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import HeadMoved, InvalidArgument, NotOrdered
from apps.engine.failuretypes import Attempt
from apps.engine.limits import (
    ACTOR_CHARACTERS_MAX,
    HISTORY_REASON_CHARACTERS_MAX,
    REASON_CHARACTERS_MAX,
)
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import MessageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A queue that is cared for, and the offset of its head."""

    queue: ConsumeQueue
    head: int


class QueueCare:
    """What operators may do about one queue of one group."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        locks: QueueLocks,
        members: Members,
        access: AccessLocks,
        assigner: Assigner,
        fences: Fences,
        clock: Clock,
        bytes_max: int,
        was_ordered: Callable[[str], bool],
    ) -> None:
        """Bind to a store; `was_ordered` says whether a group was ever handed messages in order."""
        self._log = log
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._locks = locks
        self._members = members
        self._access = access
        self._assigner = assigner
        self._fences = fences
        self._clock = clock
        self._bytes_max = bytes_max
        self._was_ordered = was_ordered

    def check(self, request: CareRequest) -> None:
        """Raise InvalidName, InvalidArgument, UnknownTopic, UnknownQueue or NotPermitted."""
        check_group_name(request.group)
        if len(request.by) > ACTOR_CHARACTERS_MAX:
            raise InvalidArgument(f"who it was is at most {ACTOR_CHARACTERS_MAX} characters")
        if len(request.reason) > REASON_CHARACTERS_MAX:
            raise InvalidArgument(f"a reason is at most {REASON_CHARACTERS_MAX} characters")
        self._catalog.readable(request.topic, request.queue)
        needs_head = request.act in (CareAct.SKIP, CareAct.PARK)
        if needs_head and request.expected_offset is None:
            raise InvalidArgument(f"to {request.act} a message needs its expected_offset")

    def done_before(self, request: CareRequest) -> CareResult | None:
        """Return the answer to a request that changes nothing any more; None for any other.

        Raises HeadMoved and NotOrdered.
        """
        key = (request.group, request.topic, request.queue)
        place = self._place(request)
        is_suspended = key in self._state.operators.suspensions
        match request.act:
            case CareAct.SUSPEND | CareAct.RESUME:
                if is_suspended is (request.act is CareAct.SUSPEND):
                    return self._result(request, is_repeat=True)
                if request.expected_offset not in (None, place.head):
                    raise self._moved(request, place.head)
                return None
            case CareAct.SKIP | CareAct.PARK:
                if place.head != request.expected_offset:
                    passed = self._state.operators.passed.get(key)
                    is_parked = request.act is CareAct.PARK
                    if (
                        passed is not None
                        and passed.queue_offset == request.expected_offset
                        and passed.is_parked is is_parked
                    ):
                        return self._result(request, is_repeat=True)
                    raise self._moved(request, place.head)
                if not self._is_in_order(*key):
                    raise NotOrdered(
                        f"group {request.group!r} does not read {request.topic}/{request.queue} "
                        "in order: no message holds up another there"
                    )
                if place.head >= place.queue.visible:
                    raise HeadMoved(
                        f"{request.topic}/{request.queue} has no message at {place.head}"
                    )
                return None

    def suspend(self, request: CareRequest) -> CareResult:
        """Suspend a queue or let it go on. Raises StoreFull, with nothing changed."""
        is_suspended = request.act is CareAct.SUSPEND
        event = QueueSuspended(
            group=request.group,
            topic=request.topic,
            queue=request.queue,
            is_suspended=is_suspended,
            by=request.by,
            reason=request.reason,
        )
        self._recorder.commit(
            [event, *self._telling(request, "suspended" if is_suspended else "resumed")]
        )
        return self._result(request)

    def skip(self, request: CareRequest) -> CareResult:
        """Settle the head for the group. Raises StoreFull, with nothing changed."""
        self._recorder.commit(self._events(request))
        self._began_anew(request)
        return self._result(request)

    def read(self, request: CareRequest, *, wait: bool) -> ReadBack:
        """Read the message that is to be parked. Raises ColdRead or StoreDamaged."""
        return read_back(
            self._log,
            self._queues.queue(request.topic, request.queue),
            np.array([request.expected_offset], dtype=np.int64),
            bytes_max=self._bytes_max,
            wait=wait,
        )

    def park(self, request: CareRequest, read: ReadBack) -> CareResult:
        """Make a dead letter of the head and settle it, in one frame.

        Raises StoreFull, with nothing changed, and InvalidArgument for a message that cannot be
        read any more.
        """
        if not read.records:
            raise InvalidArgument("the message cannot be read any more: it can only be skipped")
        (record,) = read.records
        topic = dead_letter_topic(request.group)
        past = self._past(request, record)
        copy = copy_record(
            record,
            topic=topic,
            queue=0,
            properties=dead_letter_properties(record, request.group, past),
            reconsume_times=past[-1].number,
        )
        batch = batch_of(topic, 0, [copy], [tag_hash(record.properties.get(TAGS, ""))])
        _, (stored,) = self._recorder.commit(self._events(request), [batch], is_internal=False)
        self._began_anew(request)
        return self._result(request, dead_letter_offset=stored.queue_offset)

    def _place(self, request: CareRequest) -> _Place:
        queue = self._queues.queue(request.topic, request.queue)
        progress = self._state.progress.get((request.group, request.topic, request.queue))
        head = queue.min_offset if progress is None else progress.floor
        sent_back = self._state.failures.sent_back(request.group, request.topic, request.queue)
        # What was sent back is not here any more, also where nobody has committed beyond it.
        gone = set(sent_back[sent_back >= head].tolist())
        while head in gone or self._is_settled(request, head):
            head += 1
        return _Place(queue=queue, head=head)

    def _is_settled(self, request: CareRequest, queue_offset: int) -> bool:
        progress = self._state.progress.get((request.group, request.topic, request.queue))
        if progress is None or not progress.floor <= queue_offset < progress.cursor:
            return False
        return bool(progress.settled[queue_offset - progress.floor])

    def _is_in_order(self, group: str, topic: str, queue: int) -> bool:
        if self._catalog.group(group).ordered or self._was_ordered(group):
            return True
        if self._locks.state(group, topic, queue) is not None:
            return True
        return any(
            member.ordered and member.model is MessageModel.CLUSTERING
            for member in self._members.of(group).values()
        )

    def _events(self, request: CareRequest) -> list[Event]:
        assert request.expected_offset is not None
        how = "parked" if request.act is CareAct.PARK else "skipped"
        passed = HeadPassed(
            group=request.group,
            topic=request.topic,
            queue=request.queue,
            queue_offset=request.expected_offset,
            is_parked=request.act is CareAct.PARK,
            fence=self._fences.next(),
            by=request.by,
            reason=request.reason,
        )
        released = self._locks.taken_away(
            request.group,
            request.topic,
            request.queue,
            reason=f"message {request.expected_offset} was {how}",
        )
        return [passed, *released, *self._telling(request, f"head {how}")]

    def _past(self, request: CareRequest, record: Record) -> list[Attempt]:
        """Return the attempts at the head that are known, and last what the operator said."""
        entry = self._lease(request)
        past = [] if entry is None else list(entry.past() if entry.is_ready else entry.history)
        before = failures_before(record, request.group) if entry is None else entry.failures
        at_ms = self._clock.wall_ms()
        reported = self._reported(request, at_ms)
        before = max(1, before, *(attempt.number for attempt in reported))
        said = f"parked: {request.reason}" if request.reason else "parked"
        last = Attempt(number=before, at_ms=at_ms, reason=said, client_id=request.by)
        return [*past, *reported, last]

    def _reported(self, request: CareRequest, at_ms: int) -> list[Attempt]:
        """Return what members say of the head: how often they tried it, and why it failed last."""
        return [
            Attempt(
                number=head.attempts,
                at_ms=at_ms,
                reason=head.reason[:HISTORY_REASON_CHARACTERS_MAX],
                client_id=member.client_id,
            )
            for member in self._members.of(request.group).values()
            for head in member.blocked
            if (head.topic, head.queue) == (request.topic, request.queue)
            and head.queue_offset == request.expected_offset
        ]

    def _lease(self, request: CareRequest) -> LeaseEntry | None:
        progress = self._state.progress.get((request.group, request.topic, request.queue))
        for lease in () if progress is None else progress.leases:
            entry = self._state.leases.get(lease)
            if entry is not None and request.expected_offset in entry.offsets:
                return entry
        return None

    def _began_anew(self, request: CareRequest) -> None:
        """Count what was delivered beyond the new head as void."""
        head = self._place(request).head
        self._access.rewind(request.group, request.topic, request.queue, head)

    def _telling(self, request: CareRequest, what: str) -> list[Event]:
        return self._assigner.telling(request.group, f"{request.topic}/{request.queue} {what}")

    def _result(
        self,
        request: CareRequest,
        *,
        is_repeat: bool = False,
        dead_letter_offset: int | None = None,
    ) -> CareResult:
        key = (request.group, request.topic, request.queue)
        return CareResult(
            act=request.act,
            group=request.group,
            topic=request.topic,
            queue=request.queue,
            head=self._place(request).head,
            is_repeat=is_repeat,
            suspension=self._state.operators.suspensions.get(key),
            dead_letter_offset=dead_letter_offset,
        )

    def _moved(self, request: CareRequest, head: int) -> HeadMoved:
        return HeadMoved(
            f"the head of {request.topic}/{request.queue} is {head}, not {request.expected_offset}"
        )
