"""Receive from lite topics, and say who may. Knows sets of clients, queues and groups' progress.

Only what is marked for a client is looked at, in turn. A mark says that there may be something: a
look that finds nothing, or a lease that is out, takes it away, and whatever changes that - a new
message, a lease that ends - sets it again.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, islice

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.journal import Commit, Event
from apps.engine.broker.litesets import LiteClient, LitePlan, LiteSets
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.operatorevents import HeadPassed, OffsetReset, QueueSuspended
from apps.engine.broker.pop import Pop
from apps.engine.broker.progress import QueueProgress
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.codec.litenames import is_lite, lite_parts, lite_topic
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.engine.litetypes import (
    LiteAction,
    LiteModel,
    LitePage,
    LiteSubscription,
    LiteSync,
    LiteSynced,
    LiteTopic,
)
from apps.engine.types import ConsumeFrom, ReceiveRequest, ReceiveResult, TopicType

# Looking at one costs some microseconds, and nobody else is served meanwhile.
_LOOKS_MAX = 512
_LISTED_MAX = 1_000
_NAMES_OF_CLIENT = 100
# Each is about a microsecond, and nobody else is served meanwhile.
_COUNTED_MAX = 20_000


class LiteRead:
    """The verbs of lite topics but sending."""

    def __init__(
        self,
        sets: LiteSets,
        topics: LiteTopics,
        *,
        pop: Pop,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        recorder: Recorder,
        times: StoreTimes,
        clock: Clock,
    ) -> None:
        """Bind to a store, and hear of what may make something ready."""
        self.sets = sets
        self.topics = topics
        self._pop = pop
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._recorder = recorder
        self._times = times
        self._clock = clock
        state.leases.on_free = self._freed
        recorder.on_event(self._happened)

    # --- sets ----------------------------------------------------------------------------------

    def sync(self, request: LiteSync, *, wait: bool) -> LiteSynced:
        """Change a client's set; see EngineAPI.

        Raises ColdRead, with nothing changed, when `wait` is false and the disk is needed.
        """
        check_group_name(request.group)
        check_client_id(request.client_id)
        if not request.client_id:
            raise InvalidArgument("a client that subscribes to lite topics has a client_id")
        _check_begin(request)
        if request.action is LiteAction.CLEAR and request.names:
            raise InvalidArgument("whoever gives up all lite topics names none")
        group = self._catalog.group(request.group)
        if request.action is not LiteAction.CLEAR:
            # Who leaves may do so whatever has become of the group and the parent.
            self._catalog.usable_group(request.group)
            self._check_parent(request.topic)
        names = [lite_topic(request.topic, name) for name in request.names]
        plan = self.sets.planned(
            request.group, request.client_id, request.topic, request.action, names
        )
        begins = self._begins(request, plan, wait=wait)
        # Recorded before the set changes: what is raised leaves both as they were.
        self._recorder.record_all(begins)
        evicted = self.sets.carry_out(plan, is_exclusive=group.lite_model is LiteModel.EXCLUSIVE)
        client = self.sets.find(request.group, request.client_id)
        if client is not None:
            ready = (topic for topic in plan.new if self._may_have_some(client, topic))
            self.sets.mark_for(client, ready)
        return LiteSynced(
            count=0 if client is None else len(client.topics),
            evicted=tuple((who, _name(topic)) for who, topic in evicted),
        )

    def _check_parent(self, topic: str) -> None:
        spec = self._catalog.readable(topic)
        if spec.type is not TopicType.LITE or is_lite(topic):
            raise UnknownTopic(f"topic {topic!r} is no parent of lite topics")

    def _begins(self, request: LiteSync, plan: LitePlan, *, wait: bool) -> list[Event]:
        """Return where the group begins in topics that are new to the client and to the group."""
        request = self._decided(request)
        has_place = request.begin_offset is not None or request.begin_tail is not None
        if not has_place and request.begin in (None, ConsumeFrom.FIRST):
            return []
        found: list[Event] = []
        for topic in plan.new:
            queue = self._queues.find(topic, 0)
            # What comes to an empty one comes later than this.
            if queue is None or queue.visible <= queue.min_offset:
                continue
            if (request.group, topic, 0) in self._state.progress:
                continue
            offset = self._begin(request, queue, wait=wait)
            found.append(
                Commit(group=request.group, topic=queue.topic, queue=0, queue_offset=offset)
            )
        return found

    def _decided(self, request: LiteSync) -> LiteSync:
        """Return a request to add that says where to begin: where the group does, if it did not."""
        is_said = (request.begin, request.begin_offset, request.begin_tail) != (None, None, None)
        if is_said or request.action is not LiteAction.ADD:
            return request
        spec = self._catalog.group(request.group)
        return replace(request, begin=spec.consume_from, begin_ms=spec.consume_from_ms)

    def _begin(self, request: LiteSync, queue: ConsumeQueue, *, wait: bool) -> int:
        """Return where in a queue a request wants to begin, as far as it has that."""
        if request.begin_offset is not None:
            return min(max(request.begin_offset, queue.min_offset), queue.visible)
        if request.begin_tail is not None:
            return max(queue.visible - request.begin_tail, queue.min_offset)
        if request.begin is ConsumeFrom.TIMESTAMP:
            return self._times.first_since(queue, request.begin_ms or 0, wait=wait)
        return queue.visible

    # --- receiving -----------------------------------------------------------------------------

    def check(self, request: ReceiveRequest) -> None:
        """Raise InvalidArgument or UnknownTopic unless it is a receive of one client's set."""
        if len(request.topics) != 1 or not request.client_id:
            raise InvalidArgument("a receive from lite topics is a client's, and names a parent")
        self._check_parent(request.topics[0])

    def receive(self, request: ReceiveRequest, *, wait: bool) -> ReceiveResult:
        """Hand out messages of the client's lite topics, of each in order; see Pop.

        Nothing where the client has none here: it has not said its set since the broker started.
        """
        client = self.sets.find(request.group, request.client_id)
        if client is None or client.parent != request.topics[0]:
            return ReceiveResult(leases=())
        self.sets.see(client)
        looked: list[str] = []
        result = self._pop.receive(
            replace(request, ordered=True), wait=wait, queues=self._ready_queues(client, looked)
        )
        for topic in looked:
            client.ready.pop(topic, None)
            if topic in client.topics and self._has_some(client.group, topic):
                # Behind the others: each has its turn.
                client.ready[topic] = None
        more = len(looked) >= _LOOKS_MAX and bool(client.ready)
        return replace(result, blocked=(), has_more=result.has_more or more)

    def is_due(self, group: str, client_id: str) -> bool:
        """Say whether a client that waits has something to look at."""
        client = self.sets.find(group, client_id)
        return client is not None and bool(client.ready)

    def waits_for_sync(self, group: str, client_id: str, synced_offset: int) -> bool:
        """Say whether a client waits for messages that are written and not synced."""
        client = self.sets.find(group, client_id)
        return client is not None and client.stored_to > synced_offset

    def _ready_queues(self, client: LiteClient, looked: list[str]) -> Iterator[ConsumeQueue]:
        """Iterate over the queues that are marked; what was looked at without a fault is noted."""
        for topic in list(islice(client.ready, _LOOKS_MAX)):
            queue = self._queues.find(topic, 0)
            if queue is not None:
                yield queue
            looked.append(topic)

    def _may_have_some(self, client: LiteClient, topic: str) -> bool:
        queue = self._queues.find(topic, 0)
        if queue is None:
            return False
        if queue.end > queue.visible:
            # Shown to everybody once it is synced; who waits is a reason to sync.
            client.stored_to = max(client.stored_to, self._recorder.written_offset)
        return self._has_some(client.group, topic)

    def _has_some(self, group: str, topic: str) -> bool:
        """Say whether a group has something to be handed out of a lite topic now."""
        queue = self._queues.find(topic, 0)
        if queue is None or (group, topic, 0) in self._state.operators.suspensions:
            # A suspension that ends is told.
            return False
        progress = self._state.progress.get((group, topic, 0))
        if progress is None:
            return queue.visible > queue.min_offset
        return self._pop.has_ready(progress, queue)

    def shown(self, topic: str) -> None:
        """Note that a lite topic has a message that readers may see."""
        self.sets.mark(topic)

    def _freed(self, progress: QueueProgress) -> None:
        if is_lite(progress.topic):
            self.sets.mark(progress.topic)

    def _happened(self, event: Event) -> None:
        match event:
            case Commit() | HeadPassed() | OffsetReset() | QueueSuspended():
                if is_lite(event.topic):
                    self.sets.mark(event.topic)

    def group_changed(self, groups: set[str]) -> None:
        """Look again at what failed messages of groups with other settings may get."""
        for entry in self._state.leases:
            if entry.is_ready and entry.progress.group in groups:
                self._freed(entry.progress)

    # --- for people ----------------------------------------------------------------------------

    def page(self, parent: str, *, after: str, count: int) -> LitePage:
        """Return lite topics of a parent by name; see EngineControl."""
        if not 1 <= count <= _LISTED_MAX:
            raise InvalidArgument(f"1 to {_LISTED_MAX} lite topics at once, not {count}")
        spec = self._catalog.topic(parent)
        if spec.type is not TopicType.LITE or is_lite(parent):
            raise UnknownTopic(f"topic {parent!r} is no parent of lite topics")
        total, found = self.topics.page(parent, after, count)
        return LitePage(total=total, topics=tuple(self._described(topic) for topic in found))

    def _described(self, topic: str) -> LiteTopic:
        queue = self._queues.find(topic, 0)
        visible = 0 if queue is None else queue.visible
        return LiteTopic(
            name=_name(topic),
            topic=topic,
            min_offset=0 if queue is None else min(queue.min_offset, visible),
            max_offset=visible,
            last_ms=self.topics.last_ms(topic),
            subscribers=self.sets.subscribers(topic),
        )

    def subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        """Return the clients of a group that have lite topics; see EngineControl."""
        check_group_name(group)
        clients = self.sets.of_group(group)
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        # Of the first clients by id, as many as can be counted at once.
        so_far = accumulate(len(client.topics) for client in clients)
        is_counted = [topics <= _COUNTED_MAX for topics in so_far]
        return tuple(
            LiteSubscription(
                client_id=client.client_id,
                topic=client.parent,
                names=tuple(map(_name, self.sets.first(client, _NAMES_OF_CLIENT))),
                count=len(client.topics),
                seen_ms=wall_ms if client.parked else wall_ms - (now_ms - client.seen_ms),
                lag=self._lag(client) if is_small else None,
            )
            for client, is_small in zip(clients, is_counted, strict=True)
        )

    def _lag(self, client: LiteClient) -> int:
        """Return how many messages of a client's lite topics its group has yet to settle."""
        lag = 0
        for topic in client.topics:
            queue = self._queues.find(topic, 0)
            if queue is not None:
                progress = self._state.progress.get((client.group, topic, 0))
                floor = 0 if progress is None else progress.floor
                lag += max(0, queue.visible - max(floor, queue.min_offset))
        return lag


def _check_begin(request: LiteSync) -> None:
    """Raise InvalidArgument where it does not say where to begin, or says it twice."""
    if request.begin is ConsumeFrom.TIMESTAMP and request.begin_ms is None:
        raise InvalidArgument("begin timestamp needs the time")
    said = (request.begin, request.begin_offset, request.begin_tail)
    if sum(one is not None for one in said) > 1:
        raise InvalidArgument("a subscription begins at one place")
    if min(request.begin_offset or 0, request.begin_tail or 0) < 0:
        raise InvalidArgument("begin_offset and begin_tail are 0 or more")


def _name(topic: str) -> str:
    parts = lite_parts(topic)
    assert parts is not None
    return parts[1]
