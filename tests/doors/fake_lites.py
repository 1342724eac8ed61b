"""Lite topics of the fake engine: who is subscribed to which, in lists and dictionaries."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from apps.engine.clock import Clock
from apps.engine.codec.litenames import lite_parts, lite_topic
from apps.engine.codec.record import decode_record
from apps.engine.errors import (
    InvalidArgument,
    LiteSubscriptionsExhausted,
    MessageIllegal,
    NotPermitted,
    UnknownTopic,
)
from apps.engine.limits import LITE_SILENT_MS, LITE_SUBSCRIPTIONS_MAX
from apps.engine.litetypes import (
    LiteAction,
    LiteBacklog,
    LiteModel,
    LitePage,
    LiteSubscription,
    LiteSync,
    LiteSynced,
    LiteTopic,
    LiteTotal,
)
from apps.engine.types import (
    CatalogSnapshot,
    ConsumeFrom,
    ReceiveRequest,
    ReceiveResult,
    Special,
    TopicSpec,
    TopicType,
)
from tests.doors.fake_groups import FakeGroups

Place = tuple[str, int]


def check_plain(spec: TopicSpec, special: Special) -> None:
    if spec.type is not TopicType.LITE:
        return
    if lite_parts(spec.name) is None:
        raise MessageIllegal("a message names a lite topic")
    if special & (Special.DELAY | Special.TRANSACTION):
        raise MessageIllegal("a lite topic has no delays and no transactions")


class FakeSets:
    """The sets of clients, by group and client id."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._sets: dict[tuple[str, str], dict[str, None]] = {}
        self._parents: dict[tuple[str, str], str] = {}
        self._seen_ms: dict[tuple[str, str], int] = {}
        self._lost: dict[tuple[str, str], dict[str, int]] = {}

    def see(self, group: str, client_id: str) -> None:
        if (group, client_id) in self._sets:
            self._seen_ms[group, client_id] = self._now_ms()

    def names(self, group: str, client_id: str) -> list[str]:
        self._forget_silent()
        return list(self._sets.get((group, client_id), {}))

    def subscribers(self, parent: str, name: str) -> int:
        self._forget_silent()
        return sum(
            name in names for key, names in self._sets.items() if self._parents[key] == parent
        )

    def reads(self) -> dict[tuple[str, str], set[str]]:
        """Return the names that clients have, by group and parent."""
        self._forget_silent()
        found: dict[tuple[str, str], set[str]] = {}
        for (group, client_id), names in self._sets.items():
            found.setdefault((group, self._parents[group, client_id]), set()).update(names)
        return found

    def of_group(self, group: str, lag_of: Callable[[str], int]) -> tuple[LiteSubscription, ...]:
        self._forget_silent()
        return tuple(
            LiteSubscription(
                client_id=client_id,
                topic=self._parents[name, client_id],
                names=tuple(sorted(names)[:100]),
                count=len(names),
                seen_ms=self._seen_ms[name, client_id],
                lag=sum(lag_of(lite_topic(self._parents[name, client_id], one)) for one in names),
            )
            for (name, client_id), names in sorted(self._sets.items())
            if name == group and names
        )

    def sync(self, request: LiteSync, *, is_exclusive: bool) -> tuple[LiteSynced, list[str]]:
        """Return the answer, and the names that are new to the client."""
        self._forget_silent()
        key = (request.group, request.client_id)
        others = {self._parents[k] for k in self._sets if k[0] == request.group and k != key}
        if others - {request.topic}:
            raise NotPermitted(f"group {request.group} reads lite topics of {others.pop()}")
        lost = self._lost.setdefault(key, {})
        before = self._sets.get(key, {})
        told: list[tuple[str, str]] = []
        match request.action:
            case LiteAction.CLEAR:
                after: dict[str, None] = {}
                lost.clear()
            case LiteAction.REMOVE:
                after = {name: None for name in before if name not in request.names}
            case LiteAction.ADD:
                after = before | dict.fromkeys(request.names)
                for name in request.names:
                    lost.pop(name, None)
            case LiteAction.REPLACE:
                after = {name: None for name in request.names if name not in lost}
                told = [(request.client_id, name) for name in request.names if name in lost]
                self._lost[key] = {n: at for n, at in lost.items() if n in request.names}
        if len(after) > LITE_SUBSCRIPTIONS_MAX:
            raise LiteSubscriptionsExhausted(f"a client has up to {LITE_SUBSCRIPTIONS_MAX}")
        new = [name for name in after if name not in before]
        for other, names in self._sets.items() if is_exclusive else ():
            for name in new if other[0] == request.group and other != key else ():
                if name in names:
                    del names[name]
                    self._lost.setdefault(other, {})[name] = self._now_ms()
                    told.append((other[1], name))
        if after:
            self._sets[key], self._parents[key] = after, request.topic
            self.see(*key)
        else:
            self._drop(key)
        return LiteSynced(count=len(after), evicted=tuple(told)), new

    def _drop(self, key: tuple[str, str]) -> None:
        for table in (self._sets, self._parents, self._seen_ms):
            table.pop(key, None)  # type: ignore[attr-defined]

    def _forget_silent(self) -> None:
        since_ms = self._now_ms() - LITE_SILENT_MS
        for key in [key for key, seen_ms in self._seen_ms.items() if seen_ms < since_ms]:
            self._drop(key)
            self._lost.pop(key, None)
        for lost in self._lost.values():
            for name in [name for name, at_ms in lost.items() if at_ms < since_ms]:
                del lost[name]


