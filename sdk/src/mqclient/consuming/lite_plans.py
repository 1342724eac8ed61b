"""What a lite pull consumer asks besides messages, as plans. Knows no sockets, threads or loops."""

import logging
from collections.abc import Iterable
from datetime import datetime

from mqclient.clock import Clock
from mqclient.consuming.interceptors import tell_begun
from mqclient.consuming.lite_core import LitePullCore
from mqclient.consuming.polledwork import PolledWork
from mqclient.consuming.settings import LitePullSettings
from mqclient.errors import InvalidArgument, MqError, Refused, StaleGeneration, UnknownQueue
from mqclient.protocol.calls import Calls
from mqclient.protocol.plans import (
    Patience,
    Plan,
    all_group_offsets,
    persistently,
)
from mqclient.times import milliseconds_of
from mqclient.values import QueueRange, Subscription, TopicQueue

logger = logging.getLogger("mqclient")


class LitePullPlans:
    """Where to begin, how far a group is, and telling how far it came."""

    def __init__(
        self,
        settings: LitePullSettings,
        calls: Calls,
        core: LitePullCore,
        patience: Patience,
        work: PolledWork,
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._core = core
        self._patience = patience
        self._work = work
        self._clock: Clock = patience.clock
        self._committed_s = self._clock.steady_s()

    def queues(self, topic: str) -> Plan[list[TopicQueue]]:
        """List the queues of a topic."""
        info = yield from persistently(self._calls.describe_topic(topic), self._patience)
        return [TopicQueue(topic, queue) for queue in range(info.queue_count)]

    def assign(self, places: Iterable[TopicQueue]) -> Plan[None]:
        """Begin each queue at the committed offset, else at the first there is."""
        wanted = tuple(dict.fromkeys(places))
        here = set(self._core.assignment())
        added = [place for place in wanted if place not in here]
        starts: dict[TopicQueue, int] = {}
        if added and self._settings.group is not None:
            committed = yield from self.committed()
            starts = {place: committed[place] for place in added if place in committed}
        for topic in {place.topic for place in added if place not in starts}:
            ranges = yield from self._ranges(topic)
            for place in added:
                if place.topic == topic and place not in starts:
                    starts[place] = _known(_range(ranges, place).min_offset)
        self._core.assign(wanted, starts)
        self._tell_begun(added)

    def join(self, subscriptions: Iterable[Subscription]) -> Plan[None]:
        """Become a member that wants these topics; raise what the broker refuses.

        After an error nothing is subscribed.
        """
        call = self._core.subscribe(subscriptions)
        try:
            answer = yield from persistently(call, self._patience)
        except MqError:
            self._core.unsubscribe()
            raise
        self._core.joined(answer)

    def give_up(self, places: list[TopicQueue]) -> Plan[None]:
        """Commit how far lost queues are, where that is automatic, and forget them."""
        if self._settings.is_auto_commit:
            yield from self._commit_lost(places)
        self._core.give_up(places)

    def take_over(self, places: list[TopicQueue]) -> Plan[None]:
        """Begin queues where the group is."""
        settings = self._settings
        call = self._calls.begin_offsets(
            self._group(),
            settings.client_id,
            places,
            consume_from=settings.consume_from,
            consume_from_ms=settings.consume_from_ms,
        )
        starts = yield from persistently(call, self._patience)
        self._core.take_over(starts)
        self._tell_begun(starts)

    def seek(self, place: TopicQueue, offset: int) -> None:
        """Go on at another offset; raise InvalidArgument for a queue that is not assigned."""
        self._core.seek(place, offset)
        self._work.sought(place, offset)
        self._tell_begun([place])

    def _tell_begun(self, places: Iterable[TopicQueue]) -> None:
        for place in places:
            tell_begun(self._settings.interceptors, place)

    def leave(self) -> Plan[None]:
        """Leave the group; where that fails the broker notices in its own time."""
        try:
            call = self._calls.leave(self._group(), self._settings.client_id)
            yield from persistently(call, self._patience)
        except MqError as error:
            logger.warning("not told the broker at the end: %s", error)

    def offset_for_time(self, place: TopicQueue, time: datetime | int) -> Plan[int]:
        """Ask for the first offset stored at or after a time."""
        call = self._calls.offset_at(place.topic, place.queue, milliseconds_of(time))
        offset = yield from persistently(call, self._patience)
        return offset

    def committed(self) -> Plan[dict[TopicQueue, int]]:
        """Read the committed offsets of the group; queues without one are left out."""
        items = yield from all_group_offsets(self._calls, self._group(), self._patience)
        return {
            TopicQueue(item.topic, item.queue): item.committed
            for item in items
            if item.committed is not None
        }

    def seek_to_begin(self, place: TopicQueue) -> Plan[None]:
        """Go on at the first offset the queue has."""
        ranges = yield from self._ranges(place.topic)
        self.seek(place, _known(_range(ranges, place).min_offset))

    def seek_to_end(self, place: TopicQueue) -> Plan[None]:
        """Go on behind the last message the queue has."""
        ranges = yield from self._ranges(place.topic)
        self.seek(place, _known(_range(ranges, place).max_offset))

    def commit(self) -> Plan[None]:
        """Commit every position that moved: what was handed out is done."""
        group = self._group()
        self._work.done()
        lost = self._core.lost()
        offsets = self._core.uncommitted(set(self._core.assignment()).difference(lost))
        self._committed_s = self._clock.steady_s()
        if offsets:
            # Who assigned queues by hand is no member, and may set the group's progress back.
            client_id = self._settings.client_id if self._core.is_subscribed else ""
            generation = self._core.generation
            call = self._calls.commit(group, offsets, client_id=client_id, generation=generation)
            try:
                yield from persistently(call, self._patience)
            except StaleGeneration as error:
                logger.info("queues were lost during a commit: %s", error)
                lost = list(self._core.assignment())
            else:
                self._core.note_committed(offsets)
        yield from self._commit_lost(lost)

    def _commit_lost(self, places: list[TopicQueue]) -> Plan[None]:
        # What was returned by a poll is done whoever has the queue by now, so this is said without
        # a generation; the broker lets it move the group forward only.
        offsets = self._core.uncommitted(places)
        if not offsets:
            return
        call = self._calls.commit(self._group(), offsets, client_id=self._settings.client_id)
        try:
            yield from persistently(call, self._patience)
        except Refused as error:
            logger.warning("lost queues cannot be committed: %s", error)
        self._core.note_committed(offsets)

    def commit_if_due(self, *, is_last: bool = False) -> Plan[None]:
        """Commit when that is automatic and its time has come, or at the end.

        What was handed out is done: that is what a poll says.
        """
        self._work.done()
        settings = self._settings
        if settings.group is None or not settings.is_auto_commit:
            return
        age_s = self._clock.steady_s() - self._committed_s
        if is_last or age_s >= settings.auto_commit_s:
            yield from self.commit()

    def _group(self) -> str:
        if self._settings.group is None:
            raise InvalidArgument("a consumer without a group has no committed offsets")
        return self._settings.group

    def _ranges(self, topic: str) -> Plan[tuple[QueueRange, ...]]:
        info = yield from persistently(self._calls.describe_topic(topic), self._patience)
        return info.queues


def _range(ranges: tuple[QueueRange, ...], place: TopicQueue) -> QueueRange:
    for item in ranges:
        if item.queue == place.queue:
            return item
    raise UnknownQueue(f"topic {place.topic} has no queue {place.queue}")


def _known(offset: int | None) -> int:
    if offset is None:
        raise InvalidArgument("the broker does not know the queue's offsets at the moment")
    return offset
