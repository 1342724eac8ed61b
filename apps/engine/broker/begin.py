"""Where a group goes on in a queue, and where it begins. Knows progress, catalog and store times.

A group begins in a queue once: the offset is committed at once, so that a member that comes before
anything was settled, or after a restart, begins at the same message as the first one did.
"""

from collections.abc import Sequence

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.journal import Commit
from apps.engine.broker.names import check_group_name
from apps.engine.broker.owntopics import retry_topic
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument
from apps.engine.grouptypes import BeginOffset, QueuePlace
from apps.engine.limits import PLACES_MAX
from apps.engine.types import ConsumeFrom


class Begin:
    """First offsets of groups."""

    def __init__(
        self,
        state: ConsumerState,
        recorder: Recorder,
        queues: QueueSet,
        catalog: Catalog,
        times: StoreTimes,
    ) -> None:
        """Bind to a store."""
        self._state = state
        self._recorder = recorder
        self._queues = queues
        self._catalog = catalog
        self._times = times

    def offsets(
        self,
        group: str,
        places: Sequence[QueuePlace],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
        wait: bool = True,
    ) -> list[BeginOffset]:
        """Return where the group goes on in each queue, in order, and record where it begins.

        A group in the catalog begins as was decided there, another one as asked, else at the
        first message; in its own retry topic it always begins there. Raises InvalidName,
        InvalidArgument, UnknownTopic, UnknownQueue or NotPermitted; and, with nothing recorded,
        ColdRead when `wait` is false and the disk is needed: call again when it is warm.
        """
        check_group_name(group)
        if not 1 <= len(places) <= PLACES_MAX:
            raise InvalidArgument(f"offsets of 1 to {PLACES_MAX} queues, not {len(places)}")
        spec = self._catalog.usable_group(group)
        for place in places:
            self._catalog.readable(place.topic, place.queue)
        if group in self._catalog.snapshot.groups:
            consume_from, consume_from_ms = spec.consume_from, spec.consume_from_ms
        if consume_from is ConsumeFrom.TIMESTAMP and consume_from_ms is None:
            raise InvalidArgument("consume_from timestamp needs the time")
        begins = {
            place: self._first(
                self._queues.queue(place.topic, place.queue),
                # A retry that came before its first reader is as much the group's as any.
                None if place.topic == retry_topic(group) else consume_from,
                time_ms=consume_from_ms or 0,
                wait=wait,
            )
            for place in places
            if (group, place.topic, place.queue) not in self._state.progress
        }
        return [self._offset(group, place, begins.pop(place, None)) for place in places]

    def _offset(self, group: str, place: QueuePlace, begin: int | None) -> BeginOffset:
        """Return the offset of one queue; record `begin`, which is None where there is progress."""
        if begin is not None:
            self._recorder.record(
                Commit(group=group, topic=place.topic, queue=place.queue, queue_offset=begin)
            )
        progress = self._state.progress[group, place.topic, place.queue]
        return BeginOffset(
            topic=place.topic,
            queue=place.queue,
            queue_offset=progress.floor,
            is_new=begin is not None,
        )

    def _first(
        self, queue: ConsumeQueue, consume_from: ConsumeFrom | None, *, time_ms: int, wait: bool
    ) -> int:
        match consume_from:
            case ConsumeFrom.LAST:
                return max(queue.min_offset, queue.visible)
            case ConsumeFrom.TIMESTAMP:
                return self._times.first_since(queue, time_ms, wait=wait)
            case _:
                return queue.min_offset