class LiteVerbs:
    """The verbs of EngineAPI about lite topics."""

    catalog: CatalogSnapshot
    _clock: Clock
    _sets: FakeSets
    _groups: FakeGroups
    _named: dict[tuple[str, str], ReceiveResult]
    _queues: dict[Place, list[bytes]]
    _settled: dict[tuple[str, Place], set[int]]

    @abstractmethod
    def _out(self, group: str, place: Place) -> set[int]: ...

    def _again(self, request: ReceiveRequest) -> ReceiveResult | None:
        """Return what a lite receive of the same name was answered, while that is out."""
        before = self._named.get((request.group, request.attempt_id))
        if not request.is_lite or not request.attempt_id or before is None:
            return None
        blocks = [lease.block for lease in before.leases]
        is_out = all(self._out(request.group, (block.topic, block.queue)) for block in blocks)
        return before if is_out else None

    @abstractmethod
    def _wake(self) -> None: ...

    def _parent(self, topic: str) -> TopicSpec:
        spec = self.catalog.topics.get(topic)
        if spec is None or spec.type is not TopicType.LITE:
            raise UnknownTopic(f"there is no parent {topic}")
        return spec

    def _lite_spec(self, name: str) -> TopicSpec | None:
        parts = lite_parts(name)
        parent = None if parts is None else self.catalog.topics.get(parts[0])
        if parent is None or parent.type is not TopicType.LITE:
            return None
        return replace(parent, name=name, queue_count=1, write_queue_count=None)

    def _see(self, request: ReceiveRequest) -> None:
        if not request.is_lite:
            return
        if len(request.topics) != 1 or not request.client_id:
            raise InvalidArgument("a lite receive is a client's, of one parent")
        self._parent(request.topics[0])
        self._sets.see(request.group, request.client_id)

    def _of_sets(self, request: ReceiveRequest) -> ReceiveRequest:
        """Return a lite receive as one in order of what the client is subscribed to."""
        if not request.is_lite:
            return request
        names = self._sets.names(request.group, request.client_id)
        topics = tuple(lite_topic(request.topics[0], name) for name in names)
        return replace(request, topics=topics, ordered=True)

    async def sync_lite(self, request: LiteSync) -> LiteSynced:
        if request.action is not LiteAction.CLEAR:
            self._groups.check_enabled(request.group)
            self._parent(request.topic)
        if not request.client_id:
            raise InvalidArgument("a client that subscribes says who it is")
        if [request.begin, request.begin_offset, request.begin_tail].count(None) < 2:
            raise InvalidArgument("a subscription begins at one place")
        topics = {name: lite_topic(request.topic, name) for name in request.names}
        spec = self.catalog.groups.get(request.group)
        model = LiteModel.SHARED if spec is None else spec.lite_model
        answer, new = self._sets.sync(request, is_exclusive=model is LiteModel.EXCLUSIVE)
        for name in new:
            place = (topics[name], 0)
            length = len(self._queues.get(place, []))
            begin = self._begin_of(request, length)
            if begin is not None and length:
                self._settled.setdefault((request.group, place), set(range(begin)))
        self._wake()
        return answer

    def _begin_of(self, request: LiteSync, length: int) -> int | None:
        """Return where a group begins in a queue so long; None where it is just read."""
        said = [request.begin, request.begin_offset, request.begin_tail]
        spec = self.catalog.groups.get(request.group)
        begin = request.begin
        if said == [None] * 3 and spec is not None and request.action is LiteAction.ADD:
            begin = spec.consume_from
        if request.begin_offset is not None:
            return min(request.begin_offset, length)
        if request.begin_tail is not None:
            return max(0, length - request.begin_tail)
        return length if begin is ConsumeFrom.LAST else None

    def _lites_of(self, parent: str) -> Iterator[tuple[str, str]]:
        for topic, _ in list(self._queues):
            parts = lite_parts(topic)
            if parts is not None and parts[0] == parent:
                yield parts[1], topic

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        self._parent(topic)
        if not 1 <= count <= 1_000:
            raise InvalidArgument(f"1 to 1,000 lite topics, not {count}")
        found = sorted(self._lites_of(topic))
        behind: Iterable[tuple[str, str]] = [pair for pair in found if pair[0] > after][:count]
        return LitePage(
            total=len(found),
            topics=tuple(
                LiteTopic(
                    name=name,
                    topic=own,
                    min_offset=0,
                    max_offset=len(self._queues[own, 0]),
                    last_ms=decode_record(self._queues[own, 0][-1], 0).store_time_ms,
                    subscribers=self._sets.subscribers(topic, name),
                )
                for name, own in behind
            ),
        )

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        def lag_of(topic: str) -> int:
            settled = self._settled.get((group, (topic, 0)), set())
            return len(set(range(len(self._queues.get((topic, 0), ())))) - settled)

        return self._sets.of_group(group, lag_of)

    def lite_totals(self) -> dict[str, LiteTotal]:
        held = {
            name: sum(len(self._queues[topic, 0]) for _, topic in self._lites_of(name))
            for name, spec in self.catalog.topics.items()
            if spec.type is TopicType.LITE
        }
        # It lives as long as its store does, and lets nothing go.
        return {name: LiteTotal(came=count, held=count) for name, count in held.items()}

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        subscribed = self._sets.reads()
        read = {
            (name, parts[0])
            for name, (topic, _) in self._settled
            if (parts := lite_parts(topic)) is not None
        }
        return [
            self._lite_backlog_of(name, parent, subscribed.get((name, parent), set()))
            for name, parent in sorted(read | subscribed.keys())
            if group in (None, name) and parent in self.catalog.topics
        ]

    def _lite_backlog_of(self, group: str, parent: str, subscribed: set[str]) -> LiteBacklog:
        spec = self.catalog.groups.get(group)
        begins_last = spec is not None and spec.consume_from is ConsumeFrom.LAST
        left: dict[Place, set[int]] = {}
        for name, topic in self._lites_of(parent):
            is_read = (group, (topic, 0)) in self._settled
            if begins_last and not is_read and name not in subscribed:
                continue
            settled = self._settled.get((group, (topic, 0)), set())
            left[topic, 0] = set(range(len(self._queues[topic, 0]))) - settled
        out = sum(len(self._out(group, place) & offsets) for place, offsets in left.items())
        lag = sum(map(len, left.values()))
        stored_ms = [
            decode_record(self._queues[place][min(offsets)], 0).store_time_ms
            for place, offsets in left.items()
            if offsets
        ]
        return LiteBacklog(
            group=group,
            topic=parent,
            arrived=sum(len(self._queues[topic, 0]) for _, topic in self._lites_of(parent)),
            lag=lag,
            topics_behind=len(stored_ms),
            in_flight=out,
            ready=lag - out,
            oldest_age_ms=self._clock.wall_ms() - min(stored_ms) if stored_ms else None,
        )
