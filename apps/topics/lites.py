"""Lite topics of a topic, as read from the engine. Knows no row: there is none for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.bridge import engine as bridge
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.codec.litenames import lite_parts
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.engine.litetypes import LiteTopic
from apps.engine.types import QueueRange, TopicType


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteTopics:
    """Some lite topics by name, how many there are in all, and whether more come behind them."""

    total: int
    topics: Sequence[LiteTopic]
    has_more: bool


def lite_topics(name: str, *, after: str, topics_max: int) -> LiteTopics:
    """Return the lite topics of a topic whose names come after `after`, by name.

    Raises UnknownTopic, InvalidArgument for a topic of another type, and Busy.
    """

    def asked(engine: EngineControl) -> LiteTopics:
        spec = engine.catalog.topics.get(name)
        if spec is None:
            raise UnknownTopic(sentence("there is no topic %(name)s", name=repr(name)))
        if spec.type is not TopicType.LITE:
            raise InvalidArgument(sentence("topic %(name)s is not of type LITE", name=repr(name)))
        page = engine.lite_topics(name, after=after, count=topics_max)
        is_full = len(page.topics) == topics_max
        # The engine is asked for no more at once than a page may have.
        has_more = is_full and bool(
            engine.lite_topics(name, after=page.topics[-1].name, count=1).topics
        )
        return LiteTopics(total=page.total, topics=page.topics, has_more=has_more)

    return bridge.call(asked)


def ranges_of(engine: EngineControl, name: str) -> list[QueueRange]:
    """Return what the lite topics of a topic hold, each in its one queue; none for other types."""
    spec = engine.catalog.topics.get(name)
    if spec is None or spec.type is not TopicType.LITE:
        return []
    # Another parent's name may begin as this one's lite topics do: `a` and `a|b`.
    return [
        queue
        for topic, queues in engine.own_ranges(f"{LITE_PREFIX}{name}|").items()
        if (lite_parts(topic) or ("",))[0] == name
        for queue in queues
    ]
