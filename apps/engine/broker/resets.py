"""Have a group go on elsewhere: all queues of a request or none. Waits for nothing.

Knows groups' state, locks and assignments. What the group was handed out of a queue is void; a
lock of it is taken; its members are told the assignment in two steps, so that they begin anew, and
what they still say about the time before is refused. Messages that wait in the group's retry topic
stay there: they are reset only where that topic is named.
"""

from collections.abc import Callable, Sequence

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.assignment import Assigner
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.fences import Fences
from apps.engine.broker.journal import Event
from apps.engine.broker.names import check_group_name
from apps.engine.broker.operatorevents import OffsetReset
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.caretypes import QueueReset, QueueWasReset, ResetRequest, ResetResult
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument, OffsetOutOfRange, OffsetsMoved
from apps.engine.grouptypes import QueuePlace
from apps.engine.limits import PLACES_MAX, RESET_ID_CHARACTERS_MAX

Read = Callable[[bool], list[int]]


class Resets:
    """Sets offsets of groups, with a fence."""

    def __init__(
        self,
        *,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        locks: QueueLocks,
        access: AccessLocks,
        assigner: Assigner,
        fences: Fences,
        times: StoreTimes,
    ) -> None:
        """Bind to a store."""
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._locks = locks
        self._access = access
        self._assigner = assigner
        self._fences = fences
        self._times = times

    def reset(self, request: ResetRequest) -> ResetResult:
        """Set the offsets, in one frame.

        Raises InvalidName, InvalidArgument, UnknownTopic, UnknownQueue, NotPermitted,
        OffsetOutOfRange, OffsetsMoved or StoreFull, with nothing changed.
        """
        self._check(request)
        repeated = self._done_before(request)
        if repeated is not None:
            return repeated
        before = [self._current(request.group, one) for one in request.queues]
        moved = [
            f"{one.topic}/{one.queue} is at {now}, not "
            + (
                f"{one.expected_min}"
                if one.expected_min == one.expected_max
                else f"{one.expected_min} to {one.expected_max}"
            )
            for one, now in zip(request.queues, before, strict=True)
            if not one.expected_min <= now <= one.expected_max
        ]
        if moved:
            raise OffsetsMoved("; ".join(moved[:3]))
        for one in request.queues:
            queue = self._queues.queue(one.topic, one.queue)
            end = max(queue.min_offset, queue.visible)
            if not queue.min_offset <= one.target <= end:
                raise OffsetOutOfRange(
                    f"queue {one.topic}/{one.queue} holds offsets {queue.min_offset} to {end}, "
                    f"not {one.target}"
                )
        self._recorder.commit(self._events(request, before))
        for one in request.queues:
            self._access.rewind(request.group, one.topic, one.queue, one.target)
        return ResetResult(queues=_answer(request, before))

    def offsets_at(self, places: Sequence[QueuePlace], time_ms: int) -> Read:
        """Return what finds the first message of each queue stored at or after a wall time.

        To be called with whether it may wait for the disk, again where it raises ColdRead; a queue
        without one has its end. Raises InvalidArgument, UnknownTopic, UnknownQueue or
        NotPermitted.
        """
        if not 1 <= len(places) <= PLACES_MAX:
            raise InvalidArgument(f"offsets of 1 to {PLACES_MAX} queues, not {len(places)}")
        for place in places:
            self._catalog.readable(place.topic, place.queue)
        queues = [self._queues.queue(place.topic, place.queue) for place in places]
        return lambda wait: [self._times.first_since(queue, time_ms, wait=wait) for queue in queues]

    def _check(self, request: ResetRequest) -> None:
        check_group_name(request.group)
        if not 1 <= len(request.reset_id) <= RESET_ID_CHARACTERS_MAX:
            raise InvalidArgument(f"a reset's id has 1 to {RESET_ID_CHARACTERS_MAX} characters")
        if not 1 <= len(request.queues) <= PLACES_MAX:
            raise InvalidArgument(f"resets of 1 to {PLACES_MAX} queues, not {len(request.queues)}")
        if len({(one.topic, one.queue) for one in request.queues}) != len(request.queues):
            raise InvalidArgument("a reset names each queue once")
        for one in request.queues:
            self._catalog.readable(one.topic, one.queue)

    def _done_before(self, request: ResetRequest) -> ResetResult | None:
        """Return the answer to a request that was carried out; None for any other."""
        done = [
            self._state.operators.resets.get((request.group, one.topic, one.queue))
            for one in request.queues
        ]
        before = []
        for found in done:
            if found is None or found.reset_id != request.reset_id:
                return None
            before.append(found.before)
        return ResetResult(queues=_answer(request, before), is_repeat=True)

    def _current(self, group: str, one: QueueReset) -> int:
        progress = self._state.progress.get((group, one.topic, one.queue))
        if progress is not None:
            return progress.floor
        return self._queues.queue(one.topic, one.queue).min_offset

    def _events(self, request: ResetRequest, before: Sequence[int]) -> list[Event]:
        fence = self._fences.next()
        events: list[Event] = []
        for one, current in zip(request.queues, before, strict=True):
            events.append(
                OffsetReset(
                    group=request.group,
                    topic=one.topic,
                    queue=one.queue,
                    queue_offset=one.target,
                    before=current,
                    fence=fence,
                    reset_id=request.reset_id,
                )
            )
            events += self._locks.taken_away(
                request.group, one.topic, one.queue, reason="offsets reset"
            )
        return [*events, *self._assigner.telling(request.group, "offsets reset")]


def _answer(request: ResetRequest, before: Sequence[int]) -> tuple[QueueWasReset, ...]:
    return tuple(
        QueueWasReset(topic=one.topic, queue=one.queue, before=was, after=one.target)
        for one, was in zip(request.queues, before, strict=True)
    )
