"""Who uses topics, as the engine says it. Knows clients, ranges and progress; no row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.core.moments import moment
from apps.engine.api import EngineControl
from apps.topics.lites import ranges_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How a topic was used, up to the moment the engine was asked.

    `offset` is the sum of its queues' max offsets, its lite topics' among them; None where the
    engine does not have the topic.
    """

    offset: int | None
    read_at: datetime | None
    has_in_flight: bool


def usage_of(engine: EngineControl, names: Sequence[str]) -> Mapping[str, Usage]:
    """Ask the engine how topics are used. Raises what the engine raises."""
    ranges = engine.topic_ranges(names)
    in_flight = {row.topic for row in engine.group_progress() if row.in_flight}
    read_ms: dict[str, int] = {}
    for client in engine.clients():
        for topic in client.topics:
            read_ms[topic] = max(read_ms.get(topic, 0), client.last_seen_ms)
    return {
        name: Usage(
            offset=sum(queue.max_offset for queue in (*ranges[name], *ranges_of(engine, name)))
            if name in ranges
            else None,
            read_at=moment(read_ms[name]) if name in read_ms else None,
            has_in_flight=name in in_flight,
        )
        for name in names
    }


def readers_of(engine: EngineControl, name: str) -> list[str]:
    """Return the groups that use a topic right now: by members, or by messages that are out.

    Who only pulled or received lately is no longer there, as far as the engine can know.
    """
    found = {
        member.group
        for member in engine.members()
        if any(wanted.topic == name for wanted in member.subscriptions)
    }
    found |= {
        client.group for client in engine.clients() if client.is_waiting and name in client.topics
    }
    found |= {row.group for row in engine.group_progress() if row.topic == name and row.in_flight}
    return sorted(found)
