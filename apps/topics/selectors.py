"""Topics as read: rows, with what the engine holds of each queue joined in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from apps.bridge import engine as bridge
from apps.core.exceptions import DATABASE_ERRORS
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.codec.litenames import is_lite, lite_parts
from apps.engine.errors import Busy, UnknownTopic
from apps.engine.types import QueueRange, TopicSpec
from apps.topics import lites
from apps.topics.draining import Unread, look_at
from apps.topics.models import Topic
from apps.topics.usage import readers_of

# Of one topic; who has more left to wait for looks at the groups' lag.
UNREAD_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue and the offsets readers may see; None where the engine cannot say."""

    number: int
    min_offset: int | None
    max_offset: int | None
    kept_messages: int | None
    compacted_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic's row and its queues, in the order of their numbers.

    `waiting_for` is what keeps a change of the number of queues from going on. It and the target
    are None where nobody can say.
    """

    name: str
    type: str
    queue_count: int
    write_queue_count: int
    target_queue_count: int | None
    waiting_for: Sequence[Unread] | None
    perm: int
    expires_ms: int | None
    retention_ms: int | None
    cleanup: str
    lite_ttl_minutes: int | None
    created_at: datetime | None
    updated_at: datetime | None
    queues: Sequence[QueueState]


def topic_state(name: str) -> TopicState:
    """Return one topic; raise UnknownTopic.

    While the database is away the engine answers, as far as it knows the topic: producers ask for
    the number of queues, and messages go on.
    """
    if name == TRACE_TOPIC:
        return bridge.call(_traces_state)
    if is_lite(name):
        return bridge.call(lambda engine: _lite_state(engine, name))
    try:
        topic = Topic.objects.filter(name=name).first()
    except DATABASE_ERRORS:
        found = bridge.call(lambda engine: _known_state(engine, name))
        if found is None:
            raise
        return found
    if topic is None:
        raise UnknownTopic(sentence("there is no topic %(name)s", name=repr(name)))
    return _state(topic, _ranges([name]), _unread([topic]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """What a topic holds and which groups read it, at the moment the engine was asked."""

    held: int
    readers: Sequence[str]


def use_of(name: str) -> TopicUse:
    """Return what goes with a topic, and from whom. Raises what the engine raises."""

    def asked(engine: EngineControl) -> TopicUse:
        queues = [*engine.topic_ranges([name]).get(name, ()), *lites.ranges_of(engine, name)]
        held = sum(queue.max_offset - queue.min_offset for queue in queues)
        return TopicUse(held=held, readers=readers_of(engine, name))

    return bridge.call(asked)


def exists(name: str) -> bool:
    """Say whether there is a topic of this name in the catalog."""
    return Topic.objects.filter(name=name).exists()


def _traces_state(engine: EngineControl) -> TopicState:
    """Return the topic that is there without a row, so that its readers find their way."""
    held = engine.queue_ranges(TRACE_TOPIC)
    return _state_of(TopicSpec(name=TRACE_TOPIC, queue_count=len(held)), held)


def _lite_state(engine: EngineControl, name: str) -> TopicState:
    """Return a lite topic that has messages, which has no row; raise UnknownTopic."""
    parts = lite_parts(name)
    parent = None if parts is None else engine.catalog.topics.get(parts[0])
    if parent is None:
        raise UnknownTopic(sentence("there is no topic %(name)s", name=repr(name)))
    held = engine.queue_ranges(name)
    return _state_of(replace(parent, name=name, queue_count=1, write_queue_count=None), held)


def _known_state(engine: EngineControl, name: str) -> TopicState | None:
    spec = engine.catalog.topics.get(name)
    return None if spec is None else _state_of(spec, engine.queue_ranges(name))


def _state_of(spec: TopicSpec, ranges: Sequence[QueueRange]) -> TopicState:
    held = {found.queue: found for found in ranges}
    return TopicState(
        name=spec.name,
        type=spec.type,
        queue_count=spec.queue_count,
        write_queue_count=spec.queue_count
        if spec.write_queue_count is None
        else spec.write_queue_count,
        target_queue_count=None,
        waiting_for=None,
        perm=spec.perm,
        expires_ms=None,
        retention_ms=spec.retention_ms,
        cleanup=spec.cleanup.value,
        lite_ttl_minutes=None if spec.lite_ttl_ms is None else spec.lite_ttl_ms // 60_000,
        created_at=None,
        updated_at=None,
        queues=[_queue_state(number, held.get(number)) for number in range(spec.queue_count)],
    )


def topic_states(
    *, after: str, topics_max: int, is_shown: Callable[[str], bool] | None = None
) -> list[TopicState]:
    """Return topics by name, those after `after`, at most `topics_max` of them.

    Only those whose name `is_shown` takes; their names are read one by one until there are enough.
    """
    rows = Topic.objects.filter(name__gt=after).order_by("name")
    if is_shown is not None:
        names = rows.values_list("name", flat=True).iterator()
        rows = rows.filter(name__in=list(islice(filter(is_shown, names), topics_max)))
    topics = list(rows[:topics_max])
    ranges = _ranges([topic.name for topic in topics])
    unread = _unread(topics)
    return [_state(topic, ranges, unread) for topic in topics]


def _ranges(names: Sequence[str]) -> Mapping[str, Mapping[int, QueueRange]]:
    """Ask the engine once for all topics; it may know fewer, or be on its way out."""
    try:
        ranges = bridge.call(lambda engine: engine.topic_ranges(names))
    except Busy:
        return {}
    return {name: {found.queue: found for found in held} for name, held in ranges.items()}


def _unread(topics: Sequence[Topic]) -> Mapping[str, Sequence[Unread] | None]:
    """Return what the topics that change their queues wait for, as far as the engine can say."""
    names = [topic.name for topic in topics if topic.write_queue_count != topic.queue_count]
    if not names:
        return {}
    try:
        looks = bridge.call(lambda engine: look_at(engine, names))
    except Busy:
        return dict.fromkeys(names)
    targets = {topic.name: topic.target_queue_count for topic in topics}
    waits_for_all = {
        topic.name for topic in topics if topic.write_queue_count < topic.target_queue_count
    }
    return {
        name: [
            found
            for found in look.unread
            if found.queue >= targets[name] or (name in waits_for_all and found.group is not None)
        ][:UNREAD_SHOWN_MAX]
        for name, look in looks.items()
    }


def _state(
    topic: Topic,
    ranges: Mapping[str, Mapping[int, QueueRange]],
    unread: Mapping[str, Sequence[Unread] | None],
) -> TopicState:
    held = ranges.get(topic.name, {})
    return TopicState(
        name=topic.name,
        type=topic.type,
        queue_count=topic.queue_count,
        write_queue_count=topic.write_queue_count,
        target_queue_count=topic.target_queue_count,
        waiting_for=unread.get(topic.name, []),
        perm=topic.perm,
        expires_ms=topic.expires_ms,
        retention_ms=topic.retention_ms,
        cleanup=topic.cleanup,
        lite_ttl_minutes=topic.lite_ttl_minutes,
        created_at=topic.created_at,
        updated_at=topic.updated_at,
        queues=[_queue_state(number, held.get(number)) for number in range(topic.queue_count)],
    )


def _queue_state(number: int, found: QueueRange | None) -> QueueState:
    return QueueState(
        number=number,
        min_offset=None if found is None else found.min_offset,
        max_offset=None if found is None else found.max_offset,
        kept_messages=None if found is None else found.kept_messages,
        compacted_ms=None if found is None else found.compacted_ms,
    )
